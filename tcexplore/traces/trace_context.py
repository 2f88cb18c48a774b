"""State of converting one process's records into events."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib.util import find_spec
from typing import Any

from tcexplore import events as ev
from tcexplore.session.communication import is_collective
from tcexplore.torch_text.break_text import RegistryEntry, read_registry
from tcexplore.torch_text.dynamo_names import function_name, readable_source
from tcexplore.traces.recompile_values import RecompileValues
from tcexplore.traces.record_index import BadRecordError, Record, RecordIndex, decode_json
from tcexplore.traces.trace_sources import TraceSources

_CONVERTED = re.compile(r"^___(as_tensor|from_numpy)\((.+)\)$")

Emit = Callable[[ev.Event], None]


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
    timed_kernels: set[tuple[str, str]] = field(default_factory=set)
    """Compile id and name of each kernel whose compile time is known."""
    broken: set[str] = field(default_factory=set)
    """Compile ids of frames with a record of a graph break."""
    recompile_limit: int | None = None
    """torch's limit of cache entries, once a compile has reported it."""
    problems: list[str] = field(default_factory=list)
    """A sentence for each record that cannot be read."""
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

        A trace has only the innermost line. For library code, it is the compiled function if that is the user's, else
        the line that led to the compile.
        """
        place = self.sources.place(file, line, function, code)
        start = self.starts.get(graph)
        if place is not None or start is None:
            return place
        own = start.frame
        return self.sources.place(own.file, own.line, own.function) or start.caller if own else start.caller

    def with_collective_lines(self, graph: str, nodes: tuple[ev.FxNode, ...]) -> tuple[ev.FxNode, ...]:
        """Return the nodes; collectives that have the line of their function get that of the user's call."""
        start = self.starts.get(graph)
        frame = start.frame if start is not None else None
        if frame is None or not self.sources.owns(frame.file):
            return nodes
        calls = [node for node in nodes if is_collective(node)]
        if any(node.location is not None and node.location.line != frame.line for node in calls):
            return nodes
        lines = collective_lines(self.sources.text(frame.file), frame, calls) if calls else None
        places = {node.name: line for node, line in zip(calls, lines or (), strict=False)}
        function = function_name(frame.function)
        return tuple(
            replace(node, location=ev.Location(frame.file, places[node.name], function))
            if node.name in places
            else node
            for node in nodes
        )

    @cached_property
    def registry(self) -> dict[str, RegistryEntry]:
        """The registry of graph breaks of the installed torch, which is not imported; empty without torch."""
        try:
            spec = find_spec("torch")
            return read_registry(os.path.dirname(spec.origin)) if spec and spec.origin else {}
        except (OSError, ValueError, KeyError, ImportError):
            return {}


_REDUCTION = re.compile(r"'(sum|avg|max|min|product)'")
MOST_CALLS = 12
"""Collectives of a function beyond which no lines are searched."""


def collective_lines(source: str, frame: ev.Location, calls: Sequence[ev.FxNode]) -> list[int] | None:
    """Return the line of each collective, None unless the function has calls that fit; the closest together win."""
    body = _function_calls(source, frame)
    if not body or not calls or len(calls) > MOST_CALLS:
        return None
    candidates = [[line for line, text in body if _fits(node, text)] for node in calls]
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
    """Return line and text of each call in the function that begins at a line."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return []
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            first = min([function.lineno, *(decorator.lineno for decorator in function.decorator_list)])
            if first == frame.line or function.lineno == frame.line:
                calls = [node for node in ast.walk(function) if isinstance(node, ast.Call)]
                return sorted((call.lineno, ast.unparse(call)) for call in calls)
    return []


def _fits(node: ev.FxNode, call: str) -> bool:
    words = node.target.removesuffix(".default").rpartition(".")[2].split("_")
    name = "_".join(words[:2])
    reduction, other = _REDUCTION.search(node.args), _REDUCTION.search(call)
    same = reduction is None or other is None or reduction[1] == other[1]
    return same and re.search(rf"\b{re.escape(name)}\w*\(", call.partition("(")[0] + "(") is not None
