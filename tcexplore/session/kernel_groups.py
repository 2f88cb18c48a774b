"""Kernels of two runs that compute the same ops of the program: aligned by ops and statements, not by names.

The graphs of Dynamo are aligned first, op by op; each kernel then has the ops that it computes. So runs of several
versions of torch, modes, commits or traces can be compared, also if ops are decomposed or fused in another way.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from tcexplore import events as ev
from tcexplore.session.run_diff import RunChange, align, are_ranks, match_kernels
from tcexplore.session.snapshot import Snapshot
from tcexplore.session.source_places import SourcePlaces, file_name

GroupKind = Literal["same", "changed", "regrouped", "added", "removed"]
"""`changed`: one kernel on each side. `regrouped`: the ops are split over the kernels in another way."""


Call = tuple[str, ev.FxNode]
"""A compile id, and a call in its graph by Dynamo."""

Places = Callable[[ev.Location | None], str]
"""Describes a location by its statement, not by its line."""


class OpPair(NamedTuple):
    """A call in Dynamo's graphs of either run; None on the side that lacks it."""

    before: Call | None
    after: Call | None

    @property
    def node(self) -> ev.FxNode:
        """The node of the later run, or the removed one."""
        pair = self.after or self.before
        assert pair is not None
        return pair[1]


Op = tuple[str, int | str]
"""Phase, and the number of a pair, or the text of an op without a Dynamo node."""


@dataclass(frozen=True, slots=True)
class KernelGroup:
    """Kernels of both runs that compute the same ops."""

    kind: GroupKind
    before: tuple[ev.Kernel, ...]
    after: tuple[ev.Kernel, ...]
    ops: frozenset[Op]

    @property
    def kernels(self) -> tuple[ev.Kernel, ...]:
        return (*self.before, *self.after)

    @property
    def locations(self) -> tuple[ev.Location, ...]:
        """Lines of user code, of the later run if it has the kernels."""
        return tuple(dict.fromkeys(line for kernel in self.after or self.before for line in kernel.source_lines))


@dataclass(frozen=True, slots=True)
class AlignedRuns:
    """Two runs with their ops and kernels aligned."""

    before: Snapshot
    after: Snapshot
    pairs: tuple[OpPair, ...]
    groups: tuple[KernelGroup, ...]
    """In the order of the later run."""
    sides: tuple[RunOps, RunOps]

    def pairs_of(self, group: KernelGroup) -> list[OpPair]:
        """Return the calls of Dynamo's graphs that a group computes."""
        numbers = dict.fromkeys(op for _, op in group.ops if isinstance(op, int))
        return [self.pairs[number] for number in sorted(numbers)]


def align_runs(before: Snapshot, after: Snapshot) -> AlignedRuns:
    """Align the ops and the kernels of two runs."""
    places = _places(before), _places(after)
    pairs = tuple(_op_pairs((before, after), places))
    sides = RunOps(before, places[0], pairs, 0), RunOps(after, places[1], pairs, 1)
    kernels = before.code.kernels, after.code.kernels
    if before.target != after.target:
        return AlignedRuns(before, after, pairs, (), sides)
    ops = {id(kernel): side.ops(kernel) for side, known in zip(sides, kernels, strict=True) for kernel in known}
    changes = match_kernels(*kernels, ranks=are_ranks(before, after), ops=lambda kernel: ops[id(kernel)])
    return AlignedRuns(before, after, pairs, tuple(_groups(changes, ops)), sides)


# ---- ops


def _op_pairs(runs: tuple[Snapshot, Snapshot], places: tuple[Places, Places]) -> Iterator[OpPair]:
    """Yield the calls of both runs: paired by callee and statement, then by callee between those pairs."""
    old, new = (
        [((node.target, place(node.location)), (graph, node)) for graph, node in _calls(run)]
        for run, place in zip(runs, places, strict=True)
    )
    gap: tuple[list[Call], list[Call]] = ([], [])
    for change in (*align(old, new, lambda item: item[0]), None):
        if change is None or change.kind == "same":
            yield from (OpPair(c.before, c.after) for c in align(*gap, lambda call: call[1].target))
            gap = ([], [])
        if change is None:
            return
        before, after = (item and item[1] for item in (change.before, change.after))
        if change.kind == "same":
            yield OpPair(before, after)
        elif before is not None:
            gap[0].append(before)
        elif after is not None:
            gap[1].append(after)


def _calls(run: Snapshot) -> Iterator[Call]:
    for graph in run.graphs:
        yield from ((graph.graph, node) for node in graph.all_nodes if node.op.startswith("call_"))


def _places(run: Snapshot) -> Places:
    """Return a function that describes a location by its statement, not by its line."""
    files: dict[str, SourcePlaces] = {}
    texts = {run.file: run.source, **{source.file: source.text for source in run.sources}}
    cache: dict[ev.Location, str] = {}

    def place(location: ev.Location | None) -> str:
        if location is None:
            return ""
        if location not in cache:
            if location.file not in files:
                name = "" if location.file == run.file else file_name(location.file, run.file)
                files[location.file] = SourcePlaces(name, texts.get(location.file, ""))
            statement = files[location.file].at(location.line, location.function)
            cache[location] = repr(statement._replace(part=""))
        return cache[location]

    return place


