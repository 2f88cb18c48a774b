"""Measurements in several environments, and the changes from one to the next."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, stdev
from typing import Literal, NamedTuple

from tcexplore import events as ev
from tcexplore.environments import parse_version
from tcexplore.model_python import ModelPython
from tcexplore.session import Snapshot
from tcexplore.session.economics import RunFigures
from tcexplore.session.run_diff import RunChange, RunDiff, run_diff, unique_kernels

ChangeFact = Literal["run", "break", "graph", "op", "recompile", "kernel", "result", "time"]

ChangeVerb = Literal["new", "gone", "changed"]

STUDENT = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26)
"""97.5% quantiles of Student's t distribution, for 1, 2, … degrees of freedom."""

LEAST_CHANGE = 0.03
"""Smallest change of a time that is listed: two processes with the same code differ by that much."""


class Figure(NamedTuple):
    """A mean with its 95% interval; the ends are None with fewer than three samples."""

    value: float
    low: float | None = None
    high: float | None = None

    def excludes(self, value: float) -> bool:
        return self.low is not None and self.high is not None and not self.low <= value <= self.high


@dataclass(frozen=True, slots=True)
class EnvironmentRun:
    """A run in one environment."""

    python: ModelPython
    figures: RunFigures
    slices_us: tuple[float, ...] = ()
    """Median time of a compiled call in each slice of its timing, in microseconds."""

    @property
    def run(self) -> Snapshot:
        return self.figures.run

    @property
    def unique_kernels(self) -> int:
        """Generated kernels with different code."""
        return unique_kernels(self.run)

    @property
    def compiled_us(self) -> Figure | None:
        """Time of a compiled call in microseconds; None if it was not timed."""
        return geometric_mean(self.slices_us)


class EnvironmentChange(NamedTuple):
    """A difference between two environments."""

    fact: ChangeFact
    verb: ChangeVerb
    text: str
    location: ev.Location | None = None


@dataclass(frozen=True, slots=True)
class EnvironmentStep:
    """Changes from one environment to the next."""

    before: EnvironmentRun
    after: EnvironmentRun
    changes: tuple[EnvironmentChange, ...]


def geometric_mean(values: Sequence[float]) -> Figure | None:
    """Return the geometric mean with Student's 95% interval; None without values."""
    if not values:
        return None
    logs = [math.log(value) for value in values]
    middle = fmean(logs)
    if len(logs) < 3:
        return Figure(math.exp(middle))
    reach = STUDENT[min(len(logs) - 1, len(STUDENT)) - 1] * stdev(logs) / math.sqrt(len(logs))
    return Figure(math.exp(middle), math.exp(middle - reach), math.exp(middle + reach))


def time_ratio(run: EnvironmentRun, base: EnvironmentRun) -> Figure | None:
    """Return the time of a compiled call over that in another environment, from slices that were timed in turn."""
    return geometric_mean([a / b for a, b in zip(run.slices_us, base.slices_us, strict=False)])


