"""The modules of a run, for all views that show or fold them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, takewhile
from typing import NamedTuple

from tcexplore import events as ev
from tcexplore.documents.document import by_identity
from tcexplore.documents.labels import Labels, labels_of
from tcexplore.events import FxNode
from tcexplore.session import Snapshot
from tcexplore.session.call_account import CallAccount, call_account
from tcexplore.session.code import Code
from tcexplore.session.module_tree import CallTimes, ModuleRow, ModuleTree, Path, TreeFacts, module_tree
from tcexplore.targets.target_names import NATIVE

SHORTEST = 4
"""Minimum number of nodes of a fold, and of a layer that makes a model one with repeated layers."""

LONGEST_BETWEEN = 8
"""Maximum number of nodes between two equal layers that belong to their fold."""


@by_identity(4)
def _build(
    graphs: tuple[ev.GraphCaptured, ...],
    breaks: tuple[ev.GraphBreak, ...],
    recompiles: tuple[ev.Recompiled, ...],
    code: CodeFacts,
    region_modules: tuple[ev.RegionModule, ...],
    guards: tuple[ev.GuardsInstalled, ...],
    calls: tuple[CallTimes, ...],
) -> ModuleTree:
    return module_tree(TreeFacts(graphs, breaks, recompiles, *code, region_modules, guards, calls))


CodeFacts = tuple[tuple[ev.Kernel, ...], tuple[ev.AtenGraph, ...]]


@by_identity(4)
def _code(kernels: tuple[ev.Kernel, ...], aten_graphs: tuple[ev.AtenGraph, ...]) -> CodeFacts:
    return kernels, aten_graphs


def timed_tree(snapshot: Snapshot) -> ModuleTree:
    """Return the modules of a run with their times, cached."""
    calls = _calls(snapshot.call_account, snapshot.eager_lines, snapshot.call_timing, snapshot.captured_calls)
    return _tree(snapshot, snapshot.guards, calls)


@by_identity(4)
def _calls(
    account: CallAccount | None,
    eager_lines: ev.EagerLinesTimed | None,
    timing: ev.TimingEstimate | None,
    captured: tuple[ev.CallExamined, ...],
) -> tuple[CallTimes, ...]:
    """Return the call of the program, or of a script one of each region; two regions may run the same graphs."""
    if not captured:
        return (CallTimes(account, eager_lines, timing),)
    calls: list[CallTimes] = []
    regions = set[int]()
    for examined in captured:
        own = CallTimes(call_account(examined.profile, examined.timing), examined.eager_lines, examined.timing)
        if examined.region in regions or (own.account is None and own.eager_lines is None):
            continue
        regions.add(examined.region)
        if all(own.graphs.isdisjoint(call.graphs) for call in calls) and (own.graphs or not calls):
            calls.append(own)
    return tuple(calls)


def module_folds(snapshot: Snapshot) -> ModuleFolds:
    """Return the repeated layers of a run, cached; they don't change while it is timed."""
    return _folds(_tree(snapshot, (), ()))


def _tree(
    snapshot: Snapshot,
    guards: tuple[ev.GuardsInstalled, ...],
    calls: tuple[CallTimes, ...],
) -> ModuleTree:
    code = snapshot.code_for(NATIVE)
    return _build(
        snapshot.graphs, snapshot.breaks, snapshot.recompiles, _code(code.kernels, code.aten_graphs),
        snapshot.region_modules, guards, calls,
    )  # fmt: skip


class ModuleFolds:
    """The members of lists that equal others, and those that differ."""

    def __init__(self, tree: ModuleTree) -> None:
        self.same: dict[Path, ModuleRow] = {}
        """Rows of modules that equal another one, by the path of each."""
        self.first: set[Path] = set()
        """Modules that others equal."""
        self.odd: dict[Path, str] = {}
        """What differs in a module from most of its list."""
        self.types: dict[Path, str] = {}
        self.path_of: dict[tuple[str, str], Path] = {(op.graph, op.node.name): op.path for op in tree.root.ops}
        """Path of each node by graph and name."""
        self.repeats = False
        """Whether the model has repeated layers."""
        for row in tree.rows:
            for module in row.members:
                self.types[module.path] = row.type
                if row.differs:
                    self.odd[module.path] = row.differs
                if row.same_as:
                    self.same[module.path] = row
                    self.first.add(tuple(row.same_as.split(".")))
                    self.repeats |= len(module.ops) >= SHORTEST

    def pattern(self, path: Path) -> str:
        """Return a path with `*` for the number of each layer that repeats: `layers.*.mlp.0`."""
        shown: list[str] = []
        listed: Path = ()  # the same module in the layers that are shown: only these have rows for what is inside
        for name in path:
            listed = (*listed, name)
            row = self.same.get(listed)
            repeats = row is not None or listed in self.first or listed in self.odd
            shown.append("*" if repeats else name)
            if row is not None:
                listed = tuple(row.same_as.split("."))
        return ".".join(shown)


