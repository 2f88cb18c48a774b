"""Modules of a trace's nodes, and the user's lines of ops in library code: torch writes neither into its graphs.

A node that reads a parameter is an op of the module that has it. AOTAutograd runs Dynamo's nodes one by one, and the
backward in the opposite order: so groups of nodes of one line follow each other in the same order in both graphs.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

from tcexplore.events import FxNode, Location
from tcexplore.traces.graph_text import CALLS
from tcexplore.traces.trace_sources import TraceSources

_STATE = "self."
_OF_OPTIMIZER = ("self.param_groups", "self.state[")


@dataclass(frozen=True, slots=True)
class _Group:
    """Consecutive nodes with one location."""

    location: Location | None
    nodes: tuple[FxNode, ...]


@dataclass(slots=True)
class GraphModules:
    """What is known of one Dynamo graph."""

    nodes: tuple[FxNode, ...] = ()
    """With modules, and with lines for ops in library code."""
    plain: tuple[FxNode, ...] = ()
    """As the trace has them."""
    found: dict[tuple[str, str], FxNode] = field(default_factory=dict)
    """Nodes of AOTAutograd with modules, lines and origins, by phase and name."""


@dataclass(slots=True)
class GraphPart:
    """A part into which DDP or vLLM split a graph."""

    name: str
    """torch's, e.g. `submod_0`."""
    nodes: tuple[FxNode, ...]
    """Dynamo's, with the names that only this part has."""
    modules: GraphModules | None = None
    """What is known of the nodes, with the names that they have in the whole graph; None if these are unknown."""


def part_modules(nodes: Sequence[FxNode], whole: Sequence[FxNode], begin: int) -> GraphModules | None:
    """Return the nodes of a part as those of the whole graph, of which it has the calls from `begin` on.

    None if these are other calls.
    """
    inputs = {node.name: node for node in whole if node.op == "placeholder"}
    calls = [node for node in nodes if node.op in CALLS]
    same = [node for node in whole if node.op in CALLS][begin : begin + len(calls)]
    if [(node.target, node.shape) for node in calls] != [(node.target, node.shape) for node in same]:
        return None
    known = dict(zip((node.name for node in calls), same, strict=True))
    own = tuple(
        known.get(node.name) or (inputs.get(node.name, node) if node.op == "placeholder" else node) for node in nodes
    )
    return GraphModules(nodes=own, plain=own)


def with_modules(nodes: Sequence[FxNode], sources: TraceSources, frame_line: int | None) -> tuple[FxNode, ...]:
    """Return Dynamo's nodes with the modules of their parameters, and the lines that call those.

    `frame_line` is the first line of the compiled function, which ops in library code have for want of a better one.
    """
    owners = {node.name: _owner(node.target) for node in nodes if node.op == "placeholder"}
    calls = cache(lambda name: _calls_of_attribute(sources, name))
    found: list[FxNode] = []
    for node in nodes:
        modules = {owners[name] for name in node.inputs if owners.get(name)}
        module = modules.pop() if len(modules) == 1 else None
        location = node.location
        if module and location is not None and location.line == frame_line:
            location = calls(module.rpartition(".")[2]) or location
        changed = node.op in CALLS and (module, location) != (None, node.location)
        found.append(_placed(node, module, location, node.origins) if changed else node)
    return _between(found)


def _placed(node: FxNode, module: str | None, location: Location | None, origins: tuple[str, ...]) -> FxNode:
    """Return a node in a module and on a line: `replace` takes three times as long, for a million nodes."""
    if (node.module, node.location, node.origins) == (module, location, origins):
        return node
    return FxNode(
        name=node.name, op=node.op, target=node.target, args=node.args, inputs=node.inputs, dtype=node.dtype,
        shape=node.shape, stride=node.stride, contiguous=node.contiguous, device=node.device, location=location,
        stack=node.stack, module=module, origins=origins, user_op=node.user_op,
    )  # fmt: skip


