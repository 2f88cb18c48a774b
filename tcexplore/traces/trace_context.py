"""State of converting one process's records into events, with the values of recompiles and the lines of collectives."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib.util import find_spec
from itertools import pairwise
from typing import Any

from tcexplore import events as ev
from tcexplore.events.python_source import parse_source
from tcexplore.session.communication import is_collective, is_wait
from tcexplore.torch_text.break_text import RegistryEntry, read_registry
from tcexplore.torch_text.dynamo_names import describe_carried, function_name, is_resumed, readable_source
from tcexplore.torch_text.guard_text import (
    ARITHMETIC,
    ComparedValues,
    cause_of_values,
    compare_code,
    is_constant,
    kind_of_check,
    required_value,
)
from tcexplore.traces.graph_text import CALLS
from tcexplore.traces.record_index import BadRecordError, Record, RecordIndex, decode_json
from tcexplore.traces.trace_modules import GraphModules, GraphPart
from tcexplore.traces.trace_sources import TraceSources

_SIZES = re.compile(r"size=\[(.*?)\], stride=\[(.*?)\]")
_TENSOR_CLASS = re.compile(r"^check_tensor\(.+?, (\w+), DispatchKeySet\(")
_SYMBOL = re.compile(r"\bs\d+\b")
_WRITTEN_AS_VALUES = frozenset({
    "bool", "int", "float", "complex", "str", "bytes", "NoneType", "type", "function", "code", "method", "Tensor",
    "Parameter", "builtin_function_or_method",
})  # fmt: skip
"""Classes of objects that are shown by their value or their name."""
_TYPE_CHECK = re.compile(r"^___check_type_id\(")


class RecompileValues:
    """Recompiles whose compiles are running; later records complete them."""

    def __init__(self) -> None:
        self._waiting: dict[str, list[tuple[ev.Recompiled, str]]] = {}

    def add(self, recompile: ev.Recompiled, code: str) -> None:
        """Keep a recompile, with the code of the failed guard."""
        self._waiting.setdefault(recompile.graph, []).append((recompile, code))

    def complete(self, graph: str, guards: Iterable[ev.Guard], symbols: Iterable[ev.Symbol]) -> list[ev.Recompiled]:
        """Return the recompiles of a graph, those whose value is known from its guards or symbols."""
        waiting = [(recompile, code) for recompile, code in self._waiting.pop(graph, ()) if not recompile.new]
        values = _values_of_call(guards, symbols) if waiting else {}
        completed = (_complete(recompile, code, values) for recompile, code in waiting)
        return [recompile for recompile in completed if recompile is not None]

    def at_limit(self, graph: str) -> list[ev.Recompiled]:
        """Return the recompiles of a graph that was not compiled because its frame has reached the limit."""
        return [
            replace(recompile, limit_hit=True, entry_count=(recompile.entry_count or 1) - 1)
            for recompile, _ in self._waiting.pop(graph, ())
        ]

    def drop(self, graph: str) -> None:
        """Forget a compile that is over."""
        self._waiting.pop(graph, None)


def _values_of_call(guards: Iterable[ev.Guard], symbols: Iterable[ev.Symbol]) -> dict[str, str]:
    """Return the values that a graph was compiled for, by their readable names."""
    values: dict[str, str] = {}
    hints = {symbol.name: symbol.hint for symbol in symbols}
    for symbol in symbols:
        for source in symbol.sources:
            values[source.expression] = symbol.hint
    for guard in guards:
        for code in guard.code:
            required = required_value(code)
            if required is not None:
                if _TYPE_CHECK.match(code):
                    values[_type_of(required.name)] = required.old
                else:
                    values[required.name] = required.old
                    values.setdefault(_type_of(required.name), _type_of_literal(required.old))
        if guard.summary == "is empty":
            values[f"len({guard.name})"] = "0"
        if guard.kind == "TENSOR_MATCH" and guard.code:
            values[guard.name] = _SYMBOL.sub(lambda match: hints.get(match[0], match[0]), guard.summary)
            values.update(_sizes(guard.name, guard.code[0]))
            if tensor_class := _TENSOR_CLASS.match(guard.code[0]):
                values.setdefault(_type_of(guard.name), tensor_class[1])
    return values


def _sizes(name: str, code: str) -> dict[str, str]:
    """Return the static sizes and strides of a tensor; torch prints a dynamic one as None."""
    match = _SIZES.search(code)
    parts = {"size": match[1], "stride": match[2]} if match else {}
    return {
        f"{name}.{kind}()[{dim}]": number.strip()
        for kind, numbers in parts.items()
        for dim, number in enumerate(numbers.split(","))
        if number.strip().isdecimal()
    }


def _type_of_literal(text: str) -> str:
    try:
        return type(ast.literal_eval(text)).__name__
    except (ValueError, SyntaxError, RecursionError):
        return ""


def _type_of(name: str) -> str:
    return f"type of {name}"


def _complete(recompile: ev.Recompiled, code: str, values: dict[str, str]) -> ev.Recompiled | None:
    compared = compare_code(code)
    new = _new_value(code, compared, values)
    if not new:
        return None
    compared = compared._replace(new=new)
    cause = cause_of_values(compared, readable_source(code))._replace(kind=kind_of_check(code, compared))
    return replace(
        recompile,
        name=cause.name,
        old=cause.old,
        new=cause.new,
        reason=describe_carried(cause.reason),
        kind=cause.kind,
        dim=cause.dim,
    )


def _new_value(code: str, compared: ComparedValues, values: dict[str, str]) -> str:
    """Return the value of the compared expression; of several, all or none."""
    if _TYPE_CHECK.match(code):
        return values.get(_type_of(compared.name), "")
    try:
        tree = ast.parse(readable_source(code).strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError):
        return values.get(compared.name, "")
    if not isinstance(tree, ast.Compare):
        return values.get(compared.name, "")
    varying = [side for side in (tree.left, *tree.comparators) if not is_constant(side)]
    texts = [_evaluate(side, values) for side in varying]
    return " and ".join(texts) if all(texts) else ""


def _object(name: str, values: Mapping[str, str]) -> str:
    """Return a tuple of known values, or the class of an object that has no short text; empty if it is unknown."""
    kind = values.get(_type_of(name), "")
    if kind == "tuple":
        count = values.get(f"len({name})", "")
        items = [values.get(f"{name}[{number}]", "") for number in range(int(count) if count.isdecimal() else 0)]
        return f"({', '.join(items)}{',' if len(items) == 1 else ''})" if items and all(items) else ""
    return "" if kind in _WRITTEN_AS_VALUES or not kind else f"<{kind}>"


def _evaluate(expression: ast.expr, values: dict[str, str]) -> str:
    """Return the value of a name, or of an integer expression of names; empty if it is unknown."""
    name = ast.unparse(expression)
    text = values.get(name, "") or _object(name, values)
    if text or not isinstance(expression, ast.BinOp):
        return text or (ast.unparse(expression) if is_constant(expression) else "")
    function = ARITHMETIC.get(type(expression.op))
    sides = [_evaluate(side, values) for side in (expression.left, expression.right)]
    if function is None or not all(side.isdecimal() for side in sides):
        return ""
    try:
        return str(function(int(sides[0]), int(sides[1])))
    except (ArithmeticError, ValueError):
        return ""


_CONVERTED = re.compile(r"^___(as_tensor|from_numpy)\((.+)\)$")

Emit = Callable[[ev.Event], None]

Converter = Callable[["TraceContext", Record], None]
"""Reads a record, and emits its events."""


def _input_name(source: str) -> str:
    """Return the name that Dynamo makes of the source of a graph input."""
    return re.sub(r"[^a-zA-Z0-9]+", "_", source)


@dataclass
class FrameStart:
    """Facts about a frame from the start of its compile."""

    frame: ev.Location | None = None
    """The compiled function, in any file."""
    caller: ev.Location | None = None
    """Innermost line of the user that led to the compile."""
    of_library: bool = False
    """Whether the function is in a library, and no code of the user calls it inside the region: it has no line of the
    user."""


def line_in_frame(
    sources: TraceSources, own: ev.Location | None, caller: ev.Location | None,
    file: str, line: int, function: str = "", code: str = "", *, of_library: bool = False,
) -> ev.Location | None:  # fmt: skip
    """Return the location of a line of a compiled frame: of library code, the frame's, or its caller's.

    `of_library` is that of `FrameStart`: lines of libraries count too.
    """
    if own is not None and of_library:
        place = sources.place_inside(file, line, function, code)
        return place or sources.place_inside(own.file, own.line, own.function)
    place = sources.place(file, line, function, code)
    if place is not None or own is None:
        return place or caller
    return sources.place(own.file, own.line, own.function) or caller


@dataclass
class TraceContext:
    """State that converters read and write."""

    index: RecordIndex
    emit: Emit
    strings: dict[int, str] = field(default_factory=dict)
    """Interned texts: stacks refer to file names by number."""
    sources: TraceSources = field(default_factory=TraceSources)
    starts: dict[str, FrameStart] = field(default_factory=dict)
    """By compile id."""
    input_names: dict[str, str] = field(default_factory=dict)
    """Names of graph inputs by the names that Dynamo makes of their sources."""
    inner_tensors: dict[tuple[object, object], dict[str, object]] = field(default_factory=dict)
    """Ids of the tensors inside each tensor subclass, by the attribute that holds them; the key is describer and id."""
    graphs: dict[str, tuple[ev.FxNode, ...]] = field(default_factory=dict)
    """Dynamo's nodes by compile id."""
    functions: dict[str, frozenset[str]] = field(default_factory=dict)
    """What they and the nodes of subgraphs call, by compile id: `gelu`."""
    parts: dict[str, list[GraphPart]] = field(default_factory=dict)
    """The parts into which DDP or vLLM split a graph, by compile id."""
    modules: dict[str, GraphModules] = field(default_factory=dict)
    """Modules and lines of the nodes of each graph, by compile id."""
    split_graph: str = ""
    """Compile id of the graph that vLLM split last."""
    split_callers: dict[str, str] = field(default_factory=dict)
    """Compile id of the graph that vLLM split, by the file name of its code."""
    module_types: set[str] = field(default_factory=set)
    """Classes of which an instance is known to be a module."""
    guard_places: dict[tuple[str, str], ev.Location] = field(default_factory=dict)
    """The line of each guarded value, by compile id and readable name."""
    recompile_values: RecompileValues = field(default_factory=RecompileValues)
    breaks: set[object] = field(default_factory=set)
    """Frame, stack and kind of the graph breaks so far."""
    break_lines: dict[tuple[str, str], ev.Location | None] = field(default_factory=dict)
    """The line of each graph break by compile id and kind."""
    timed_kernels: set[tuple[str, str]] = field(default_factory=set)
    """Compile id and name of each kernel whose compile time is known."""
    broken: set[str] = field(default_factory=set)
    """Compile ids of frames with a record of a graph break."""
    recompile_limit: int | None = None
    """torch's limit of cache entries, once a compile has reported it."""
    problems: dict[int, str] = field(default_factory=dict)
    """A sentence for each record that cannot be read, by its number."""
    began: float | None = None
    """Time of the first span in seconds."""

    def name_input(self, source: str) -> None:
        """Learn the readable name of a graph input by the name that Dynamo makes of its source."""
        converted = _CONVERTED.match(source)
        if converted:  # the input is a number or an array, which Dynamo makes a tensor of
            name = readable_source(source if converted[1] == "from_numpy" else converted[2])
            self.input_names[_input_name(converted[2])] = name
        self.input_names[_input_name(source)] = readable_source(source)

    def name_inner_inputs(self, source: str, describer: object, tensor: object) -> None:
        """Learn the names of the tensors inside a tensor subclass, which a graph may have as inputs of its own."""
        for attribute, inner in self.inner_tensors.pop((describer, tensor), {}).items():
            name = f"{source}.{attribute}"
            self.name_input(name)
            self.name_inner_inputs(name, describer, inner)

    def payload(self, record: Record) -> str:
        """Return a record's payload; its checksum is verified."""
        return self.index.payload(record.number, record.checksum)

    def json(self, record: Record) -> Any:
        """Return a record's payload as JSON, None if it is not JSON."""
        try:
            return decode_json(self.payload(record))
        except BadRecordError:
            raise
        except (ValueError, RecursionError):
            return None

    def location(self, graph: str, file: str, line: int, function: str, code: str) -> ev.Location | None:
        """Return the user's location of a line of a graph.

        A trace has only the innermost line. For torch's code, and a library's in a function of the user, it is the
        compiled function if that is the user's, else the line that led to the compile.
        """
        start = self.starts.get(graph) or FrameStart()
        return line_in_frame(
            self.sources, start.frame, start.caller, file, line, function, code, of_library=start.of_library
        )

    def caller_outside(self, graph: str) -> ev.Location | None:
        """Return the line that calls the frame of a graph if that is outside the user's files, else None."""
        start = self.starts.get(graph) or FrameStart()
        return None if start.frame is None or self.sources.owns(start.frame.file) else start.caller

    def with_lines(self, graph: str, nodes: tuple[ev.FxNode, ...]) -> tuple[ev.FxNode, ...]:
        """Return the nodes with lines of the user that the text of the graph does not have."""
        start = self.starts.get(graph) or FrameStart()
        if start.frame is None:
            return nodes
        if self.sources.owns(start.frame.file):
            return self._with_collective_lines(start.frame, nodes)
        if start.caller is None or any(node.location for node in nodes):
            return nodes
        # torch writes no line for the nodes of its own modules, such as a `Sequential`.
        return tuple(replace(node, location=start.caller) if node.op in CALLS else node for node in nodes)

    def _with_collective_lines(self, frame: ev.Location, nodes: tuple[ev.FxNode, ...]) -> tuple[ev.FxNode, ...]:
        """Return the nodes; collectives that have the line of their function get that of the user's call."""
        calls = [node for node in nodes if is_collective(node)]
        if any(node.location is not None and node.location.line != frame.line for node in calls):
            return nodes
        lines = collective_lines(self.sources.text(frame.file), frame, calls) if calls else None
        places = with_waits(nodes, {node.name: line for node, line in zip(calls, lines or (), strict=False)})
        function = function_name(frame.function)
        return tuple(
            replace(node, location=ev.Location(frame.file, places[node.name], function))
            if node.name in places
            else node
            for node in nodes
        )

    def forget_nodes_below(self, graphs: Iterable[str]) -> None:
        """Free what is known of the nodes below Dynamo's of compiles that are read."""
        for graph in set(graphs):
            known = (self.modules.get(graph), *(part.modules for part in self.parts.get(graph, ())))
            for modules in filter(None, known):
                modules.found.clear()

    @cached_property
    def registry(self) -> dict[str, RegistryEntry]:
        """The registry of graph breaks of the installed torch, which is not imported; empty without torch."""
        try:
            spec = find_spec("torch")
            return read_registry(os.path.dirname(spec.origin)) if spec and spec.origin else {}
        except (OSError, ValueError, KeyError, ImportError):
            return {}


