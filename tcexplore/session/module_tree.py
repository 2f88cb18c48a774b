"""The modules of a run as a tree: ops, kernels, time, memory and breaks of each, with equal siblings folded."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import NamedTuple

from tcexplore import events as ev
from tcexplore.session.line_times import NodeKey, node_weight, post_grad_nodes
from tcexplore.session.snapshot import Snapshot
from tcexplore.targets.target_names import NATIVE

_CALLS = ("call_function", "call_method", "call_module")
_WORD = re.compile(r"\w+")

Path = tuple[str, ...]
"""Names of the modules from the compiled one on; empty for that."""


class Step(NamedTuple):
    """What is compared of an op in two modules."""

    op: str
    value: str
    """Type and shape of the result."""
    constants: str
    """Arguments without the names of nodes."""
    inputs: tuple[str, ...]
    """Type and shape of each."""


class ModuleOp(NamedTuple):
    """An op and the innermost module that runs it."""

    graph: str
    node: ev.FxNode
    path: Path
    step: Step


@dataclass(slots=True)
class Module:
    """A module of the compiled program. Counts and times include the modules inside it."""

    path: Path
    type: str = ""
    """Name of its class; empty if torch does not say."""
    children: dict[str, Module] = field(default_factory=dict)
    ops: list[ModuleOp] = field(default_factory=list)
    """In the order of execution."""
    kernels: int = 0
    """Launches of one call that compute an op of it; a fused kernel counts for each of its modules."""
    inner_kernels: Counter[str] = field(default_factory=Counter)
    """Kernels that compute ops of this module only, by their ops."""
    eager_us: float | None = None
    compiled_us: float | None = None
    bytes: int = 0
    """Parameters and buffers that the graphs read; 0 if there are none, or if their sizes are symbolic."""
    breaks: tuple[ev.GraphBreak, ...] = ()
    guards: int = 0
    recompiles: int = 0

    @property
    def name(self) -> str:
        return ".".join(self.path)

    def signature(self) -> tuple[object, ...]:
        """Return what two equal modules share."""
        return (
            self.type, tuple((op.path[len(self.path) :], op.step) for op in self.ops),
            frozenset(self.inner_kernels.items()), len(self.breaks), self.recompiles,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class ModuleRow:
    """A module, or several equal siblings, in the order of execution. Figures of several are sums."""

    path: str
    """From the compiled module, which has the empty path; `layers.1 – 31` for equal members of a list."""
    type: str
    """Name of the class; empty if torch does not say, as for a list of modules."""
    depth: int
    """Number of modules that contain it."""
    repeats: int = 1
    """Number of modules of the row."""
    same_as: str = ""
    """Path of the sibling, in another row, that these modules equal."""
    differs: str = ""
    """What differs from most members of its list; empty if nothing does."""
    ops: int = 0
    """Call nodes of the Dynamo graphs."""
    kernels: int = 0
    """Launches of one call that compute an op of it; a fused kernel counts for each of its modules."""
    eager_us: float | None = None
    """Of one call: the time of each line, split over the modules that have ops on it. None if not measured."""
    compiled_us: float | None = None
    """Of one call: the time of each kernel, split over its modules by bytes or FLOPs. None if not measured.

    That of the compiled module is the whole call.
    """
    bytes: int = 0
    """Parameters and buffers that the graphs read, without those of symbolic sizes."""
    breaks: int = 0
    guards: int = 0
    recompiles: int = 0
    paths: tuple[str, ...] = ()
    """Of all the modules of the row."""
    members: tuple[Module, ...] = ()


def module_rows(snapshot: Snapshot) -> tuple[ModuleRow, ...]:
    """Return the modules of a run with equal siblings folded; empty without modules."""
    root = module_tree(snapshot)
    return tuple(_rows([root], 0)) if root.children else ()


def module_tree(snapshot: Snapshot) -> Module:
    """Return the compiled module with all modules that run an op in a graph."""
    tree = _Tree(snapshot)
    tree.read_graphs()
    tree.attribute_kernels()
    tree.attribute_eager_lines()
    tree.count_breaks()
    return tree.root


class _Tree:
    """The modules of a snapshot while their figures are gathered."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self.root = Module(())
        self._of_node: dict[tuple[str, str], Path] = {}
        """Path of each Dynamo node, by graph and name."""

    def _module(self, path: Path) -> Module:
        module = self.root
        for index, name in enumerate(path):
            module = module.children.setdefault(name, Module(path[: index + 1]))
        return module

    def _with_parents(self, path: Path) -> Iterator[Module]:
        """Yield the root and each module on the way to this one."""
        module = self.root
        yield module
        for name in path:
            module = module.children[name]
            yield module

    def read_graphs(self) -> None:
        """Add each op to its module, in the order of execution, and each parameter to the module that has it."""
        for captured in self._snapshot.graphs:
            types = {_absolute(captured, source): name for source, name in captured.module_types}
            nodes = {node.name: node for node in captured.all_nodes}
            for node in captured.all_nodes:
                if node.op not in _CALLS:
                    continue
                path = _absolute(captured, node.module or "self")
                self._of_node[captured.graph, node.name] = path
                self._module(path)
                op = ModuleOp(captured.graph, node, path, _step(node, nodes))
                for module in self._with_parents(path):
                    module.type = types.get(module.path, module.type)
                    module.ops.append(op)
        read = set[Path]()
        for captured in self._snapshot.graphs:
            for node in captured.nodes:
                path = _absolute(captured, node.target) if node.op == "placeholder" else ()
                if path and path not in read and node.target.startswith("self."):
                    read.add(path)
                    for module in self._known_parents(path):
                        module.bytes += node.tensor_bytes or 0

    def _known_parents(self, path: Path) -> Iterator[Module]:
        module: Module | None = self.root
        for name in (*path, ""):
            if module is None:
                return
            yield module
            module = module.children.get(name)

    def attribute_kernels(self) -> None:
        """Count the launches of each module, and split the time of each kernel over the modules of its ops."""
        snapshot = self._snapshot
        code = snapshot.code_for(NATIVE)
        nodes = post_grad_nodes(code.aten_graphs)
        parts: dict[NodeKey, float] = defaultdict(float)
        account = snapshot.call_account
        for part in account.parts if account is not None else ():
            parts[part.graph, part.phase, part.name] += part.us
        for kernel in code.kernels:
            us = parts.get((kernel.graph, kernel.phase, kernel.name))
            weights: dict[Path, float] = defaultdict(float)
            for call in kernel.calls or (kernel,):
                of_call = self._weights(kernel, call.nodes, nodes)
                for path, weight in of_call.items():
                    weights[path] += weight
                self._count_launch(tuple(of_call), kernel, call.ops)
            self._add_time(weights, us)
        if account is not None:
            self.root.compiled_us = account.total_us

    def _weights(
        self, kernel: ev.Kernel, names: Iterable[str], nodes: Mapping[NodeKey, ev.FxNode]
    ) -> dict[Path, float]:
        """Return the weight of each module in a call of a kernel."""
        weights: dict[Path, float] = defaultdict(float)
        for name in names:
            node = nodes.get((kernel.graph, kernel.phase, name))
            origins = [self._of_node.get((kernel.graph, origin)) for origin in node.origins] if node else []
            known = [path for path in origins if path is not None]
            for path in known:
                weights[path] += (node_weight(kernel, node, nodes) if node else 0.0) / len(known) or 1e-9
        return weights

    def _count_launch(self, paths: Sequence[Path], kernel: ev.Kernel, ops: Sequence[str]) -> None:
        modules = {module.path: module for path in paths for module in self._with_parents(path)}
        for module in modules.values():
            module.kernels += 1
            if all(path[: len(module.path)] == module.path for path in paths):
                name = kernel.name.partition(":")[0] if not kernel.generated else "fused"
                module.inner_kernels[f"{name}({', '.join(ops)})"] += 1

    def _add_time(self, weights: Mapping[Path, float], us: float | None) -> None:
        total = sum(weights.values())
        if us is None or not total:
            return
        for path, weight in weights.items():
            for module in self._with_parents(path):
                if module.path:
                    module.compiled_us = (module.compiled_us or 0.0) + us * weight / total

    def attribute_eager_lines(self) -> None:
        """Split the eager time of each line over the modules whose ops are on it."""
        timed, timing = self._snapshot.eager_lines, self._snapshot.timing
        if timed is None:
            return
        on_line: dict[tuple[str, int], Counter[Path]] = defaultdict(Counter)
        for captured in self._snapshot.graphs:
            for node in captured.all_nodes:
                path = self._of_node.get((captured.graph, node.name))
                if path is not None and node.location is not None:
                    on_line[node.location.file, node.location.line][path] += 1
        scale = timing.eager_us / timed.call_us if timing and timed.call_us else 1.0
        for line in timed.lines:
            paths = on_line.get((line.location.file, line.location.line))
            total = paths.total() if paths else 0
            for path, count in paths.items() if paths else ():
                for module in self._with_parents(path):
                    if module.path:
                        module.eager_us = (module.eager_us or 0.0) + line.us * scale * count / total
        self.root.eager_us = timed.call_us * scale

    def count_breaks(self) -> None:
        """Count breaks and recompiles for the module of their frame, and guards for the module that they are about."""
        frames = {captured.graph: captured for captured in self._snapshot.graphs}
        for graph_break in self._snapshot.breaks:
            for module in self._known_parents(_frame_path(frames.get(graph_break.graph))):
                module.breaks = (*module.breaks, graph_break)
        for recompiled in self._snapshot.recompiles:
            for module in self._known_parents(_frame_path(frames.get(recompiled.graph))):
                module.recompiles += 1
        for installed in self._snapshot.guards:
            captured = frames.get(installed.graph)
            for guard in installed.guards:
                path = _absolute(captured, guard.source) if captured and guard.source.startswith("self.") else ()
                for module in self._known_parents(path):
                    module.guards += 1