def _owner(target: str) -> str:
    """Return the module of a parameter: `self.blocks.0.n1` for `self.blocks.0.n1.weight`.

    It is empty for an input, and for what an optimizer holds: parameters and its state are in no module of the frame.
    """
    in_module = target.startswith(_STATE) and not target.startswith(_OF_OPTIMIZER) and target.count(".") > 1
    return target.rpartition(".")[0] if in_module else ""


def _between(nodes: Sequence[FxNode]) -> tuple[FxNode, ...]:
    """Return the nodes; those without parameters have the module that runs the ones before and after, if it is one."""
    calls = [index for index, node in enumerate(nodes) if node.op in CALLS]
    before: dict[int, str] = {}
    last = ""
    for index in calls:
        last = (nodes[index].module or "").rpartition(".")[0] or last
        before[index] = last
    found, following = list(nodes), ""
    for index in reversed(calls):
        node = nodes[index]
        if node.module:
            following = node.module.rpartition(".")[0]
        elif following and before[index] == following and following != "self":
            found[index] = _placed(node, following, node.location, node.origins)
    return tuple(found)


def _calls_of_attribute(sources: TraceSources, name: str) -> Location | None:
    """Return the only line of the user's files that calls an attribute of this name."""
    if not name.isidentifier():
        return None
    places: list[Location] = []
    for file in sources.files:
        text = sources.whole_text(file)
        if text is None:
            continue
        places += [
            Location(file, line, function) for called, line, function in _attribute_calls(text) if called == name
        ]
    return places[0] if len(places) == 1 else None


