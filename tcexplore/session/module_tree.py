"""The modules of a run as a tree: ops, kernels, time, memory and breaks of each, with equal siblings folded."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import zip_longest
from math import inf
from typing import NamedTuple

from tcexplore import events as ev
from tcexplore.events.dynamo_events import subgraph_of
from tcexplore.session.call_account import CallAccount
from tcexplore.session.line_times import NodeKey, RestTime, node_weight, post_grad_nodes

_CALLS = ("call_function", "call_method", "call_module")
_INVOKE = "higher_order.invoke_subgraph"
_VALUE = re.compile(r"\b\w+\b(?!=)")
"""A word that is no name of an argument."""
_FLOAT = re.compile(r"\d+\.\d*(?:e[-+]?\d+)?|\d+e[-+]?\d+")

OUTSIDE = "outside the modules"
OWN = "the model itself"
"""Names of the time that is in no module of the tree but its root: of ops that no module calls, and of the root's."""

_REST_NAMES: dict[str, str] = {"eager op": "eager ops", "idle": "Python and launch"}
"""Names of the parts of a compiled call that are no kernels; others have the name of their kind."""

LEAST_US = 1e-6
"""Microseconds below which a sum of times is rounding."""

LIMIT_HIT = "in no graph: the recompile limit was reached"

MOST_ODD = 2
"""Number of equal modules that may be compiled in another way to be called odd: more of them are no exception."""

Path = tuple[str, ...]
"""Names of the modules from the outermost one on; empty for that."""


class Step(NamedTuple):
    """What is compared of an op in two modules."""

    op: str
    value: str
    """Type and shape of the result."""
    constants: str
    """Arguments without the names of nodes."""
    inputs: tuple[str, ...]
    """Type and shape of each."""

    @property
    def unnumbered(self) -> Step:
        """The same without the floats among the constants."""
        return self._replace(constants=_FLOAT.sub("·", self.constants))


class ModuleOp(NamedTuple):
    """An op and the innermost module that runs it."""

    graph: str
    node: ev.FxNode
    path: Path
    step: Step
    order: int
    """Its number among the ops of the run."""
    producers: tuple[int, ...]
    """Numbers of the ops that it reads; -1 for a parameter or an input."""


FEWEST_CALLS = 3
"""Profiled calls from which on the least and the most of a time tell how it varies."""


class _Time(NamedTuple):
    """Time of a kernel in one call, with the least and the most of the profiled calls."""

    us: float = 0.0
    low_us: float = 0.0
    high_us: float = 0.0

    @classmethod
    def of(cls, part: ev.CallPart, account: CallAccount, launch_us: float = 0.0) -> _Time:
        """Return the time of a part with that of its launches, which varies as the part does."""
        if account.repeats < FEWEST_CALLS:
            return cls(part.us + launch_us, 0.0, inf)
        low, high = (part.low_us / part.us, part.high_us / part.us) if part.us else (1.0, 1.0)
        return cls(part.us + launch_us, part.low_us + launch_us * low, part.high_us + launch_us * high)

    def __add__(self, other: object) -> _Time:
        if not isinstance(other, _Time):
            return NotImplemented
        return _Time(self.us + other.us, self.low_us + other.low_us, self.high_us + other.high_us)


@dataclass(slots=True)
class Module:
    """A module of the program. Counts and times include the modules inside it."""

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
    compiled_range_us: tuple[float, float] = (0.0, 0.0)
    """Sums of the least and of the most that its kernels took in the profiled calls, if there are enough of these."""
    bytes: int = 0
    """Parameters and buffers that the graphs read; 0 if there are none, or if their sizes are symbolic."""
    breaks: tuple[ev.GraphBreak, ...] = ()
    guards: int = 0
    recompiles: int = 0
    has_frame: bool = False
    """Whether its `forward` was compiled as a frame, so that siblings may run the same code."""
    limit_hit: bool = False
    """Whether that frame reached the recompile limit, so that siblings without a graph run eagerly."""

    @property
    def name(self) -> str:
        return ".".join(self.path)

    @property
    def is_member(self) -> bool:
        """Whether it is a member of a list."""
        return bool(self.path) and self.path[-1].isdecimal()

    def structure(self, *, numbers: bool = True) -> tuple[object, ...]:
        """Return what two equal modules share: classes, ops, where these read, and breaks.

        Without `numbers`, the floats among the constants of ops are left out.
        """
        depth, first = len(self.path), self.ops[0].order if self.ops else 0
        ops = tuple(
            [(op.path[depth:], op.step if numbers else op.step.unnumbered, tuple(_reads(op, first))) for op in self.ops]
        )
        return self.type, ops, tuple(self.inner_types()), len(self.breaks)

    def inner_types(self) -> Iterator[tuple[Path, str]]:
        """Yield the class of each module inside it that runs an op."""
        for child in self.children.values():
            if child.ops:
                yield child.path[len(self.path) :], child.type
                for path, kind in child.inner_types():
                    yield child.path[len(self.path) :] + path, kind


