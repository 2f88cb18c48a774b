"""Guards from the tree that torch prints (`dynamo_cpp_guards_str`)."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from tcexplore import events as ev
from tcexplore.torch_text.dynamo_names import readable_source
from tcexplore.torch_text.guard_text import (
    RELATIONS,
    Check,
    GuardedValue,
    is_structural,
    split_check,
    summarize,
    tensor_text,
)
from tcexplore.traces.graph_text import is_contiguous
from tcexplore.traces.record_index import Record
from tcexplore.traces.trace_context import TraceContext

_LINE = re.compile(r"^((?:\| )*)\+- (\w+)(?:: ?(.*))?$")
_MANAGER = re.compile(r"source=(.*?), (?:accessed_by|type)=")
_TYPE = re.compile(r"type=<\w+ '(.+?)'>")
"""The class of an object: `<class 'int'>`, `<enum 'Color'>`, or what another metaclass writes."""
_LATENCY = re.compile(r"Guard latency = ([\d.]+) us")
_TENSOR = re.compile(
    r"^check_tensor\((.+?), \w+, DispatchKeySet\((.+?)\), torch\.(\w+), device=(\w+), requires_grad=\w+, "
    r"size=\[(.*?)\], stride=\[(.*?)\]"
)
_MANAGERS = re.compile(r"Manager$")
_SEVERAL_CODES = "DIMENSION_DYNAMIC_MARKING_GUARD"
"""A leaf whose expressions torch prints in one line each."""

_DTYPES = {
    "float32": "f32", "float64": "f64", "float16": "f16", "bfloat16": "bf16", "int64": "i64", "int32": "i32",
    "int16": "i16", "int8": "i8", "uint8": "u8", "bool": "b8", "complex64": "c64", "complex128": "c128",
}  # fmt: skip


_Inputs = dict[str, ev.FxNode]
"""The graph's inputs by their readable names."""

_Readers = dict[str, ev.Location | None]
"""The line of the first node that reads each node."""


@dataclass(slots=True)
class _Manager:
    """The guarded object that encloses some leaves."""

    depth: int
    source: str
    type: str
    in_module: bool
    generic_dict: bool = False
    """Whether it is the `__dict__` of an object, read without the object's `__getattribute__`."""
    is_module: bool = False
    """Whether torch reads its attributes from that `__dict__`, which it does for modules."""
    kinds: set[str] = field(default_factory=set)


@dataclass(slots=True)
class _Leaf:
    kind: str
    checks: list[str]
    manager: _Manager

    @property
    def check(self) -> str:
        return self.checks[0]


class GuardCheck(NamedTuple):
    """One check of a printed tree."""

    kind: str
    source: str
    code: str
    place: tuple[str, int, str] | None
    """End of the path, line and function in torch's comment."""


def read_guards(context: TraceContext, record: Record, symbols: Iterable[ev.Symbol]) -> tuple[ev.Guard, ...]:
    """Emit the guards of a graph, with torch's own measurement of one check; return the guards."""
    text = context.payload(record)
    latency = _LATENCY.search(text)
    nodes = context.graphs.get(record.graph, ())
    inputs = {node.target: node for node in nodes if node.op == "placeholder" and node.shape}
    readers: _Readers = {}
    for node in nodes:
        for name in node.inputs:
            readers.setdefault(name, node.location)
    names = {source.expression: symbol.name for symbol in symbols for source in symbol.sources}
    leaves = _leaves(text)
    context.module_types |= {leaf.manager.type for leaf in leaves if leaf.manager.is_module}
    guards = tuple(_guard(leaf, context, record.graph, inputs, readers, names) for leaf in leaves)
    for guard in reversed(guards):
        if guard.location is not None and guard.name:
            context.guard_places[record.graph, guard.name] = guard.location
    context.emit(
        ev.GuardsInstalled(graph=record.graph, guards=guards, latency_us=float(latency[1]) if latency else None)
    )
    return guards


def guard_checks(tree: str) -> list[GuardCheck]:
    """Return the checks of a printed tree in its order."""
    return [
        GuardCheck(leaf.kind, leaf.manager.source, check.code.strip(), check.place)
        for leaf in _leaves(tree)
        for check in (split_check(text) for text in leaf.checks)
    ]


