"""Two runs compared: source, graphs, breaks, guards, and kernels matched by what they compute, not by name."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

from tcexplore import events as ev
from tcexplore.session.alignment import pairs
from tcexplore.session.normalized_code import kernel_program, same_program
from tcexplore.session.snapshot import Snapshot

T = TypeVar("T")

_IDENTITY = re.compile(r"\b\d{9,}\b")

KINDS = ("same", "changed", "added", "removed")


@dataclass(frozen=True, slots=True)
class RunChange(Generic[T]):
    """One thing before and after. `kind` is `same`, `changed`, `added` (`before` is None) or `removed`."""

    kind: str
    before: T | None
    after: T | None

    @property
    def item(self) -> T:
        """It as it is in the later run; what was removed, as it was."""
        return cast(T, self.before if self.after is None else self.after)


@dataclass(frozen=True, slots=True)
class RunDiff:
    """What differs between two runs; each tuple is in the order of the later run, removals where they stood.

    `same_program` is set when the generated code is identical, names of kernels and comments apart: whatever else
    differs, the machine runs the same thing.
    """

    before: Snapshot
    after: Snapshot
    same_program: bool
    source: tuple[RunChange[str], ...]
    nodes: tuple[RunChange[tuple[str, ev.FxNode]], ...]
    """(compile id, node) on either side."""
    breaks: tuple[RunChange[ev.GraphBreak], ...]
    guards: tuple[RunChange[tuple[str, ev.Guard]], ...]
    kernels: tuple[RunChange[ev.Kernel], ...]


def run_diff(before: Snapshot, after: Snapshot) -> RunDiff:
    """Compare two runs; neither has to be complete."""
    return RunDiff(
        before=before,
        after=after,
        same_program=same_program(before, after),
        source=align(before.source.splitlines(), after.source.splitlines(), lambda line: line),
        nodes=align(_nodes(before), _nodes(after), _node_key),
        breaks=align(before.breaks, after.breaks, lambda b: (b.kind, b.code)),
        guards=pair_unordered(_guards(before), _guards(after), _guard_key),
        kernels=match_kernels(before.code.kernels, after.code.kernels),
    )


def count_changes(changes: Sequence[RunChange[Any]]) -> dict[str, int]:
    """How many are `same`, `changed`, `added` and `removed`."""
    return {kind: sum(change.kind == kind for change in changes) for kind in KINDS}


def align(before: Sequence[T], after: Sequence[T], key: Callable[[T], Hashable]) -> tuple[RunChange[T], ...]:
    """Both sequences in one, equal keys paired as a diff pairs lines."""
    keys = list(map(key, before)), list(map(key, after))
    start = _common(*keys)
    end = _common(keys[0][start:][::-1], keys[1][start:][::-1])
    middle = keys[0][start : len(before) - end], keys[1][start : len(after) - end]
    found = [RunChange("same", x, y) for x, y in zip(before[:start], after[:start], strict=True)]
    x, y = start, start
    for a, b in (*pairs(*middle), (len(middle[0]), len(middle[1]))):
        found += [RunChange("removed", item, None) for item in before[x : start + a]]
        found += [RunChange("added", None, item) for item in after[y : start + b]]
        x, y = start + a + 1, start + b + 1
        if a < len(middle[0]):
            found.append(RunChange("same", before[x - 1], after[y - 1]))
    tail = zip(before[len(before) - end :], after[len(after) - end :], strict=True)
    return (*found, *(RunChange("same", x, y) for x, y in tail))


def pair_unordered(before: Sequence[T], after: Sequence[T], key: Callable[[T], Hashable]) -> tuple[RunChange[T], ...]:
    """Both in one where their order means nothing: equal keys are paired wherever they stand, removals come last."""
    left: dict[Hashable, list[T]] = {}
    for item in before:
        left.setdefault(key(item), []).append(item)
    found = []
    for item in after:
        same = left.get(key(item))
        found.append(RunChange("same", same.pop(0), item) if same else RunChange("added", None, item))
    return (*found, *(RunChange("removed", item, None) for items in left.values() for item in items))


def _common(a: Sequence[Hashable], b: Sequence[Hashable]) -> int:
    """How many first items are equal: two saves differ little, and what is equal need not be compared with all."""
    return next((n for n, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def match_kernels(before: Sequence[ev.Kernel], after: Sequence[ev.Kernel]) -> tuple[RunChange[ev.Kernel], ...]:
    """Each later kernel with the earlier one that computes the same, else the one that shares most of its ops.

    Kernels with equal code are `same`; kernels with equal ops, or with at least half of their ops in common, are
    `changed`; the rest were added or removed.
    """
    left = list(before)
    partner: dict[int, tuple[str, ev.Kernel]] = {}
    for kind, alike in (("same", _same_code), ("changed", _same_ops), ("changed", _half_the_ops)):
        for index, kernel in enumerate(after):
            if index not in partner and (found := next((k for k in left if alike(k, kernel)), None)) is not None:
                partner[index] = kind, found
                left.remove(found)
    changes = [
        RunChange(partner[i][0], partner[i][1], kernel) if i in partner else RunChange("added", None, kernel)
        for i, kernel in enumerate(after)
    ]
    return tuple(_with_removed(changes, before, {id(kernel) for kernel in left}))


def _with_removed(
    changes: Sequence[RunChange[ev.Kernel]], before: Sequence[ev.Kernel], removed: Collection[int]
) -> Iterator[RunChange[ev.Kernel]]:
    """The changes with each removed kernel behind the one that it stood behind."""
    behind: dict[int, list[RunChange[ev.Kernel]]] = {}
    last = 0
    for kernel in before:
        if id(kernel) in removed:
            behind.setdefault(last, []).append(RunChange("removed", kernel, None))
        else:
            last = id(kernel)
    yield from behind.get(0, ())
    for change in changes:
        yield change
        yield from behind.get(id(change.before), ())


def _same_code(a: ev.Kernel, b: ev.Kernel) -> bool:
    return a.phase == b.phase and kernel_program(a) == kernel_program(b)


def _same_ops(a: ev.Kernel, b: ev.Kernel) -> bool:
    return (a.phase, a.language, a.ops) == (b.phase, b.language, b.ops)


def _half_the_ops(a: ev.Kernel, b: ev.Kernel) -> bool:
    if (a.phase, a.language == "extern") != (b.phase, b.language == "extern"):
        return False
    shared, either = set(a.ops) & set(b.ops), set(a.ops) | set(b.ops)
    return 2 * len(shared) >= len(either) > 0


def _nodes(snapshot: Snapshot) -> list[tuple[str, ev.FxNode]]:
    return [(graph.graph, node) for graph in snapshot.graphs for node in graph.nodes]


def _node_key(item: tuple[str, ev.FxNode]) -> Hashable:
    node = item[1]
    return node.op, node.target, node.args, node.dtype, node.shape, node.stride


def _guard_key(item: tuple[str, ev.Guard]) -> Hashable:
    """Without the numbers of objects, which every run has others of."""
    guard = item[1]
    return guard.kind, guard.source, guard.summary, tuple(_IDENTITY.sub("id", code) for code in guard.code)


def _guards(snapshot: Snapshot) -> list[tuple[str, ev.Guard]]:
    return [(installed.graph, guard) for installed in snapshot.guards for guard in installed.guards]