@dataclass(frozen=True, slots=True)
class ModuleRow:
    """A module, or several equal siblings, in the order of execution. Figures of several are sums."""

    path: str
    """From the outermost module, which has the empty path; `layers.1 – 31` for equal members of a list."""
    type: str
    """Name of the class; empty if torch does not say, as for a list of modules."""
    depth: int
    """Number of modules that contain it."""
    repeats: int = 1
    """Number of modules of the row."""
    same_as: str = ""
    """Path of the sibling, in another row, that these modules equal."""
    numbers: str = ""
    """Numbers in which they differ from it, as layers do whose dropout grows with the depth."""
    differs: str = ""
    """What differs from most members of its list; empty if nothing does."""
    ops: int = 0
    """Call nodes of the Dynamo graphs, of a recompiled frame those of its newest graph."""
    kernels: int = 0
    """Launches of one call that compute an op of it; a fused kernel counts for each of its modules."""
    eager_us: float | None = None
    """Of one call: its ops, on a CPU with the time between them. None if not measured."""
    compiled_us: float | None = None
    """Of one call: the time of each kernel, on a CPU with that of its launches, split over its modules by bytes or
    FLOPs. None if not measured.

    That of the outermost module is the whole call.
    """
    bytes: int = 0
    """Parameters and buffers that the graphs read, without those of symbolic sizes."""
    breaks: int = 0
    guards: int = 0
    recompiles: int = 0
    paths: tuple[str, ...] = ()
    """Of all the modules of the row."""
    members: tuple[Module, ...] = ()

    @property
    def equals(self) -> str:
        """What the row equals, as text; empty without `same_as`."""
        return f"same as {self.same_as}{' but for numbers' if self.numbers else ''}" if self.same_as else ""

    @property
    def kernel_variants(self) -> tuple[int, ...]:
        """Numbers of modules whose ops became the same kernels, if these differ between equal modules; else empty.

        A single module does not count: the last of a list is fused with what follows it.
        """
        kinds = Counter(frozenset(module.inner_kernels.items()) for module in self.members if module.ops)
        variants = tuple(sorted((number for number in kinds.values() if number > 1), reverse=True))
        return variants if len(variants) > 1 else ()


@dataclass(frozen=True, slots=True)
class ModuleTree:
    """The modules of a run, and the time of the calls that none of them takes."""

    root: Module
    rows: tuple[ModuleRow, ...]
    """The modules with equal siblings folded, in the order of execution; empty without modules."""
    rest: tuple[RestTime, ...]
    """With the modules below the root, it adds up to the calls."""
    calls: int = 1
    """Calls whose times they are: of a script one of each region."""


class CallTimes(NamedTuple):
    """The measurements of a call."""

    account: CallAccount | None
    eager_lines: ev.EagerLinesTimed | None
    timing: ev.TimingEstimate | None

    @property
    def graphs(self) -> set[str | None]:
        """The graphs with kernels in the call."""
        return set() if self.account is None else {p.graph for p in self.account.parts if p.kind == "kernel"}


class TreeFacts(NamedTuple):
    """What a tree is made of."""

    graphs: tuple[ev.GraphCaptured, ...]
    breaks: tuple[ev.GraphBreak, ...]
    recompiles: tuple[ev.Recompiled, ...]
    kernels: tuple[ev.Kernel, ...]
    """Of this machine."""
    aten_graphs: tuple[ev.AtenGraph, ...]
    region_modules: tuple[ev.RegionModule, ...] = ()
    guards: tuple[ev.GuardsInstalled, ...] = ()
    calls: tuple[CallTimes, ...] = ()
    """Of different graphs: the call of the program, or of a script one of each region. Without, a tree has no times."""

    @property
    def timed_graphs(self) -> set[str | None]:
        """The graphs with kernels in the timed calls."""
        return {graph for call in self.calls for graph in call.graphs}

    @property
    def accounts(self) -> list[CallAccount]:
        return [call.account for call in self.calls if call.account is not None]

    @property
    def callers(self) -> list[ev.GraphCaller]:
        """The modules that call the graphs, in the timed calls."""
        return [caller for account in self.accounts for caller in account.profile.callers]


def module_tree(facts: TreeFacts) -> ModuleTree:
    """Return the outermost module with all modules that run an op in a graph."""
    builder = _TreeBuilder(facts)
    builder.read_graphs()
    rest = [*builder.attribute_kernels()]
    builder.count_breaks()
    rest += builder.attribute_eager()
    rows = tuple(_rows([builder.root], 0)) if builder.root.children else ()
    return ModuleTree(builder.root, rows, tuple(_joined(rest)), len(facts.calls))


def _joined(rest: Iterable[RestTime]) -> Iterator[RestTime]:
    eager, compiled = dict[str, float](), dict[str, float]()
    for time in rest:
        for known, us in ((eager, time.eager_us), (compiled, time.compiled_us)):
            if us:
                known[time.name] = known.get(time.name, 0.0) + us
    for name in dict.fromkeys((*eager, *compiled)):
        eager_us, compiled_us = (known.get(name) for known in (eager, compiled))
        if any(us is not None and abs(us) > LEAST_US for us in (eager_us, compiled_us)):
            yield RestTime(name, eager_us, compiled_us)


def _rest_name(kind: ev.PartKind) -> str:
    return _REST_NAMES.get(kind, kind)