def _absolute(captured: ev.GraphCaptured, source: str) -> Path:
    """Return the path of a module from the compiled one; `source` is from the frame's module, as in the nodes."""
    names = source.replace("['", ".").replace("']", "").replace("[", ".").replace("]", "").split(".")
    own = tuple((captured.module or "").split(".")) if captured.module else ()
    return (*own, *names[1:]) if names[0] == "self" else tuple(names)


def _frame_path(captured: ev.GraphCaptured | None) -> Path:
    return tuple(captured.module.split(".")) if captured is not None and captured.module else ()


def _step(node: ev.FxNode, nodes: Mapping[str, ev.FxNode]) -> Step:
    names = frozenset(node.inputs)
    return Step(
        op=node.target,
        value=_value(node),
        constants=_WORD.sub(lambda match: "·" if match[0] in names else match[0], node.args),
        inputs=tuple(_value(nodes[name]) for name in node.inputs if name in nodes),
    )


def _value(node: ev.FxNode) -> str:
    return f"{node.dtype}[{', '.join(node.shape)}]" if node.dtype and node.shape is not None else ""


# ---- folding


def _rows(siblings: Sequence[Module], depth: int) -> Iterator[ModuleRow]:
    """Yield the rows of modules with one parent, and of the modules inside them."""
    groups: dict[tuple[object, ...], list[Module]] = defaultdict(list)
    for module in siblings:
        groups[module.signature()].append(module)
    usual = _usual(siblings, groups.values())
    first_of = {id(module): group[0] for group in groups.values() for module in group}
    others = {id(group[1]): group[1:] for group in groups.values() if len(group) > 1}
    for module in siblings:
        first = first_of[id(module)]
        if module is first:
            odd = usual is not None and usual is not first and module.path[-1].isdecimal()
            yield _row([module], depth, differs=difference(usual, module) if odd and usual else "")
            yield from _rows(list(module.children.values()), depth + 1)
        elif folded := others.get(id(module)):
            yield _row(folded, depth, same_as=first.name)


