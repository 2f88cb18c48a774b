"""The passes view: the change that each Inductor pass makes to a graph, as a diff."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from tcexplore import events as ev
from tcexplore.documents.document import Part, Parts, Row, fixed
from tcexplore.documents.empty_states import empty_part, missing_rows
from tcexplore.documents.prose import fold, row, wrapped
from tcexplore.events import Hunk, PassRun
from tcexplore.session import Snapshot

EMPTY_TEXT = (
    "Inductor runs dozens of passes: on the Dynamo graph, on the joint graph and after partitioning. Each appears here "
    "with its changes; passes without changes are folded."
)

STAGES = {
    "pre_grad": "pre-grad passes, on the Dynamo graph",
    "joint": "joint passes, on the graph of AOTAutograd",
    "post_grad": "post-grad passes, before code generation",
}

MANY = 200
"""Number of changes above which a pass is folded at first."""

UNNAMED = "between named passes"


def passes_document(snapshot: Snapshot, toggled: frozenset[str] = frozenset(), width: int = 78) -> Parts:
    """Return the document of the view."""
    if not snapshot.code.passes:
        return Parts("", [empty_part(snapshot, width, EMPTY_TEXT), fixed(_why(snapshot, width))])
    parts: list[Part] = []
    for (graph, stage, phase), runs in groupby(snapshot.code.passes, lambda p: (p.graph, p.stage, p.phase)):
        stage_runs = list(runs)
        parts.append(fixed(_stage(graph, stage, phase, stage_runs, toggled, width)))
    changed = sum(bool(run.hunks) for run in snapshot.code.passes)
    return Parts(f"{changed} of {len(snapshot.code.passes)} passes changed a graph", parts)


def _why(snapshot: Snapshot, width: int) -> Iterator[Row]:
    """Yield why there are no passes: this torch version does not report them, or the graph comes from a cache."""
    yield from missing_rows(snapshot, (ev.RunFact.PASSES,), width)
    hits = [used for used in snapshot.cache_lookups if used.outcome == "hit"]
    if hits:
        text = f"The {hits[0].cache} cache had the result of graph {hits[0].graph}: its passes ran in an earlier run."
        yield from wrapped(text, width, "warn")


def _stage(
    graph: str, stage: str, phase: str, runs: list[PassRun], toggled: frozenset[str], width: int
) -> Iterator[Row]:
    name = f"passes {graph} {stage} {phase}"
    opened = name not in toggled
    before, after = runs[0].nodes_before, runs[-1].nodes_after
    nodes = f"{before} nodes" if before == after else f"{before} → {after} nodes"
    facts = (f"  {phase}" if stage == "post_grad" else "", "muted"), (f"  {nodes}", "muted")
    yield fold(name, opened, (f"{graph} ", "title"), (STAGES.get(stage, stage), "heading"), *facts, indent=0)
    if not opened:
        return
    for index, run in enumerate(runs):
        if run.hunks:
            yield from _run(run, f"{name} {index}", toggled, width)
    idle = [run.name for run in runs if not run.hunks]
    if idle:
        yield from _idle(idle, f"{name} idle", toggled, width)


def _run(run: PassRun, name: str, toggled: frozenset[str], width: int) -> Iterator[Row]:
    opened = (name in toggled) == (len(run.hunks) > MANY)
    removed, added = (sum(len(lines) for lines in side) for side in _sides(run))
    called = (run.name, "node") if run.name else (UNNAMED, "muted")
    figures = (f"  −{removed}", "removed") if removed else "", (f"  +{added}", "added") if added else ""
    yield fold(name, opened, called, *(figure for figure in figures if figure), indent=1)
    if opened:
        for hunk in run.hunks:
            yield from _hunk(hunk, width)


def _sides(run: PassRun) -> tuple[list[tuple[str, ...]], list[tuple[str, ...]]]:
    return [hunk.removed for hunk in run.hunks], [hunk.added for hunk in run.hunks]


def _hunk(hunk: Hunk, width: int) -> Iterator[Row]:
    yield row((f"   ┄┄ line {hunk.at + 1} ".ljust(min(width - 2, 60), "┄"), "rule"))
    yield from (row(("     ", ""), (line, "dim"), copy=line) for line in hunk.above)
    yield from (row(("   - ", "removed"), (line, "removed"), copy=line) for line in hunk.removed)
    yield from (row(("   + ", "added"), (line, "added"), copy=line) for line in hunk.added)
    yield from (row(("     ", ""), (line, "dim"), copy=line) for line in hunk.below)


def _idle(idle: list[str], name: str, toggled: frozenset[str], width: int) -> Iterator[Row]:
    opened = name in toggled
    passed = "pass" if len(idle) == 1 else "passes"
    yield fold(name, opened, (f"{len(idle)} {passed} changed nothing", "muted"), indent=1)
    if opened:
        yield from wrapped(", ".join(idle), width, "dim", indent=3)
