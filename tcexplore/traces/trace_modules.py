"""Modules of a trace's nodes, and the user's lines of ops in library code: torch writes neither into its graphs.

A node that reads a parameter is an op of the module that has it. The other ops of the function that calls this module
are ops of the module that runs the function. AOTAutograd runs Dynamo's nodes one by one, and the
backward in the opposite order: so groups of nodes of one line follow each other in the same order in both graphs.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import NamedTuple

from tcexplore.events import FxNode, Location
from tcexplore.events.dynamo_events import CapturedModule
from tcexplore.traces.graph_text import CALLS
from tcexplore.traces.trace_sources import TraceSources

_STATE = "self."
_OF_OPTIMIZER = ("self.param_groups", "self.state[")
_OF_MODULE = ("_parameters_", "_buffers_")
"""In Dynamo's name of a placeholder for what a module holds, whatever the code calls the module."""


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
    owners = {node.name: _owner(node) for node in nodes if node.op == "placeholder"}
    leaves = {node.name: node.target.rpartition(".")[2] for node in nodes if owners.get(node.name)}
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
    read = {node.name: leaves[name] for node in found if node.module for name in node.inputs if name in leaves}
    return _with_runners(found, read, sources)


def outermost_module(nodes: Sequence[FxNode]) -> tuple[CapturedModule, ...]:
    """Return the module that has all parameters of a graph, if the code does not call it `self`; its class is unknown.

    A trace has none of the names by which several of them could be told apart.
    """
    owners = (_owner(node) for node in nodes if node.op == "placeholder")
    roots = {owner.partition(".")[0] for owner in owners if owner}
    return tuple(CapturedModule(source=root, type="", path="", root="") for root in roots - {"self"} if len(roots) == 1)


def _placed(node: FxNode, module: str | None, location: Location | None, origins: tuple[str, ...]) -> FxNode:
    """Return a node in a module and on a line: `replace` takes three times as long, for a million nodes."""
    if (node.module, node.location, node.origins) == (module, location, origins):
        return node
    return FxNode(
        name=node.name, op=node.op, target=node.target, args=node.args, inputs=node.inputs, dtype=node.dtype,
        shape=node.shape, stride=node.stride, contiguous=node.contiguous, device=node.device, location=location,
        stack=node.stack, module=module, origins=origins, user_op=node.user_op,
    )  # fmt: skip


def _owner(node: FxNode) -> str:
    """Return the module of a parameter: `self.blocks.0.n1` for `self.blocks.0.n1.weight`.

    It is empty for an input, and for what an optimizer holds: parameters and its state are in no module of the frame.
    """
    of_self = node.target.startswith(_STATE) and not node.target.startswith(_OF_OPTIMIZER)
    in_module = of_self or any(part in node.name for part in _OF_MODULE)
    return node.target.rpartition(".")[0] if in_module and node.target.count(".") > 1 else ""


class _Function(NamedTuple):
    """A function of a file."""

    file: str
    first: int
    last: int
    attributes: frozenset[str]
    """Attributes of `self` that it reads."""

    def runner(self, module: str, leaf: str) -> str:
        """Return the module that runs this function, which calls `module` or reads its parameter `leaf`; "" if none."""
        if leaf in self.attributes:
            return module
        while "." in module:
            module, _, name = module.rpartition(".")
            if name in self.attributes:
                return module
        return ""


class _Run(NamedTuple):
    """The newest known op of a function."""

    module: str
    """The module that runs the function."""
    line: int
    number: int
    """Among the calls of the graph."""


def _with_runners(nodes: Sequence[FxNode], read: Mapping[str, str], sources: TraceSources) -> tuple[FxNode, ...]:
    """Return the nodes; those without parameters have the module that runs their function.

    `read` has the name of the parameter that a node reads.
    """
    calls = [index for index, node in enumerate(nodes) if node.op in CALLS]
    ops = [nodes[index] for index in calls]
    text = cache(sources.whole_text)
    function_at = cache(lambda location: _function_at(text(location.file), location))
    functions = [function_at(op.location) if op.location is not None else None for op in ops]
    known = [
        function.runner(op.module, read.get(op.name, "")) if function is not None and op.module else ""
        for function, op in zip(functions, ops, strict=True)
    ]
    return _placed_in(nodes, calls, _runners(ops, functions, known))