class _TreeBuilder:
    """The modules of a run while their figures are gathered."""

    def __init__(self, facts: TreeFacts) -> None:
        self._facts = facts
        self._graphs = _counted_graphs(facts)
        roots = {module.root for captured in facts.graphs for module in captured.modules if module.path is not None}
        roots = {root for root in (*roots, *(captured.root for captured in facts.graphs)) if root}
        self._roots = roots
        # The root is what is called: a function, or several modules, has its outermost modules below it.
        self._is_module = len(roots) == 1 and not _calls_no_module(facts)
        self._paths = _Paths(roots, prefixed=bool(roots) and not self._is_module)
        self.root = Module(())
        self._of_node: dict[tuple[str, str], Path] = {}
        """Path of each Dynamo node, by graph and name: of one in a subgraph, in the first module that calls it."""
        self._callers: dict[tuple[str, str], list[Path]] = {}
        """Paths of the calls of each subgraph, by graph and name."""
        self._modules = self._modules_of_graphs()

    def _module(self, path: Path) -> Module:
        module = self.root
        for index, name in enumerate(path):
            known = module.children.get(name)
            if known is None:
                known = module.children[name] = Module(path[: index + 1])
            module = known
        return module

    def _with_parents(self, path: Path) -> Iterator[Module]:
        """Yield the root and each module on the way to this one."""
        module = self.root
        yield module
        for name in path:
            module = module.children[name]
            yield module

    def _known_parents(self, path: Path) -> Iterator[Module]:
        module: Module | None = self.root
        for name in (*path, ""):
            if module is None:
                return
            yield module
            module = module.children.get(name)

    def _modules_of_graphs(self) -> dict[str, dict[Path, int]]:
        """Return the modules on which the code of each graph runs in one unit of calls, and how often."""
        modules: dict[str, dict[Path, int]] = defaultdict(dict)
        for caller in self._facts.callers:
            if caller.root in self._roots:
                modules[caller.graph][self._paths.of_place(caller.root, caller.path)] = caller.calls
        return modules

    def _modules_of(self, captured: ev.GraphCaptured) -> dict[Path, int]:
        """Return the modules on which the code of a graph runs; the one that it was compiled for if no call shows.

        A function that calls modules is of none; any other function is of the modules that call it.
        """
        of_modules = captured.module is not None or not captured.modules
        return (self._modules.get(captured.graph) if of_modules else None) or {self._paths.of_frame(captured): 1}

    def read_graphs(self) -> None:
        """Add each op to its module, in the order of execution, and each parameter to the module that has it."""
        read = set[Path]()
        for captured in self._graphs:
            modules, own = self._modules_of(captured), self._paths.of_frame(captured)
            for path in modules:
                self._read_ops(captured, path)
            self._read_modules(captured)
            for node in captured.nodes:
                if node.op == "placeholder" and "." in node.target and self._paths.is_inside(captured, node.target):
                    source = self._paths.of_source(captured, node.target)
                    for path in {_moved(source, own, module) for module in modules} - read:
                        for module in self._known_parents(path):
                            module.bytes += node.tensor_bytes or 0
                        read.add(path)
        for region in self._facts.region_modules:
            self._add_sibling(region)
        for root in self._roots:
            outermost = self.root if self._is_module else self.root.children.get(root)
            if outermost is not None and not outermost.type:
                outermost.type = root.partition(" ")[0]

    def _add_sibling(self, region: ev.RegionModule) -> None:
        """Add the module of a region that compiled nothing, since a sibling has compiled the same code."""
        path = self._paths.of_place(region.root, region.path)
        *_, parent = self._known_parents(path)
        siblings = parent.children.values() if parent.path == path[:-1] else ()
        if any(sibling.has_frame and sibling.type == region.type for sibling in siblings):
            self._module(path).type = region.type
            if all(sibling.is_member for sibling in parent.children.values()):
                parent.children = dict(sorted(parent.children.items(), key=lambda child: int(child[0])))

    def _read_ops(self, captured: ev.GraphCaptured, module: Path) -> None:
        """Add the ops of a graph whose code runs on a module."""
        own, nodes = self._paths.of_frame(captured), {node.name: node for node in captured.all_nodes}
        orders: dict[str, int] = {}
        bodies: dict[str, list[ev.FxNode]] = defaultdict(list)
        for node in captured.all_nodes:
            if node.op in _CALLS:
                path = self._of_node[captured.graph, node.name] = self._paths.of_node(captured, node)
                self._add_op(captured.graph, node, _moved(path, own, module), nodes, orders)
                bodies[subgraph_of([node.name])].append(node)
        callers: dict[str, list[Path]] = defaultdict(list)
        for node, called in _calls_of_subgraphs(captured.nodes):
            caller, first = self._of_node[captured.graph, node.name], callers[called][:1]
            for inner in bodies[called] if first else ():  # those of the first caller are there
                path = _moved(self._of_node[captured.graph, inner.name], first[0], caller)
                self._add_op(captured.graph, inner, _moved(path, own, module), nodes, orders)
            callers[called].append(caller)
        self._callers |= {(captured.graph, called): paths for called, paths in callers.items()}

    def _add_op(
        self, graph: str, node: ev.FxNode, path: Path, nodes: Mapping[str, ev.FxNode], orders: dict[str, int]
    ) -> None:
        """Add an op to its module; `orders` has the number of each op so far."""
        self._module(path)
        order = orders[node.name] = len(self.root.ops)
        producers = tuple([orders.get(name, -1) for name in node.inputs])
        op = ModuleOp(graph, node, path, _step(node, nodes), order, producers)
        for module in self._with_parents(path):
            module.ops.append(op)

    def _read_modules(self, captured: ev.GraphCaptured) -> None:
        for known in captured.modules:
            path = self._paths.of_source(captured, known.source)
            if self._contains(path):
                self._module(path).type = known.type
        if captured.module is not None and (path := self._paths.of_frame(captured)):
            self._module(path).has_frame = True

    # ---- time of the compiled call

    def attribute_kernels(self) -> Iterator[RestTime]:
        """Count the launches of each module, and split the time of each kernel over the modules of its ops.

        Yield what is no module's.
        """
        nodes = post_grad_nodes(self._facts.aten_graphs)
        callers = self._post_grad_callers()
        frames = {captured.graph: self._paths.of_frame(captured) for captured in self._facts.graphs}
        modules = {captured.graph: self._modules_of(captured) for captured in self._facts.graphs}
        unknown: Path = ()  # of a graph that is not known
        parts: dict[NodeKey, _Time] = defaultdict(_Time)
        for account in self._facts.accounts:
            yield from self._read_account(account, parts)
        for kernel in self._facts.kernels:
            time = parts.pop((kernel.graph, kernel.phase, kernel.name), None)
            weights: dict[Path | None, float] = defaultdict(float)
            for call in kernel.calls or (kernel,):
                for caller in callers.get((kernel.graph, kernel.phase, subgraph_of(call.nodes)), [None]):
                    of_call = self._weights(kernel, call.nodes, nodes, caller)
                    compiled_for = frames.get(kernel.graph, unknown)
                    for module, times in modules.get(kernel.graph, {unknown: 1}).items():
                        moved = {
                            None if path is None else _moved(path, compiled_for, module): w * times
                            for path, w in of_call.items()
                        }
                        for path, weight in moved.items():
                            weights[path] += weight
                        inside = tuple(path for path in moved if path is not None)
                        self._count_launch(inside, kernel, call.ops, times)
            own, outside = self._add_time(weights, time) if time is not None else (0.0, 0.0)
            yield RestTime(OWN if self._is_module else OUTSIDE, None, own)
            yield RestTime(OUTSIDE, None, outside)
        yield RestTime(OUTSIDE, None, sum(time.us for time in parts.values()))

    def _read_account(self, account: CallAccount, kernels: dict[NodeKey, _Time]) -> Iterator[RestTime]:
        """Add the times of kernels to `kernels`, and those of eager ops to their modules; yield what is no module's."""
        launches = 0.0
        for part in account.parts:
            if part.kind == "kernel":
                launch = 0.0 if account.on_device else part.launch_us
                kernels[part.graph, part.phase, part.name] += _Time.of(part, account, launch)
                launches += launch
            elif part.module is not None and part.root in self._roots:
                path = self._paths.of_place(part.root, part.module)
                self._module(path)
                own, _ = self._add_time({path: 1.0}, _Time.of(part, account))
                yield RestTime(OWN if self._is_module else OUTSIDE, None, own)
            else:
                yield RestTime(_rest_name(part.kind), None, part.us)
        self.root.compiled_us = (self.root.compiled_us or 0.0) + account.total_us
        yield RestTime(_rest_name(account.launch_part), None, -launches)
        yield RestTime("overlap" if account.rest_us < 0 else OUTSIDE, None, account.rest_us)

    def _post_grad_callers(self) -> dict[NodeKey, list[Path | None]]:
        """Return the path of each call of a subgraph in a post-grad graph, by graph, phase and subgraph."""
        callers: dict[NodeKey, list[Path | None]] = defaultdict(list)
        for aten in (aten for aten in self._facts.aten_graphs if aten.stage == "post_grad"):
            for node, called in _calls_of_subgraphs(aten.nodes):
                path = next((self._of_node.get((aten.graph, origin)) for origin in node.origins), None)
                callers[aten.graph, aten.phase, called].append(path)
        return callers

    @cached_property
    def _outside(self) -> set[tuple[str, str]]:
        """Nodes of functions that call modules, outside of these: also of what resumes in them after a graph break."""
        of_functions = [captured for captured in self._facts.graphs if captured.module is None]
        callers = {_function(captured) for captured in of_functions if captured.modules} - {None}
        return {
            (captured.graph, node.name)
            for captured in of_functions
            if captured.modules or _function(captured) in callers
            for node in captured.all_nodes
            if node.module is None
        }

    def _path_in(self, graph: str, origin: str, caller: Path | None) -> Path | None:
        """Return the path of a Dynamo node; of one in a subgraph, inside the module that calls it; None outside."""
        if (graph, origin) in self._outside:
            return None
        path, first = self._of_node.get((graph, origin)), self._callers.get((graph, subgraph_of([origin])))
        return path if path is None or caller is None or first is None else _moved(path, first[0], caller)

    def _weights(
        self, kernel: ev.Kernel, names: Iterable[str], nodes: Mapping[NodeKey, ev.FxNode], caller: Path | None
    ) -> dict[Path | None, float]:
        """Return the weight of each module in a call of a kernel, in a subgraph that the module `caller` calls.

        None stands for ops outside of all modules, as those of a function that calls the model.
        """
        weights: dict[Path | None, float] = defaultdict(float)
        for name in names:
            node = nodes.get((kernel.graph, kernel.phase, name))
            origins = [
                path
                for origin in (node.origins if node else ())
                for path in [self._path_in(kernel.graph, origin, caller)]
                if path is not None or (kernel.graph, origin) in self._outside
            ]
            for path in origins:
                weights[path] += (node_weight(kernel, node, nodes) if node else 0.0) / len(origins) or 1e-9
        return weights

    def _count_launch(self, paths: Sequence[Path], kernel: ev.Kernel, ops: Sequence[str], times: int) -> None:
        modules = {module.path: module for path in paths for module in self._with_parents(path)}
        for module in modules.values():
            module.kernels += times
            if all(path[: len(module.path)] == module.path for path in paths):
                module.inner_kernels[_kernel_name(kernel, ops)] += times

    def _add_time(self, weights: Mapping[Path | None, float], time: _Time) -> tuple[float, float]:
        """Add the time of a kernel to its modules; return what is that of the root alone, and of no module."""
        total = sum(weights.values())
        if not total:
            return 0.0, time.us
        own = time.us * weights.get((), 0.0) / total
        outside = time.us * weights.get(None, 0.0) / total
        for path, weight in weights.items():
            for module in self._with_parents(path or ()):
                if module.path:
                    share, (low, high) = weight / total, module.compiled_range_us
                    module.compiled_us = (module.compiled_us or 0.0) + time.us * share
                    module.compiled_range_us = low + time.low_us * share, high + time.high_us * share
        return own, outside

    # ---- time of the eager call

    def attribute_eager(self) -> Iterator[RestTime]:
        """Add the eager time of each module; yield what is no module's.

        A run that was not timed by module, and one whose paths are unknown, has its lines split over their modules.
        """
        for call in self._facts.calls:
            if call.eager_lines is not None:
                yield from self._read_eager(call.eager_lines, call.timing)

    def _read_eager(self, timed: ev.EagerLinesTimed, timing: ev.TimingEstimate | None) -> Iterator[RestTime]:
        scale = timing.eager_us / timed.call_us if timing and timed.call_us else 1.0
        self.root.eager_us = (self.root.eager_us or 0.0) + timed.call_us * scale
        times = [(self._paths.of_eager(module), module) for module in timed.modules]
        if any(path and self._contains(path) for path, _ in times):
            yield from self._add_eager_modules(times, scale)
            left = timed.call_us - sum(module.us for module in timed.modules)
            between = dict(timed.rest).get("Python and launch", 0.0)
            rest = timed.rest if left > between / 2 else ()  # on a CPU, the modules have the time between the ops
        else:
            self._split_lines(timed, scale)
            rest = timed.rest
        for name, us in rest:
            yield RestTime(OUTSIDE if name == "unattributed" else name, us * scale, None)

    def _contains(self, path: Path) -> bool:
        return sum(1 for _ in self._known_parents(path)) == len(path) + 1

    def _add_eager_modules(
        self, times: Sequence[tuple[Path | None, ev.EagerModule]], scale: float
    ) -> Iterator[RestTime]:
        yield RestTime(OUTSIDE, sum(timed.us for path, timed in times if path is None) * scale, None)
        known = [(path, timed) for path, timed in times if path is not None]
        for path, timed in known:
            if not timed.us and not self._contains(path):
                continue
            module = self._module(path)
            module.type = module.type or timed.type
            if not path:
                yield RestTime(OWN if timed.root else OUTSIDE, timed.us * scale, None)
            for module in self._with_parents(path):
                if module.path:
                    module.eager_us = (module.eager_us or 0.0) + timed.us * scale
        for path, timed in known:
            if timed.type and self._contains(path):
                self._module(path).type = timed.type

    def _split_lines(self, timed: ev.EagerLinesTimed, scale: float) -> None:
        """Split the eager time of each line over the modules whose ops are on it."""
        on_line: dict[tuple[str, int], Counter[Path]] = defaultdict(Counter)
        for captured in self._graphs:
            for node in captured.all_nodes:
                path = self._of_node.get((captured.graph, node.name))
                if path is not None and node.location is not None:
                    on_line[node.location.file, node.location.line][path] += 1
        for line in timed.lines:
            paths = on_line.get((line.location.file, line.location.line))
            total = paths.total() if paths else 0
            for path, count in paths.items() if paths else ():
                for module in self._with_parents(path):
                    if module.path:
                        module.eager_us = (module.eager_us or 0.0) + line.us * scale * count / total

    # ---- breaks, recompiles, guards

    def count_breaks(self) -> None:
        """Count breaks and recompiles for the module of their frame, and guards for the module that they are about."""
        frames = {captured.graph: captured for captured in self._facts.graphs}
        for graph_break in self._facts.breaks:
            path = self._paths.of_break(graph_break, frames.get(graph_break.graph))
            paths = self._same_code(path)
            for module in {id(module): module for path in paths for module in self._known_parents(path)}.values():
                module.breaks = (*module.breaks, graph_break)
        for graph in dict.fromkeys(recompiled.graph for recompiled in self._facts.recompiles):
            captured = frames.get(graph)
            for module in self._known_parents(self._paths.of_frame(captured) if captured else ()):
                module.recompiles += 1
        limited = {r.graph.partition("/")[0] for r in self._facts.recompiles if r.limit_hit}
        for captured in self._facts.graphs:
            if captured.graph.partition("/")[0] in limited and self._contains(path := self._paths.of_frame(captured)):
                self._module(path).limit_hit = True
        for installed in self._facts.guards:
            captured = frames.get(installed.graph)
            for guard in installed.guards:
                path = self._paths.of_guard(captured, guard.source) if captured else ()
                for module in self._known_parents(path):
                    module.guards += 1

    def _same_code(self, path: Path) -> list[Path]:
        """Return a module, and those that break as it does: it, or one around it, was compiled in the same parts.

        A break is that of the first frame in which torch met it, which may have no graph.
        """
        own = next((path[:n] for n in range(len(path), -1, -1) if path[:n] in self._parts), None)
        if own is None:
            return [path]
        return [path, *(_moved(path, own, module) for module in self._alike[self._parts[own]] if module != own)]

    @cached_property
    def _parts(self) -> dict[Path, frozenset[ev.Location | None]]:
        """The frames as which the code of each module was compiled."""
        parts: dict[Path, set[ev.Location | None]] = defaultdict(set)
        for captured in self._graphs:
            for module in self._modules_of(captured) if captured.module is not None else ():
                parts[module].add(captured.frame)
        return {module: frozenset(frames) for module, frames in parts.items()}

    @cached_property
    def _alike(self) -> dict[frozenset[ev.Location | None], list[Path]]:
        """The modules by these frames."""
        alike: dict[frozenset[ev.Location | None], list[Path]] = defaultdict(list)
        for module, frames in self._parts.items():
            alike[frames].append(module)
        return alike