@by_identity(4)
def _folds(tree: ModuleTree) -> ModuleFolds:
    return ModuleFolds(tree)


def common_path(paths: Iterable[Path]) -> Path:
    """Return the innermost module that contains all of these."""
    known = list(paths)
    first, last = (min(known), max(known)) if known else ((), ())
    shared = takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False))
    return tuple(name for name, _ in shared)


class Block(NamedTuple):
    """Consecutive nodes of one module, or of several equal ones."""

    nodes: Sequence[FxNode]
    path: Path | None
    """The module; None for nodes without a fold."""
    members: Sequence[Block] = ()
    """Several equal modules, with the nodes between them."""
    reads: Sequence[str] = ()
    """Nodes outside the block that a block of a module reads."""


def blocks(nodes: Sequence[FxNode], paths: Sequence[Path], outer: Path, folds: ModuleFolds | None) -> Iterator[Block]:
    """Yield the nodes of the module `outer` by the modules inside it, equal consecutive ones together."""
    runs = []
    for path, members in groupby(range(len(nodes)), key=lambda index: _block_path(paths[index], outer)):
        indices = list(members)
        of_run = nodes[indices[0] : indices[-1] + 1]
        if path is not None and len(indices) >= SHORTEST:
            runs.append(Block(of_run, path, reads=_reads(of_run)))
        else:
            runs.append(Block(of_run, None))
    return _merged(runs, folds.same) if folds is not None else iter(runs)


def _block_path(path: Path, outer: Path) -> Path | None:
    """Return the module inside `outer` that gets a fold: up to the first number (`layers.3`), else one name."""
    if len(path) <= len(outer) or path[: len(outer)] != outer:
        return None
    number = next((index for index in range(len(outer), len(path)) if path[index].isdecimal()), None)
    if number is None:
        return path[: len(outer) + 1]
    return path[: number + 1]


def _merged(runs: Iterable[Block], same: dict[Path, ModuleRow]) -> Iterator[Block]:
    pending: list[Block] = []
    row: ModuleRow | None = None
    between: list[Block] = []
    for run in runs:
        of_run = same.get(run.path) if run.path is not None else None
        if row is not None and of_run is row:
            pending += [*between, run]
            between = []
        elif row is not None and run.path is None and sum(len(b.nodes) for b in [*between, run]) <= LONGEST_BETWEEN:
            between.append(run)
        else:
            yield from _joined(pending)
            yield from between
            pending, between, row = [run], [], of_run
    yield from _joined(pending)
    yield from between


def _joined(runs: Sequence[Block]) -> Iterator[Block]:
    if len(runs) < 2:
        yield from runs
        return
    nodes = [node for run in runs for node in run.nodes]
    yield Block(nodes, runs[0].path, runs, _reads(nodes))


def _reads(nodes: Sequence[FxNode]) -> tuple[str, ...]:
    own = {node.name for node in nodes}
    return tuple(dict.fromkeys(name for node in nodes for name in node.inputs if name not in own))


# ---- kernels of equal layers


class KernelGroup(NamedTuple):
    """Kernels that compute the same in equal layers."""

    kernels: tuple[ev.Kernel, ...]
    module: str
    """The module whose ops they compute, with `*` for the numbers of layers."""

    @property
    def graph(self) -> str:
        """The graph of all of them."""
        return self.kernels[0].graph


def kernel_groups(snapshot: Snapshot, code: Code) -> Sequence[KernelGroup]:
    """Return the kernels of a target, those of equal layers together; empty if no layer repeats."""
    folds = module_folds(snapshot)
    if not folds.repeats:
        return ()
    return _groups(code.kernels, folds, labels_of(snapshot.graphs, code.aten_graphs, code.kernels))


@by_identity(4)
def _groups(kernels: tuple[ev.Kernel, ...], folds: ModuleFolds, known: Labels) -> tuple[KernelGroup, ...]:
    groups: dict[tuple[object, ...], list[ev.Kernel]] = {}
    for kernel in kernels:
        module = _module_pattern(kernel, folds, known)
        ops = tuple(label.text for label in known.fused(kernel))
        call = kernel.calls[0] if kernel.calls else kernel
        moved = call.bytes_read, call.bytes_written
        key = module, kernel.graph, kernel.phase, kernel.generated, kernel.language, ops, moved, kernel.flops
        groups.setdefault(key, []).append(kernel)
    return tuple(KernelGroup(tuple(group), str(key[0])) for key, group in groups.items())


def _module_pattern(kernel: ev.Kernel, folds: ModuleFolds, known: Labels) -> str:
    """Return the module whose ops a kernel computes, the same for each of its calls, or else the one around them."""
    calls = [
        [path for key in known.origins(kernel, call.nodes) if (path := folds.path_of.get(key)) is not None]
        for call in kernel.calls or (kernel,)
    ]
    patterns = {folds.pattern(common_path(paths)) for paths in calls}
    if len(patterns) == 1:
        return patterns.pop()
    return folds.pattern(common_path(path for paths in calls for path in paths))