def _runners(ops: Sequence[FxNode], functions: Sequence[_Function | None], known: Sequence[str]) -> list[str]:
    """Return the module that runs the function of each op; "" if that is unknown.

    A call of a function ends where a module outside of its own has an op, or where an earlier line follows. What comes
    then is of the next known call, or of what called the module before.
    """
    following = _following(functions, known)
    runners = list(known)
    runs: dict[_Function, _Run] = {}
    modules: list[str] = []
    """Of the ops so far, the runner where it is not a parameter's."""
    previous = ""
    for number, (op, function) in enumerate(zip(ops, functions, strict=True)):
        line = op.location.line if op.location is not None else 0
        if function is not None and not op.module:
            run = runs.get(function)
            if run is not None and _goes_on(run, line, modules, returns=bool(following[number])):
                runners[number] = run.module
            else:
                runners[number] = following[number] or function.runner(previous, "")
        if function is not None and runners[number]:
            runs[function] = _Run(runners[number], line, number)
        modules.append(op.module or runners[number])
        previous = modules[-1] or previous
    return runners


def _goes_on(run: _Run, line: int, modules: Sequence[str], *, returns: bool) -> bool:
    """Return whether an op on a line is of the same call as the newest known one of its function.

    `returns` is whether the function is known to run again: without that, an earlier line is of a loop.
    """
    inside = all(_is_in(module, run.module) for module in modules[run.number + 1 :] if module)
    return inside and (line >= run.line or not returns)


def _following(functions: Sequence[_Function | None], known: Sequence[str]) -> list[str]:
    """Return for each op the module that runs its function where that is known next; "" if it is not."""
    following: list[str] = []
    after: dict[_Function | None, str] = {}
    for function, runner in zip(reversed(functions), reversed(known), strict=True):
        following.append(after.get(function, "") if function is not None else "")
        if runner:
            after[function] = runner
    return following[::-1]


def _is_in(module: str, other: str) -> bool:
    return module == other or module.startswith(f"{other}.")


def _placed_in(nodes: Sequence[FxNode], calls: Sequence[int], runners: Sequence[str]) -> tuple[FxNode, ...]:
    """Return the nodes in the modules that run them; a function of no module has that of the ops around it."""
    found = list(nodes)
    ops = [nodes[index] for index in calls]
    paths = [runner or (op.module or "").rpartition(".")[0] for op, runner in zip(ops, runners, strict=True)]
    before: list[str] = []
    last = ""
    for path in paths:
        before.append(last)
        last = path or last
    after = ""
    for number in reversed(range(len(calls))):
        op, path = ops[number], paths[number]
        module = path or _around(before[number], after)
        if not op.module and "." in module:
            found[calls[number]] = _placed(op, module, op.location, op.origins)
        after = path or after
    return tuple(found)


def _around(one: str, other: str) -> str:
    """Return the innermost module that runs both; the members of a list of modules are run by the one that has it."""
    shared: list[str] = []
    for name, other_name in zip(one.split("."), other.split("."), strict=False):
        if name != other_name:
            if name.isdecimal() and other_name.isdecimal():
                del shared[-1:]
            break
        shared.append(name)
    return ".".join(shared)


def _function_at(text: str | None, location: Location) -> _Function | None:
    """Return the innermost function of a line; None if its file is not on this machine."""
    functions = _functions(location.file, text) if text is not None else ()
    around = [one for one in functions if one.first <= location.line <= one.last]
    return max(around, key=lambda one: one.first, default=None)


@lru_cache(maxsize=64)
def _functions(file: str, text: str) -> tuple[_Function, ...]:
    """Return the functions of a file."""
    return tuple(
        _Function(file, node.lineno, node.end_lineno or node.lineno, frozenset(_own_attributes(node)))
        for node in ast.walk(_tree(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )


@lru_cache(maxsize=4)
def _tree(text: str) -> ast.Module:
    """Return the syntax tree of a file, empty if this Python cannot parse it."""
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return ast.Module([], [])


def _own_attributes(function: ast.AST) -> Iterator[str]:
    """Yield the attributes of `self` that a function reads."""
    for node in ast.walk(function):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
            yield node.attr


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
    return tuple(_calls_in(_tree(text), ""))


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
    reads = [_reads(group) for group in order]
    for group in groups:
        parameters = {name for node in group.nodes for name in read.get(node.name, ())}
        position = next(
            (
                index
                for index in range(at, len(order))
                if parameters & reads[index] and order[index].location == group.location
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
    owners = {node.name: _owner(node) for node in known.plain if node.op == "placeholder"}
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