def _counted_graphs(facts: TreeFacts) -> list[ev.GraphCaptured]:
    """Return the graphs without those that later compiles replace in warm calls.

    They are of the same frame and module, or, once the callers of the graphs are known, of the modules inside it.
    """
    newest: dict[object, str] = {}
    keys = {}
    for captured in facts.graphs:
        frame = captured.graph.partition("/")[0]
        keys[captured.graph] = frame, captured.root, captured.module, tuple(m.path for m in captured.modules)
        newest[keys[captured.graph]] = captured.graph
    callers = facts.callers
    called = {caller.graph for caller in callers} | facts.timed_graphs
    inside = {(caller.root, outer) for caller in callers for outer in _outer_paths(caller.path)}
    return [
        captured
        for captured in facts.graphs
        if captured.graph in called
        or (newest[keys[captured.graph]] == captured.graph and (captured.root, captured.module) not in inside)
    ]


def _function(captured: ev.GraphCaptured) -> tuple[str, str] | None:
    """Return the file and the name of the function of a frame; None if unknown."""
    return (captured.frame.file, captured.frame.function) if captured.frame is not None else None


def _calls_no_module(facts: TreeFacts) -> bool:
    """Return whether the timed call runs graphs of functions only, while modules are compiled elsewhere."""
    timed = facts.timed_graphs
    called = [captured for captured in facts.graphs if captured.graph in timed]
    return bool(called) and not any(captured.root or captured.modules for captured in called)


