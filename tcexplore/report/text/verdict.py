"""What was run, and what came of it, in two lines."""

from __future__ import annotations

from collections.abc import Iterable

from rich.text import Text

from tcexplore import events as ev
from tcexplore.documents.paths import shown
from tcexplore.quantities import count
from tcexplore.session import Snapshot, summarize

GAP = " · "

VERDICTS = {
    "faster": "bold green",
    "slower": "bold red",
    "no difference": "bold",
    "undecided": "bold",
    "measuring": "dim",
}


def heading(snapshot: Snapshot, machine: ev.Standby | None) -> Iterable[Text]:
    """The file, what of it was compiled and by which rule, on what, and how."""
    entry, config = snapshot.entry, snapshot.config
    file = shown(snapshot.file)
    yield Text(f"{file}:{entry.name}" if entry and entry.name else file, "bold")
    if entry:
        yield Text(f"{entry.kind}, {entry.rule}", "dim")
        for index, call in enumerate(entry.calls, 1):
            number = f" {index}" if len(entry.calls) > 1 else ""
            yield Text(f"call{number}: {', '.join(call)}", "dim")
    chosen = [f"backend {config.backend}", f"mode {config.mode}"]
    chosen += [f"dynamic {str(config.dynamic).lower()}"] if config.dynamic is not None else []
    chosen += ["fullgraph"] if config.fullgraph else []
    script = entry is not None and entry.kind == "script"
    chosen += [] if script else ["forward and backward"] if config.train else ["forward"]
    on = [f"torch {machine.torch}", machine.device] if machine else []
    yield Text(GAP.join([*on, *chosen]), "dim")
    for note in entry.notes if entry else ():
        yield Text(note)


def verdict(snapshot: Snapshot) -> Iterable[Text]:
    """Compiled or not, breaks, graphs, kernels, faster or slower."""
    if snapshot.failed is not None:
        yield Text(f"✖ failed: {snapshot.failed.type}", "bold red")
    elif not snapshot.compiled:
        yield Text("✖ NOTHING WAS COMPILED: torch.compile captured no graph", "bold red")
    if snapshot.compiled or snapshot.breaks:
        wrong = [Text("✖ WRONG RESULT", "bold red")] if summarize(snapshot).wrong else []
        yield Text(GAP).join([*wrong, _breaks(snapshot), *_counts(snapshot), *_speed(snapshot)])


def _breaks(snapshot: Snapshot) -> Text:
    if snapshot.breaks:
        return Text(f"✖ {count(len(snapshot.breaks), 'graph break')}", "bold red")
    if snapshot.failed is not None:
        return Text("0 graph breaks until then")
    return Text("✔ 0 graph breaks", "bold green")


def _counts(snapshot: Snapshot) -> Iterable[Text]:
    summary = summarize(snapshot)
    yield Text(f"{count(summary.graphs, 'graph')}, {count(summary.ops, 'op')}")
    if snapshot.code.kernels:
        yield Text(f"{count(summary.kernels, 'kernel')}" + (f" + {summary.extern} extern" if summary.extern else ""))
    if summary.recompiles:
        yield Text(count(summary.recompiles, "recompile"), "bold yellow")


def _speed(snapshot: Snapshot) -> Iterable[Text]:
    timing = snapshot.timing
    if timing is None:
        return
    known = timing.verdict not in ("undecided", "measuring")
    figures = (f"{timing.speedup:.2f}× " if known else "") + f"[{timing.low:.2f}, {timing.high:.2f}]"
    word = timing.verdict if known else "speed-up undecided"
    yield Text(f"{word} {figures}", VERDICTS.get(timing.verdict, ""))
