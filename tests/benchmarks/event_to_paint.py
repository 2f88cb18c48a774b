"""Time from the delivery of an event until its row has reached the terminal, without torch and without workers.

The app runs in a pseudo-terminal on an engine that plays the same run again and again, with the pauses of a small model
between its events. Each run has another constant in its source, graph and code.

Run: python -m tests.benchmarks.event_to_paint [--columns 160 --rows 50]
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import resource
import statistics
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from tcexplore import events as ev
from tcexplore.ui.app import ExplorerApp
from tcexplore.ui.engine import Deliver
from tcexplore.ui.run_app import FRAMES_PER_S
from tests.snapshots import mlp_dynamo, mlp_graphs, mlp_kernels, mlp_timing
from tests.snapshots.mlp_source import FILE, SOURCE
from tests.snapshots.runs import ENTRY
from tests.terminal import Terminal
from tests.ui.app_under_test import FakeEngine

RUNS = 12
PAUSE_S = 1.0
"""Seconds between two runs."""

LOG = "TCEXPLORE_EVENT_TIMES"


_FIRST_DIGIT = {"job": 7, "graph": 8, "code": 9}


def constant(kind: str, run: int) -> str:
    """Return the number that appears with the job's source, with the graph or with the code of this run only."""
    return f"{_FIRST_DIGIT[kind]}.{run:05d}1"


def played(run: int) -> list[tuple[float, tuple[ev.Event, ...]]]:
    """Return the events of a run, each group with the seconds that it follows the one before."""
    graph = mlp_graphs.first_graph()
    nodes = tuple(replace(node, shape=(constant("graph", run),)) for node in graph.nodes)
    kernels = mlp_kernels.kernels()
    first = replace(kernels[0], name=f"cpp_{constant('code', run)}")
    return [
        (0.01, (ev.PhaseStarted(phase="importing", at=0.0),)),
        (0.02, (ENTRY, ev.PhaseStarted(phase="eager", at=0.02))),
        (0.01, (ev.PhaseStarted(phase="dynamo", graph="0/0", at=0.03), mlp_dynamo.BREAK)),
        (0.02, (replace(graph, nodes=nodes),)),
        (0.01, (ev.PhaseStarted(phase="inductor", graph="0/0", at=0.06), mlp_graphs.post_grad()[0])),
        (0.06, (first, kernels[1], mlp_kernels.wrappers()[0], mlp_dynamo.guards())),
        (0.05, (mlp_graphs.second_graph(), mlp_graphs.post_grad()[1], *kernels[2:], mlp_dynamo.guards("1/0"))),
        (0.05, (*mlp_timing.PHASES, mlp_dynamo.PROFILE, ev.PhaseStarted(phase="timing", at=0.4))),
        (0.05, (*mlp_timing.CALLS, mlp_timing.ACCURACY, mlp_timing.pairs(), mlp_timing.estimate())),
    ]


class PlayingEngine(FakeEngine):
    """Plays `RUNS` runs, and logs when it delivered each job and graph and what the run has cost so far."""

    async def start(self, deliver: Deliver) -> None:
        await super().start(deliver)
        self._task = asyncio.create_task(self._play())

    async def _play(self) -> None:
        with open(os.environ[LOG], "w") as log:  # noqa: ASYNC230
            for run in range(1, RUNS + 1):
                await asyncio.sleep(PAUSE_S)
                cpu = time.process_time()
                print(f"{run} job {time.perf_counter()}", file=log)
                self.deliver(
                    ev.Job(run=run, file=FILE, source=f"# {constant('job', run)}\n{SOURCE}", config=ev.Config())
                )
                for pause, events in played(run):
                    await asyncio.sleep(pause)
                    if isinstance(events[0], ev.GraphCaptured) and events[0].graph == "0/0":
                        print(f"{run} graph {time.perf_counter()}", file=log)
                    if isinstance(events[0], ev.Kernel):
                        print(f"{run} code {time.perf_counter()}", file=log)
                    for event in events:
                        self.deliver(replace(event, run=run))
                await asyncio.sleep(PAUSE_S / 2)
                print(f"{run} cpu {time.process_time() - cpu}", file=log, flush=True)
            print(f"0 rss {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}", file=log)


def play() -> None:
    """Run the app in this terminal, set up as by `run_app`."""
    gc.disable()
    engine = PlayingEngine()
    ExplorerApp(lambda: engine).run()


def paint_times(pane: str, kind: str, columns: int, rows: int) -> tuple[list[float], list[float], int]:
    """Return the seconds from the delivery of `kind` to its paint, the CPU seconds of each run, and the bytes written
    for each run."""
    with tempfile.NamedTemporaryFile("r") as log:
        command = [sys.executable, "-m", "tests.benchmarks.event_to_paint", "--play"]
        painted = {}
        with Terminal(
            command, columns=columns, rows=rows, env={LOG: log.name, "TEXTUAL_FPS": FRAMES_PER_S}
        ) as terminal:
            terminal.type(pane)
            for run in range(1, RUNS + 1):
                painted[run] = terminal.wait_for(constant(kind, run), 30)
                terminal.forget()
            terminal.read(PAUSE_S)
            size = terminal.written // RUNS
            terminal.type("q")
            terminal.wait(10)
        lines = [line.split() for line in Path(log.name).read_text().splitlines()]
    delivered = {int(run): float(at) for run, label, at in lines if label == kind}
    cpu = [float(used) for _, label, used in lines if label == "cpu"]
    return [painted[run] - delivered[run] for run in list(painted)[2:]], cpu[2:], size


def main() -> None:
    """Print the median and the worst time for each pane."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--columns", type=int, default=160)
    parser.add_argument("--rows", type=int, default=50)
    parser.add_argument("--play", action="store_true", help="be the app")
    options = parser.parse_args()
    if options.play:
        play()
        return
    for pane, kind in (("1", "job"), ("2", "graph"), ("5", "code")):
        times, cpu, size = paint_times(pane, kind, options.columns, options.rows)
        print(
            f"{kind:5} to paint, {options.columns} x {options.rows}: median {statistics.median(times) * 1e3:5.1f} ms, "
            f"worst {max(times) * 1e3:5.1f} ms; CPU {statistics.median(cpu) * 1e3:4.0f} ms and {size:,} bytes a run"
        )


if __name__ == "__main__":
    main()