def _outer_paths(path: str) -> Iterator[str]:
    """Yield a path in the program and those of the modules around it, but for the outermost one."""
    while path:
        yield path
        path = path.rpartition(".")[0]


def _kernel_name(kernel: ev.Kernel, ops: Sequence[str]) -> str:
    names = [op.partition(".")[2] or op for op in ops]
    shown = ", ".join(names[:4]) + (f" +{len(names) - 4}" if len(names) > 4 else "")
    return f"{kernel.name.partition(':')[0]} ({shown})" if not kernel.generated else f"kernel of {shown}"


# ---- paths


class _Paths:
    """Paths of nodes, parameters and frames in the tree."""

    def __init__(self, roots: Collection[str], *, prefixed: bool) -> None:
        """`roots` are the outermost modules of the graphs, empty if unknown; paths may begin with them."""
        self._roots = roots
        self._prefixed = prefixed
        self._known: dict[str, dict[str, Path]] = {}
        """By graph and source."""
        self._sources: dict[str, tuple[str, ...]] = {}
        """The shortest sources of modules, by graph."""

    def _from(self, root: str, path: str) -> Path:
        names = tuple(path.split(".")) if path else ()
        return (root, *names) if self._prefixed and root else names

    def of_eager(self, module: ev.EagerModule) -> Path | None:
        """Return the path of a module; None if its outermost one runs in no graph, as a loss outside of it."""
        is_known = not self._roots or not module.root or module.root in self._roots
        return self._from(module.root, module.path) if is_known else None

    def of_place(self, root: str, path: str) -> Path:
        return self._from(root, path)

    def of_frame(self, captured: ev.GraphCaptured) -> Path:
        return self._from(captured.root, captured.module) if captured.module is not None else ()

    def of_break(self, graph_break: ev.GraphBreak, captured: ev.GraphCaptured | None) -> Path:
        if graph_break.module is not None:
            return self._from(graph_break.root, graph_break.module)
        return self.of_frame(captured) if captured is not None else ()

    def of_node(self, captured: ev.GraphCaptured, node: ev.FxNode) -> Path:
        """Return the path of the module that runs a node; of a function that is called in a forward, of that."""
        if node.module is None:
            return self.of_frame(captured)
        return self.of_source(captured, node.module)

    def of_guard(self, captured: ev.GraphCaptured, source: str) -> Path:
        return self.of_source(captured, source) if self.is_inside(captured, source) else ()

    def is_inside(self, captured: ev.GraphCaptured, source: str) -> bool:
        """Return whether a source reads a member of a module of the frame."""
        self.of_source(captured, source)
        sources = self._sources[captured.graph]
        return any(source.startswith((f"{module}.", f"{module}[")) for module in sources)

    def of_source(self, captured: ev.GraphCaptured, source: str) -> Path:
        """Return the path of a module, or of a member of one, that the frame reads by a name as in its nodes."""
        known = self._known.get(captured.graph)
        if known is None:
            known = self._known[captured.graph] = dict(self._of_modules(captured))
            outermost: list[str] = []
            for module in sorted({"self", *known, *(module.source for module in captured.modules)}, key=len):
                if not any(module.startswith((f"{outer}.", f"{outer}[")) for outer in outermost):
                    outermost.append(module)
            self._sources[captured.graph] = tuple(outermost)
        path = known.get(source)
        if path is None:
            path = known[source] = self._below(captured, source)
        return path

    def _of_modules(self, captured: ev.GraphCaptured) -> Iterator[tuple[str, Path]]:
        if captured.module is not None:
            yield "self", self.of_frame(captured)
        for module in captured.modules:
            if module.path is not None:
                yield module.source, self._from(module.root, module.path)
                outer = module.source.removesuffix(f".{module.path}")
                if module.path and outer != module.source:
                    yield outer, self._from(module.root, "")

    def _below(self, captured: ev.GraphCaptured, source: str) -> Path:
        """Return the path of what is no module of the frame: its longest known beginning, and the other names."""
        outer, dot, name = source.rpartition(".")
        if dot:
            return (*self.of_source(captured, outer), *_names(name))
        names = _names(source)
        return names[1:] if names[:1] == ("self",) else names