def version_key(python: ModelPython) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the versions of torch and Python, to sort by."""
    return parse_version(python.torch), parse_version(python.version)


def labels(pythons: Sequence[ModelPython]) -> dict[str, str]:
    """Return a short name of each environment by its interpreter: what tells it from the others."""
    names = {python.executable: f"torch {python.torch}" for python in pythons}
    for more in ("version", "executable"):
        if len(set(names.values())) == len(names):
            break
        names = {python.executable: f"torch {python.torch}, Python {getattr(python, more)}" for python in pythons}
    return names


def steps(runs: Sequence[EnvironmentRun]) -> tuple[EnvironmentStep, ...]:
    """Return what changes from each version to the next; environments of equal versions keep their order."""
    ordered = sorted(runs, key=lambda run: version_key(run.python))
    return tuple(EnvironmentStep(a, b, tuple(changes(a, b))) for a, b in pairwise(ordered))


def changes(before: EnvironmentRun, after: EnvironmentRun) -> Iterator[EnvironmentChange]:
    """Yield the differences of two runs."""
    failures = before.figures.failure, after.figures.failure
    if any(failures):
        if failures[0] != failures[1]:
            verb: ChangeVerb = "changed" if all(failures) else "new" if failures[1] else "gone"
            yield EnvironmentChange("run", verb, failures[1] or failures[0])
        return
    diff = run_diff(before.run, after.run)
    yield from _break_changes(diff)
    yield from _count_changes(before, after)
    yield from _op_changes(diff)
    yield from _kernel_changes(diff)
    wrong = before.figures.summary.wrong, after.figures.summary.wrong
    if wrong[0] != wrong[1]:
        yield EnvironmentChange("result", "new" if wrong[1] else "gone", "the result differs from eager's")
    ratio = time_ratio(after, before)
    if ratio is not None and ratio.excludes(1.0) and abs(math.log(ratio.value)) > math.log(1 + LEAST_CHANGE):
        factor, word = (ratio.value, "slower") if ratio.value > 1 else (1 / ratio.value, "faster")
        yield EnvironmentChange("time", "changed", f"a compiled call is {factor:.2f} times {word}")


def _break_changes(diff: RunDiff) -> Iterator[EnvironmentChange]:
    """Yield breaks that are new or gone; one whose reason differs at the same line is changed."""
    gone = [change.item for change in diff.breaks if change.kind == "removed"]
    for graph_break in (change.item for change in diff.breaks if change.kind == "added"):
        same = next((other for other in gone if _place(other) == _place(graph_break)), None)
        if same is None:
            yield EnvironmentChange("break", "new", graph_break.reason, graph_break.location)
            continue
        gone.remove(same)
        if same.reason != graph_break.reason:
            text = f"{graph_break.reason} (before: {same.reason})"
            yield EnvironmentChange("break", "changed", text, graph_break.location)
    for graph_break in gone:
        yield EnvironmentChange("break", "gone", graph_break.reason, graph_break.location)


def _place(graph_break: ev.GraphBreak) -> tuple[str, int] | None:
    return (graph_break.location.file, graph_break.location.line) if graph_break.location else None


def _count_changes(before: EnvironmentRun, after: EnvironmentRun) -> Iterator[EnvironmentChange]:
    old, new = before.figures.summary, after.figures.summary
    facts: tuple[tuple[ChangeFact, int, int], ...] = (
        ("graph", old.graphs, new.graphs), ("recompile", old.recompiles, new.recompiles),
    )  # fmt: skip
    for fact, earlier, later in facts:
        if earlier != later:
            yield EnvironmentChange(fact, "changed", f"{fact}s {earlier} → {later}")


def _op_changes(diff: RunDiff) -> Iterator[EnvironmentChange]:
    before, after = (
        Counter(node.target for graph in run.graphs for node in graph.all_nodes if node.op.startswith("call_"))
        for run in (diff.before, diff.after)
    )
    changed: tuple[tuple[ChangeVerb, Counter[str]], ...] = (("new", after - before), ("gone", before - after))
    for verb, ops in changed:
        if ops:
            names = [f"{name} ×{number}" if number > 1 else name for name, number in sorted(ops.items())]
            yield EnvironmentChange("op", verb, ", ".join(names))


def _kernel_changes(diff: RunDiff) -> Iterator[EnvironmentChange]:
    kinds: tuple[tuple[ChangeVerb, str], ...] = (("new", "added"), ("gone", "removed"), ("changed", "changed"))
    for verb, kind in kinds:
        if names := sorted(_kernel_name(change) for change in diff.kernels if change.kind == kind):
            yield EnvironmentChange("kernel", verb, ", ".join(names))


def _kernel_name(change: RunChange[ev.Kernel]) -> str:
    before, after = change.before, change.after
    renamed = before is not None and after is not None and before.name != after.name
    return f"{before.name} → {after.name}" if renamed and before and after else change.item.name