def _usual(siblings: Sequence[Module], groups: Iterable[Sequence[Module]]) -> Module | None:
    """Return the first of the equal modules that are most of the members of a list; None if there is no such group."""
    numbered = [module for module in siblings if module.path and module.path[-1].isdecimal()]
    return next((group[0] for group in groups if len(group) > 1 and 2 * len(group) > len(numbered)), None)


def _row(group: Sequence[Module], depth: int, same_as: str = "", differs: str = "") -> ModuleRow:
    first = group[0]
    return ModuleRow(
        path=_range(group), type=first.type, depth=depth, repeats=len(group), same_as=same_as, differs=differs,
        ops=sum(len(module.ops) for module in group), kernels=sum(module.kernels for module in group),
        eager_us=_sum(module.eager_us for module in group), compiled_us=_sum(module.compiled_us for module in group),
        bytes=sum(module.bytes for module in group), breaks=sum(len(module.breaks) for module in group),
        guards=sum(module.guards for module in group), recompiles=sum(module.recompiles for module in group),
        paths=tuple(module.name for module in group), members=tuple(group),
    )  # fmt: skip


def _range(group: Sequence[Module]) -> str:
    """Return the path of a module, or a range: `layers.1 – 6, 8 – 31`."""
    first = group[0]
    numbers = [module.path[-1] for module in group] if first.path else []
    if len(group) == 1:
        return first.name
    if not all(number.isdecimal() for number in numbers):
        return ", ".join(module.name for module in group)
    runs: list[list[int]] = []
    for number in map(int, numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    ranges = ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]} – {run[-1]}" for run in runs)
    return ".".join((*first.path[:-1], ranges))