def _names(source: str) -> Path:
    """Return the names in `layers[0]`, `layers['a']`."""
    return tuple(name for name in re.split(r"\['|'\]|[\[\]]", source) if name)


def _calls_of_subgraphs(nodes: Sequence[ev.FxNode]) -> Iterator[tuple[ev.FxNode, str]]:
    """Yield each node of a graph that calls a `torch.compiler.nested_compile_region`, and the subgraph of that."""
    held = {node.name: node.target for node in nodes if node.op == "get_attr"}
    for node in nodes:
        if node.target == _INVOKE and node.inputs and node.inputs[0] in held:
            yield node, held[node.inputs[0]]


def _moved(path: Path, before: Path, after: Path) -> Path:
    """Return the path of what is inside the module `before` inside another one."""
    return after + path[len(before) :] if path[: len(before)] == before else path


def _step(node: ev.FxNode, nodes: Mapping[str, ev.FxNode]) -> Step:
    names = frozenset([name.rpartition(".")[2] for name in node.inputs])  # in a subgraph, they begin with its path
    return Step(
        op=node.target,
        value=_value(node),
        # Of a subgraph that it calls, the ops are compared, not the name.
        constants="" if node.target == _INVOKE else _VALUE.sub(lambda m: "·" if m[0] in names else m[0], node.args),
        inputs=tuple(_value(nodes[name]) for name in node.inputs if name in nodes),
    )