@cache
def _attribute_calls(text: str) -> tuple[tuple[str, int, str], ...]:
    """Return each called attribute of `self` with its line and the function around it."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return ()
    return tuple(_calls_in(tree, ""))


def _calls_in(node: ast.AST, function: str) -> Iterator[tuple[str, int, str]]:
    for child in ast.iter_child_nodes(node):
        inner = child.name if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) else function
        called = child.func if isinstance(child, ast.Call) else None
        if isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name) and called.value.id == "self":
            yield called.attr, called.end_lineno or called.lineno, function
        yield from _calls_in(child, inner)


def align(known: GraphModules, nodes: Sequence[FxNode], backward: bool) -> tuple[FxNode, ...]:
    """Return AOTAutograd's nodes with the modules and lines of the Dynamo nodes that they come from.

    Groups that read a parameter are found first, in order. Another group is certain if one group of Dynamo with its
    location lies between those around it.
    """
    read = _parameters_read(nodes, _parameters(known.plain, nodes))
    plain = _groups(known.plain)
    order = list(zip(plain, _groups(known.nodes, [group.nodes for group in plain]), strict=True))
    if backward:
        order.reverse()
    groups = _groups(nodes)
    positions = _anchors(groups, [group for group, _ in order], read)
    ends = [-1, *(position for position in positions if position is not None), len(order)]
    passed = 0
    matched: dict[str, FxNode] = {}
    for group, position in zip(groups, positions, strict=True):
        if position is None:
            between = range(max(ends[passed], 0), min(ends[passed + 1] + 1, len(order)))
            fitting = [index for index in between if order[index][0].location == group.location]
            position = fitting[0] if len(fitting) == 1 else None
        else:
            passed += 1
        if position is not None:
            for node in group.nodes:
                matched[node.name] = _joined(node, order[position][1].nodes, read.get(node.name, frozenset()))
    phase = "backward" if backward else "forward"
    known.found.update({(phase, name): node for name, node in matched.items()})
    return tuple(matched.get(node.name, node) for node in nodes)


def _anchors(groups: Sequence[_Group], order: Sequence[_Group], read: Mapping[str, frozenset[str]]) -> list[int | None]:
    """Return the position of each group that reads a parameter, as long as they follow each other; None for others."""
    positions: list[int | None] = []
    at = 0
    for group in groups:
        parameters = {name for node in group.nodes for name in read.get(node.name, ())}
        position = next(
            (
                index
                for index in range(at, len(order))
                if parameters & _reads(order[index]) and order[index].location == group.location
            ),
            None,
        )
        positions.append(position)
        at = position if position is not None else at
    return positions


def with_origins(known: GraphModules, nodes: Sequence[FxNode], phase: str) -> tuple[FxNode, ...]:
    """Return post-grad nodes with modules and lines: most have the names of AOTAutograd's.

    A node that a pass made has those of what it reads, if that is one module.
    """
    joined: dict[str, FxNode] = {}
    parameters = _parameters_read(nodes, _parameters(known.plain, nodes))
    owners = {node.name: _owner(node.target) for node in known.plain if node.op == "placeholder"}
    for node in nodes:
        same = known.found.get((phase, node.name))
        if same is not None and same.shape == node.shape:
            location = same.location if node.location is not None else None
            node = _placed(node, same.module, location, node.origins or same.origins)
        elif modules := {owners[name] for name in parameters.get(node.name, ()) if owners.get(name)}:
            node = _placed(node, modules.pop() if len(modules) == 1 else None, node.location, node.origins)
        joined[node.name] = node
    return tuple(joined.values())


def _joined(node: FxNode, origins: Sequence[FxNode], read: frozenset[str]) -> FxNode:
    """Return a node with what its Dynamo nodes share, or those of them that read the same parameters."""
    own = [origin for origin in origins if read & set(origin.inputs)] if read else list(origins)
    own = own or list(origins)
    modules = {origin.module for origin in own}
    module = modules.pop() if len(modules) == 1 else _shared(filter(None, modules))
    locations = {origin.location for origin in own}
    location = locations.pop() if len(locations) == 1 else node.location
    names = tuple(origin.name for origin in own) if len(own) == 1 else ()
    return _placed(node, module, location, node.origins or names)


def _shared(modules: Iterable[str]) -> str | None:
    """Return the module that contains all of these; None if that is the compiled one."""
    paths = [module.split(".") for module in modules]
    shared: list[str] = []
    for parts in zip(*paths, strict=False):
        if len(set(parts)) > 1:
            break
        shared.append(parts[0])
    return ".".join(shared) if len(shared) > 1 else None


def _groups(nodes: Sequence[FxNode], like: Sequence[Sequence[FxNode]] = ()) -> list[_Group]:
    """Return the calls in groups of consecutive equal locations, or grouped `like` others of the same names."""
    if like:
        named = {node.name: node for node in nodes}
        return [_Group(None, tuple(named[node.name] for node in group)) for group in like]
    groups: list[list[FxNode]] = []
    for node in nodes:
        if node.op not in CALLS:
            continue
        if groups and groups[-1][-1].location == node.location:
            groups[-1].append(node)
        else:
            groups.append([node])
    return [_Group(group[0].location, tuple(group)) for group in groups]


def _reads(group: _Group) -> set[str]:
    return {name for node in group.nodes for name in node.inputs}


def _parameters(dynamo: Sequence[FxNode], nodes: Sequence[FxNode]) -> dict[str, str]:
    """Return the Dynamo placeholder of each `primals_N`; empty unless types and sizes agree."""
    placeholders = [node for node in dynamo if node.op == "placeholder"]
    found: dict[str, str] = {}
    for node in nodes:
        if node.op != "placeholder" or not node.name.startswith("primals_"):
            continue
        number = node.name.removeprefix("primals_")
        if not number.isdecimal() or not 0 < int(number) <= len(placeholders):
            return {}
        other = placeholders[int(number) - 1]
        if (other.dtype, other.shape) != (node.dtype, node.shape):
            return {}
        found[node.name] = other.name
    return found


def _parameters_read(nodes: Sequence[FxNode], parameters: Mapping[str, str]) -> dict[str, frozenset[str]]:
    """Return the Dynamo placeholders that each node reads, also through one view of a parameter."""
    read: dict[str, frozenset[str]] = {}
    views: dict[str, frozenset[str]] = {}
    uses = Counter(name for node in nodes for name in node.inputs)
    for node in nodes:
        own = frozenset(parameters[name] for name in node.inputs if name in parameters)
        through = frozenset(known for name in node.inputs for known in views.get(name, ()))
        read[node.name] = own | through
        if own and len(node.inputs) == 1 and uses[node.name] >= 1:
            views[node.name] = own
    return {name: known for name, known in read.items() if known}