def _sum(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def difference(usual: Module, odd: Module) -> str:
    """Return the first difference of a module from most of its siblings: its class, a break, an op, a kernel."""
    if odd.type != usual.type:
        return f"{odd.type} instead of {usual.type}"
    if len(odd.breaks) != len(usual.breaks):
        return f"graph break: {odd.breaks[-1].kind}" if odd.breaks else "no graph break"
    if odd.recompiles != usual.recompiles:
        return f"{odd.recompiles} recompiles instead of {usual.recompiles}"
    more_ops = len(odd.ops) - len(usual.ops)
    for before, after in zip_longest(usual.ops, odd.ops):
        if text := _op_difference(before, after, len(odd.path), more_ops):
            return text
    more, fewer = odd.inner_kernels - usual.inner_kernels, usual.inner_kernels - odd.inner_kernels
    if more or fewer:
        own = ", ".join(more) or "no kernel"
        return f"{own} instead of {', '.join(fewer)}" if fewer else f"one more kernel: {own}"
    return ""


def _op_difference(before: ModuleOp | None, after: ModuleOp | None, depth: int, more_ops: int) -> str:
    """Return what differs in two ops of modules that have so many parents; empty if nothing does.

    `more_ops` is the number of ops that the second module has in addition.
    """
    same = before is not None and after is not None and _kind(before, depth) == _kind(after, depth)
    if after is not None and not same and (before is None or more_ops > 0):
        return f"{more_ops} more {'op' if more_ops == 1 else 'ops'}, first {_name(after, depth)}"
    if before is not None and not same and (after is None or more_ops < 0):
        return f"without {_name(before, depth)}"
    if before is None or after is None:
        return ""
    old, new, name = before.step, after.step, _name(after, depth)
    if not same:
        return f"{name} instead of {_name(before, depth)}"
    if old.value != new.value:
        return f"{name} gives {new.value} instead of {old.value}"
    for was, now in zip_longest(old.inputs, new.inputs):
        if was != now:
            return f"{name} reads {now or 'nothing'} instead of {was or 'nothing'}"
    return "" if old.constants == new.constants else f"{name} with {new.constants} instead of {old.constants}"


def _kind(op: ModuleOp, depth: int) -> tuple[str, Path]:
    return op.step.op, op.path[depth:]


def _name(op: ModuleOp, depth: int) -> str:
    name = op.step.op.rpartition("functional.")[2]
    return f"{name} in {'.'.join(op.path[depth:])}" if op.path[depth:] else name