def _value(node: ev.FxNode) -> str:
    return f"{node.dtype}[{', '.join(node.shape)}]" if node.dtype and node.shape is not None else ""


# ---- folding


def _rows(siblings: Sequence[Module], depth: int) -> Iterator[ModuleRow]:
    """Yield the rows of modules with one parent, and of the modules inside them."""
    groups = _groups(siblings)
    usual = _usual(siblings, groups)
    group_of = {id(module): group for group in groups for module in group}
    for module in siblings:
        group = group_of[id(module)]
        if module is group[0]:
            odd = usual is not None and usual is not module and module.is_member
            yield _row([module], depth, differs=difference(usual, module) if odd and usual else "")
            yield from _rows(list(module.children.values()), depth + 1)
        elif module is group[1]:
            yield _row(group[1:], depth, same_as=group[0].name, numbers=_other_numbers(group))


def _groups(siblings: Sequence[Module]) -> list[list[Module]]:
    """Return equal members of a list, and each other module, in the order of execution.

    A member without a graph of its own runs the code that was compiled for the first one of its class.
    """
    groups: dict[object, list[Module]] = {}
    frames: dict[str, list[Module]] = {}
    for module in siblings:
        if module.is_member and not module.ops and module.type in frames:
            limit_hit = any(other.limit_hit for other in siblings)
            group = groups.setdefault((LIMIT_HIT, module.type), []) if limit_hit else frames[module.type]
            group.append(module)
            continue
        group = groups.setdefault(module.structure() if module.is_member else id(module), [])
        group.append(module)
        if module.has_frame:
            frames.setdefault(module.type, group)
    order = {id(module): index for index, module in enumerate(siblings)}
    joined = (sorted(group, key=lambda module: order[id(module)]) for group in _join_by_numbers(groups.values()))
    parted = [part for group in joined for part in _part_by_compile(group, siblings)]
    return sorted(parted, key=lambda group: order[id(group[0])])


def _join_by_numbers(groups: Iterable[list[Module]]) -> Iterator[list[Module]]:
    """Yield the groups, and as one those that differ in numbers only, if most of their modules have their own."""
    alike: dict[object, list[list[Module]]] = {}
    for group in groups:
        first = group[0]
        key = first.structure(numbers=False) if first.is_member and first.ops else id(first)
        alike.setdefault(key, []).append(group)
    for several in alike.values():
        members = sum(map(len, several))
        if 2 * max(map(len, several)) <= members < 2 * len(several):
            yield [module for group in several for module in group]
        else:
            yield from several


def _other_numbers(group: Sequence[Module]) -> str:
    """Return the first number in which the other modules of a group differ from the first one."""
    compared = [module for module in group if module.ops]
    for ops in zip(*(module.ops for module in compared), strict=True):
        for was, *values in zip(*map(_floats, ops), strict=True):
            if any(value != was for value in values):
                ends = values[:1] if values[0] == values[-1] else [values[0], values[-1]]
                return f"{_name(ops[0], len(compared[0].path))} with {' – '.join(ends)} instead of {was}"
    return ""