class RunOps:
    """The ops of one run."""

    def __init__(self, run: Snapshot, places: Places, pairs: Sequence[OpPair], side: int) -> None:
        self._place = places
        self._numbers: dict[tuple[str, str], int] = {}
        self._by_line: defaultdict[ev.Location, list[int]] = defaultdict(list)
        for number, pair in enumerate(pairs):
            if (item := pair[side]) is not None:
                self._numbers[item[0], item[1].name] = number
                if item[1].location is not None:
                    self._by_line[item[1].location].append(number)
        self._nodes: dict[tuple[str, str, str], ev.FxNode] = {}
        self._calls: defaultdict[tuple[bool, Op], Counter[str]] = defaultdict(Counter)
        for graph in run.code.aten_graphs:
            lowered = graph.stage == "post_grad"
            for node in graph.all_nodes if graph.stage != "joint" else ():
                if lowered:
                    self._nodes[graph.graph, graph.phase, node.name] = node
                if node.op.startswith("call_") and not node.is_view:
                    for op in self._ops_of(graph, node):
                        self._calls[lowered, op][node.packet] += 1

    def aten_calls(self, ops: Iterable[Op], *, lowered: bool) -> Counter[str]:
        """Return what ops of the program are in AOTAutograd's graphs; `lowered`: in Inductor's, after its passes."""
        return sum((self._calls[lowered, op] for op in ops if (lowered, op) in self._calls), Counter[str]())

    def ops(self, kernel: ev.Kernel) -> frozenset[Op]:
        """Return the ops that a kernel computes: without those that only view, unless it has no others."""
        nodes = [node for name in kernel.nodes if (node := self._nodes.get((kernel.graph, kernel.phase, name)))]
        work = [node for node in nodes if not node.is_view] or nodes
        found = [op for node in work for op in self._ops_of(kernel, node)]
        if not found:
            found = [(kernel.phase, f"{op} {self._place(at)}") for op in kernel.ops for at in kernel.source_lines]
        return frozenset(found)

    def _ops_of(self, kernel: ev.Kernel | ev.AtenGraph, node: ev.FxNode) -> Iterator[Op]:
        numbers = [n for name in node.origins if (n := self._numbers.get((kernel.graph, name))) is not None]
        if not numbers and node.location is not None:
            numbers = self._by_line[node.location]
        yield from ((kernel.phase, number) for number in numbers)
        if not numbers:
            yield kernel.phase, f"{node.packet} {self._place(node.location)}"


# ---- kernels


def _groups(changes: Iterable[RunChange[ev.Kernel]], ops: dict[int, frozenset[Op]]) -> Iterator[KernelGroup]:
    """Join the pairs of kernels that share ops; kernels with the same code and the same ops stay alone."""
    parts: list[tuple[list[ev.Kernel], list[ev.Kernel], set[Op]]] = []
    order: list[KernelGroup | tuple[list[ev.Kernel], list[ev.Kernel], set[Op]]] = []
    owner: dict[Op, int] = {}
    merged: dict[int, int] = {}

    def root(index: int) -> int:
        while index in merged:
            index = merged[index]
        return index

    for change in changes:
        own = set[Op]().union(*(ops[id(k)] for k in (change.before, change.after) if k is not None))
        before = [change.before] if change.before is not None else []
        after = [change.after] if change.after is not None else []
        if change.kind == "same" and all(ops[id(k)] == own for k in (*before, *after)):
            group = KernelGroup("same", tuple(before), tuple(after), frozenset(own))
            order.append(group)
            continue
        index = len(parts)
        parts.append((before, after, own))
        order.append(parts[index])
        for op in own:
            other = root(owner.setdefault(op, index))
            if other != root(index):
                first, last = sorted((other, root(index)))
                merged[last] = first
                for target, source in zip(parts[first][:2], parts[last][:2], strict=True):
                    target.extend(source)
                parts[first][2].update(parts[last][2])
    dropped = {id(parts[index]) for index in merged}
    for item in order:
        if isinstance(item, KernelGroup):
            yield item
        elif id(item) not in dropped:
            yield KernelGroup(_kind(*item[:2]), tuple(item[0]), tuple(item[1]), frozenset(item[2]))


def _kind(before: Sequence[ev.Kernel], after: Sequence[ev.Kernel]) -> GroupKind:
    if not before or not after:
        return "added" if after else "removed"
    return "changed" if len(before) == len(after) == 1 else "regrouped"


def shape(kernels: Iterable[ev.Kernel]) -> tuple[tuple[object, ...], ...]:
    """Return what kernels of two versions of torch have in common if they do the same work in the same way."""
    return tuple(sorted(
        (kernel.generated, "" if kernel.generated else call_name(kernel), kernel.fusion.startswith("template"),
         tuple(sorted(kernel.ops)), len(kernel.calls), tuple(sorted(code_form(kernel).items())))
        for kernel in kernels
    ))  # fmt: skip


_FORM = (
    ("loop nests", re.compile(r"^ {4,12}for\s*\(", re.M)),
    ("loops", re.compile(r"\bfor\s*\(")),
    ("parallel regions", re.compile(r"#pragma omp parallel")),
    ("Welford reductions", re.compile(r"= welford_combine")),
    ("atomic additions", re.compile(r"atomic_add")),
    ("loads", re.compile(r"tl\.load\(")),
    ("stores", re.compile(r"tl\.store\(|\.store\(")),
)
"""Marks in C++ and Triton that show how an op is computed, and that are the same in several versions of torch."""


def code_form(kernel: ev.Kernel) -> dict[str, int]:
    """Return how often generated code has each mark; empty for a call."""
    return {name: len(mark.findall(kernel.source)) for name, mark in _FORM} if kernel.generated else {}


def call_name(kernel: ev.Kernel) -> str:
    """Return the library function of an extern kernel: `extern_kernels.mm` for its third call, too."""
    return kernel.name.partition(":")[0]