def with_waits(nodes: Sequence[ev.FxNode], lines: Mapping[str, int]) -> dict[str, int]:
    """Return the lines of collectives by name, with a wait that directly follows one: torch waits in the same call."""
    waits = {
        following.name: lines[node.name]
        for node, following in pairwise(nodes)
        if node.name in lines and following.inputs == (node.name,) and is_wait(following)
    }
    return {**lines, **waits}


_REDUCTION = re.compile(r"'(sum|avg|max|min|product)'")
MOST_CALLS = 12
"""Collectives of a function beyond which no lines are searched."""


def collective_lines(source: str, frame: ev.Location, calls: Sequence[ev.FxNode]) -> list[int] | None:
    """Return the line of each collective, None unless the function has calls that fit; the closest together win.

    After a graph break, several calls that fit may be those of a branch that was not taken: then None.
    """
    body = _function_calls(source, frame)
    if not body or not calls or len(calls) > MOST_CALLS:
        return None
    candidates = [[line for line, text in body if _fits(node, text)] for node in calls]
    if is_resumed(frame.function) and any(len(options) > len(calls) for options in candidates):
        return None
    best: list[int] | None = None
    for start in candidates[0]:
        lines = [start]
        for options in candidates[1:]:
            later = [line for line in options if line > lines[-1]]
            if not later:
                break
            lines.append(later[0])
        if len(lines) == len(calls) and (best is None or lines[-1] - lines[0] < best[-1] - best[0]):
            best = lines
    return best


def _function_calls(source: str, frame: ev.Location) -> list[tuple[int, str]]:
    """Return line and text of each call of a frame: in the function that begins at its line, or resumes there."""
    try:
        tree = parse_source(source)
    except (SyntaxError, ValueError, RecursionError):
        return []
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    if is_resumed(frame.function):
        around = [one for one in functions if one.lineno <= frame.line <= (one.end_lineno or one.lineno)]
    else:
        around = [one for one in functions if frame.line in (one.lineno, *(each.lineno for each in one.decorator_list))]
    if not around:
        return []
    calls = (node for node in ast.walk(max(around, key=lambda one: one.lineno)) if isinstance(node, ast.Call))
    return sorted((call.lineno, ast.unparse(call)) for call in calls if call.lineno >= frame.line)


def _fits(node: ev.FxNode, call: str) -> bool:
    words = node.target.removesuffix(".default").rpartition(".")[2].split("_")
    name = "_".join(words[:2])
    reduction, other = _REDUCTION.search(node.args), _REDUCTION.search(call)
    same = reduction is None or other is None or reduction[1] == other[1]
    return same and re.search(rf"\b{re.escape(name)}\w*\(", call.partition("(")[0] + "(") is not None