def _floats(op: ModuleOp) -> list[str]:
    """Return the floats among the constants of an op, as texts."""
    return [f"{float(text):.4g}" for text in _FLOAT.findall(op.step.constants)]


def _part_by_compile(group: list[Module], siblings: Sequence[Module]) -> Iterator[list[Module]]:
    """Yield the modules of a group that were compiled as most of them, and each odd one.

    The first and the last member of a list are fused with what is around it, so they may have other kernels. A layer
    that is compiled as a frame recompiles the code of the first one.
    """
    kernels = Counter(frozenset(module.inner_kernels.items()) for module in group).most_common(1)[0][0]
    ends = siblings[0], siblings[-1]

    def is_odd(module: Module) -> bool:
        inside = not any(module is end for end in ends)
        other_kernels = frozenset(module.inner_kernels.items()) != kernels
        return bool(module.ops) and ((inside and other_kernels) or module.recompiles > 0)

    odd = [module for module in group if is_odd(module)]
    if not odd or len(odd) > MOST_ODD or len(group) <= 2 * MOST_ODD:
        yield group
        return
    yield [module for module in group if not any(module is other for other in odd)]
    yield from ([module] for module in odd)


def _usual(siblings: Sequence[Module], groups: Iterable[Sequence[Module]]) -> Module | None:
    """Return the first of the equal modules that are most of the members of a list; None if there is no such group."""
    members = sum(module.is_member for module in siblings)
    return next((group[0] for group in groups if len(group) > 1 and 2 * len(group) > members), None)


def _row(group: Sequence[Module], depth: int, same_as: str = "", differs: str = "", numbers: str = "") -> ModuleRow:
    first = group[0]
    return ModuleRow(
        path=name_range([module.path for module in group]), type=first.type, depth=depth, repeats=len(group),
        same_as=same_as, differs=differs, numbers=numbers, ops=sum(len(module.ops) for module in group),
        kernels=sum(module.kernels for module in group), eager_us=_sum(module.eager_us for module in group),
        compiled_us=_sum(module.compiled_us for module in group), bytes=sum(module.bytes for module in group),
        breaks=sum(len(module.breaks) for module in group), guards=sum(module.guards for module in group),
        recompiles=sum(module.recompiles for module in group), paths=tuple(module.name for module in group),
        members=tuple(group),
    )  # fmt: skip


def member_rows(row: ModuleRow) -> Iterator[ModuleRow]:
    """Yield a row for each module of a row."""
    return (_row([module], row.depth + 1) for module in row.members)


def name_range(paths: Sequence[Path]) -> str:
    """Return the path of a module, or a range of members of a list: `layers.1 – 6, 8 – 31`."""
    first = paths[0]
    if len(paths) == 1:
        return ".".join(first)
    numbers = [path[-1] for path in paths]
    if not all(number.isdecimal() for number in numbers):
        return ", ".join(map(".".join, paths))
    runs: list[list[int]] = []
    for number in map(int, numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    ranges = ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]} – {run[-1]}" for run in runs)
    return ".".join((*first[:-1], ranges))


def _sum(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def difference(usual: Module, odd: Module) -> str:
    """Return how a module differs from most of its siblings: its class, a break, an op, a kernel."""
    if not odd.ops:
        return LIMIT_HIT
    texts = [_type_difference(usual, odd)]
    if len(odd.breaks) != len(usual.breaks):
        texts.append(f"graph break: {odd.breaks[-1].kind}" if odd.breaks else "no graph break")
    elif odd.recompiles > usual.recompiles:
        texts.append("recompiled" if odd.recompiles == 1 else f"recompiled {odd.recompiles} times")
    dtypes = {op.node.dtype for op in odd.ops if op.node.dtype} - {op.node.dtype for op in usual.ops}
    texts.append(f"computes in {', '.join(sorted(map(str, dtypes)))}" if dtypes else "")
    texts.append(_first_op_difference(usual, odd))
    if not any(texts):
        more, fewer = odd.inner_kernels - usual.inner_kernels, usual.inner_kernels - odd.inner_kernels
        if more or fewer:
            own = ", ".join(more) or "no kernel"
            texts.append(f"{own} instead of {', '.join(fewer)}" if fewer else f"one more kernel: {own}")
    return "; ".join(filter(None, texts))


def _type_difference(usual: Module, odd: Module) -> str:
    if odd.type != usual.type:
        return f"{odd.type} instead of {usual.type}"
    types = dict(usual.inner_types())
    for path, kind in odd.inner_types():
        if kind and types.get(path) and types[path] != kind:
            return f"{kind} instead of {types[path]} in {'.'.join(path)}"
    return ""


def _first_op_difference(usual: Module, odd: Module) -> str:
    more_ops = len(odd.ops) - len(usual.ops)
    for before, after in zip_longest(usual.ops, odd.ops):
        if text := _op_difference(before, after, len(odd.path), more_ops):
            return text
    if len({op.graph for op in odd.ops}) > 1:
        return ""  # a value that crosses a break is the input of another graph
    for before, after in zip(usual.ops, odd.ops, strict=True):
        if _reads(before, usual.ops[0].order) != _reads(after, odd.ops[0].order):
            return f"{_name(after, len(odd.path))} reads the result of another op"
    return ""


def _reads(op: ModuleOp, first: int) -> list[int]:
    """Return how many ops ago each input was computed, 0 before the module, whose first op has the number `first`."""
    return [op.order - producer if producer >= first else 0 for producer in op.producers]


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
