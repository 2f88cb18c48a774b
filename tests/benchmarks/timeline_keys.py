"""Time of a key press in the timeline of a step with 10,000 spans and 5,000 gaps, and in one with 100 spans.

Measured in a terminal of 160x50, from the key press to the last byte that the app writes: moving the mark, zooming in
and zooming out, with the timing pane zoomed. Then the time to build the document in this process, at each zoom anew.

Run: python -m tests.benchmarks.timeline_keys
"""

from __future__ import annotations

import random
import statistics
import sys
import time
from dataclasses import replace

from tcexplore import events as ev
from tcexplore.documents.document import with_choices
from tcexplore.documents.timing.step_timeline_view import StepTimelineDocument, step_timeline_document
from tcexplore.session import Snapshot
from tcexplore.ui.app import ExplorerApp
from tests import fakes
from tests.benchmarks.grouped_layers import _measure_key
from tests.benchmarks.select_line import FinishedRun
from tests.terminal import Terminal

SPANS = {"large": 10_000, "small": 100}
KEYS = {"move": ("\x1b[C",) * 30, "zoom": ("+", "+", "+", "-", "-", "-") * 5}


def run_with(spans: int) -> Snapshot:
    """Return a run with a timeline of so many spans: half of them launches of the host, half tasks of the device."""
    random.seed(1)
    run = fakes.complete(1)
    rows: dict[str, list[ev.TimelineSpan]] = {"ops": [], "stream 7": []}
    gaps, at, until = [], 0.0, 0.0
    for number in range(spans // 2):
        at += random.uniform(1, 8)
        start, us = max(at + 3, until), random.uniform(1, 6)
        name = f"triton_poi_fused_{number}"
        if start > until:
            gaps.append(ev.TimelineGap(start_us=until, us=start - until, cause="host-bound", reason="late"))
        for row, begin, kind in (("ops", at, "eager op"), ("stream 7", start, "kernel")):
            length = min(us, 1.0) if row == "ops" else us
            rows[row].append(ev.TimelineSpan(name=name, start_us=begin, us=length, kind=kind, phase="forward"))  # type: ignore[arg-type]
        until = start + us
    step = ev.StepTimeline(
        run=1, step="ProfilerStep#1", us=until, device="GPU",
        rows=tuple(
            ev.TimelineRow(name=name, place="host" if name == "ops" else "device", spans=tuple(own))
            for name, own in rows.items()
        ),
        gaps=tuple(gaps), parts=(ev.TimelinePart(kind="computing", us=until, count=spans),),
    )  # fmt: skip
    return replace(run, step_timelines=(step,))


def show(name: str) -> None:
    """Run the app in this terminal."""
    run = run_with(SPANS[name])
    app = ExplorerApp(lambda: FinishedRun(lambda: setattr(app, "session", fakes.session(run))))
    app.run()


def measure(name: str) -> dict[str, list[float]]:
    """Return the seconds that each press of a key takes."""
    with Terminal([sys.executable, "-m", __spec__.name, name], columns=160, rows=50) as terminal:
        terminal.wait_for("1 Source")
        terminal.read(3.0)
        terminal.type("6zV")  # the timeline is the last view
        terminal.wait_for("Longest gaps")
        terminal.read(1.0)
        terminal.type("\x1b[B" * 6)
        terminal.read(1.0)
        return {kind: [_measure_key(terminal, key) for key in keys] for kind, keys in KEYS.items()}


def build() -> list[float]:
    """Return the seconds of building the document at different zooms, each for the first time."""
    run, toggled, times = run_with(SPANS["large"]), frozenset[str](), []
    for by in (1,) * 8:
        start = time.perf_counter()
        document = step_timeline_document(run, toggled, 158)
        times.append(time.perf_counter() - start)
        assert isinstance(document, StepTimelineDocument), "the run has a timeline"
        toggled = with_choices(toggled, document.steer("zoom", by, 0))
    return times


def main() -> None:
    """Print median and maximum of both, and the ratio."""
    times = build()
    sys.stdout.write(f"document of {SPANS['large']:,} spans: {max(times) * 1e3:.0f} ms whole, each zoom halves it\n")
    measured = {name: measure(name) for name in SPANS}
    for kind in KEYS:
        for name, spans in SPANS.items():
            own = measured[name][kind]
            text = f"median {statistics.median(own) * 1e3:5.1f} ms, max {max(own) * 1e3:5.1f}"
            sys.stdout.write(f"{kind:4} {spans:6,} spans {text}\n")
        ratio = statistics.median(measured["large"][kind]) / statistics.median(measured["small"][kind])
        sys.stdout.write(f"{kind} ratio {ratio:.2f}\n")


if __name__ == "__main__":
    show(sys.argv[1]) if len(sys.argv) > 1 else main()