def _leaves(text: str) -> list[_Leaf]:
    """Return all leaves in the order of the tree, and a relation of several objects once."""
    leaves: dict[tuple[str, str, str], _Leaf] = {}
    root = _Manager(-1, "", "", in_module=False)
    stack, open_leaf = [root], None
    for line in text.split("\n"):
        match = _LINE.match(line)
        if match is None:
            if open_leaf is not None and not _LATENCY.match(line):
                open_leaf.checks[-1] += f"\n{line}"  # of a value with several lines, before the comment
            continue
        open_leaf = None
        depth, name, rest = len(match[1]) // 2, match[2], match[3] or ""
        while stack[-1].depth >= depth:
            stack.pop()
        if _MANAGERS.search(name) or name in ("KeyManager", "ValueManager"):
            stack.append(_manager(depth, rest, stack[-1]))
            if stack[-2].generic_dict and "accessed_by=DictGetItem" in rest:
                stack[-3].is_module = True
            continue
        kind = _kind(name, rest) if depth == 0 else name
        stack[-1].kinds.add(kind)
        if kind in RELATIONS and not rest:
            continue  # torch repeats only the name at the other objects
        source, text_key = (
            "" if kind in RELATIONS else stack[-1].source,
            "" if kind == _SEVERAL_CODES else rest.strip(),
        )
        leaf = leaves.setdefault((kind, source, text_key), _Leaf(kind, [], stack[-1]))
        if kind == _SEVERAL_CODES or not leaf.checks:
            leaf.checks.append(rest.strip())
            open_leaf = leaf
    return sorted(leaves.values(), key=lambda leaf: leaf.kind in ("SHAPE_ENV", "DUPLICATE_INPUT"))


def _manager(depth: int, text: str, parent: _Manager) -> _Manager:
    source, kind = _MANAGER.search(text), _TYPE.search(text)
    own = kind[1] if kind else ""
    in_module = parent.in_module or own == "module"
    generic_dict = "accessed_by=GetGenericDict" in text
    return _Manager(depth, ev.clean(source[1]) if source else parent.source, own, in_module, generic_dict)


def _kind(name: str, rest: str) -> str:
    """Return the kind of a leaf outside the root: torch checks these conditions after all others."""
    if name != "LAMBDA_GUARD":
        return name
    return "DUPLICATE_INPUT" if " is " in split_check(rest).code else "SHAPE_ENV"


def _guard(
    leaf: _Leaf,
    context: TraceContext,
    graph: str,
    inputs: _Inputs,
    readers: _Readers,
    symbols: Mapping[str, str],
) -> ev.Guard:
    checks = [split_check(text) for text in leaf.checks]
    check = checks[0]
    name = readable_source(leaf.manager.source)
    location = context.sources.find(*check.place) if check.place else None
    if location is not None:
        code = check.comment.rpartition("  # ")[0]  # the line itself may end with a comment
        context.sources.observe_line(location.file, location.line, code.strip())
    if location is None and name in inputs:
        location = readers.get(inputs[name].name)
    if location is None and leaf.manager.source:
        location = context.caller_outside(graph)
    return ev.Guard(
        kind=leaf.kind,
        source=leaf.manager.source,
        code=tuple(check.code.strip() for check in checks),
        summary=_summary(leaf, check, inputs.get(name), symbols),
        structural=is_structural(
            leaf.kind,
            leaf.manager.source,
            leaf.checks,
            leaf.manager.kinds,
            lambda: _is_library_object(leaf.manager, context.module_types),
        ),
        location=location,
        user_code=context.sources.code(location),
        name=name,
    )


def _summary(leaf: _Leaf, check: Check, node: ev.FxNode | None, symbols: Mapping[str, str]) -> str:
    code = check.code.strip()
    if leaf.kind == "TENSOR_MATCH":
        return _tensor(code, node, symbols)
    value = GuardedValue(leaf.manager.source, leaf.manager.type.rpartition(".")[2])
    return summarize(leaf.kind, value, check._replace(code=code))


def _tensor(code: str, node: ev.FxNode | None, symbols: Mapping[str, str]) -> str:
    """Return a tensor with the sizes that Dynamo traced; the guard has none for dynamic dimensions."""
    match = _TENSOR.match(code)
    if match is None:
        return readable_source(code)
    shape, stride = ([part.strip() for part in match[n].split(",")] if match[n] else [] for n in (5, 6))
    if node is not None and node.shape is not None and len(node.shape) == len(shape):
        shape, stride = list(node.shape), list(node.stride or stride)
    else:
        name = readable_source(match[1])
        shape = [
            symbols.get(f"{name}.size()[{dim}]", "?") if size == "None" else size for dim, size in enumerate(shape)
        ]
    device = "cpu" if match[4] == "None" else f"{match[2].split(',')[0].strip().lower()}:{match[4]}"
    strides = None if is_contiguous(tuple(shape), tuple(stride)) else stride
    return tensor_text(_DTYPES.get(match[3], match[3]), shape, device, strides)


_SUBMODULE = re.compile(r"\._modules\['[^']+'\]$")
_LIBRARY_TYPES = re.compile(
    r"^(?:module|builtin_function_or_method|method_descriptor|torch\._C\._TensorMeta|torch\.Tensor|torch\.nn\.(?!attention\.).*"
    r"|torch\.nested\..*NestedTensor)$"
)


def _is_library_object(manager: _Manager, module_types: Collection[str]) -> bool:
    """Return whether the object is torch's, Python's, a tensor or a module.

    A trace does not hold the base classes of a class, but only tensors have a guard of this kind.
    """
    of_library = manager.in_module or "TENSOR_MATCH" in manager.kinds or _LIBRARY_TYPES.match(manager.type) is not None
    return of_library or manager.type in module_types or _SUBMODULE.search(manager.source) is not None
