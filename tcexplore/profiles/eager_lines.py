"""The lines of ops outside every graph: from the Python functions in a profile, and from optimizers by their names.

The profiler names a Python function with the line at which it begins. The line of a call in it is certain if the
function calls that name once.
"""

from __future__ import annotations

import ast
import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping
from operator import itemgetter
from typing import NamedTuple

from tcexplore import events as ev
from tcexplore.profiles.profile_table import ProfileTable

_FUNCTION = re.compile(r"^(.+)\((\d+)\): (.+)$")
_BUILT_IN = re.compile(r"^<built-in (?:method|function) (\w+)")
_OPTIMIZER = re.compile(r"^Optimizer\.(\w+)#(\w+)\.\w+$")

NO_STACKS = "the profile has no Python functions: record it with with_stack=True"
NO_SOURCE = "the program's file is not here, or differs from the trace: lines cannot be told"
NOT_IN_FUNCTION = "no line of the user's functions calls it by this name, or several do"
OF_AUTOGRAD = "autograd runs it; it has no forward op in the profile"

Placed = tuple[ev.Location | None, str]
"""A line, or why there is none."""


class _Call(NamedTuple):
    name: str
    receiver: str
    line: int
    function: str
    first: int
    """First line of the function around it; 0 outside functions."""


class _Source:
    """The calls in one file."""

    def __init__(self, file: str, text: str) -> None:
        self.file = file
        self.calls: list[_Call] = []
        self.made_by: dict[str, set[str]] = defaultdict(set)
        """Names of the classes or functions whose results a variable holds."""
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError, RecursionError):
            return
        self._visit(tree, "<module>", 0)

    def _visit(self, node: ast.AST, function: str, first: int) -> None:
        for child in ast.iter_child_nodes(node):
            inner, line = function, first
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = [child.lineno, *(decorator.lineno for decorator in child.decorator_list)]
                inner, line = child.name, min(lines)
            elif isinstance(child, ast.Call):
                name, receiver = _called(child)
                if name:
                    at = child.func.end_lineno or child.lineno
                    self.calls.append(_Call(name, receiver, at, function, first))
            elif isinstance(child, ast.Assign) and isinstance(child.value, ast.Call):
                name, _ = _called(child.value)
                for target in child.targets:
                    self.made_by[ast.unparse(target)].add(name)
            self._visit(child, inner, line)


def _called(call: ast.Call) -> tuple[str, str]:
    function = call.func
    if isinstance(function, ast.Attribute):
        return function.attr, ast.unparse(function.value)
    return (function.id, "") if isinstance(function, ast.Name) else ("", "")


class EagerLines:
    """Finds the lines of eager ops."""

    def __init__(self, table: ProfileTable, sources: Mapping[str, str]) -> None:
        self._table = table
        self._sources = [_Source(file, text) for file, text in sources.items() if text.strip()]
        self._functions = _Functions(table, self._sources)
        self._optimizers: dict[int, list[tuple[float, float, Placed]]] = defaultdict(list)
        for start, end, thread, placed in sorted(self._optimizer_spans(), key=lambda span: span[0]):
            self._optimizers[thread].append((start, end, placed))
        self._forwards = self._forward_ops()
        self._known: dict[int, Placed] = {}

    def place(self, op: int, around: int) -> Placed:
        """Return the line of an op outside every graph; `around` is the op of autograd around it, -1 for none.

        What a backward runs besides the ops of the forward, such as DDP's copies, is on the line of the backward.
        """
        ops = self._table.events["op"]
        location, reason = self._own_place(op, around)
        if location is None:
            location = self._functions.line_of_backward(ops.starts[op], ops.threads[op])
        return (location, "") if location else (None, reason)

    def _own_place(self, op: int, around: int) -> Placed:
        ops = self._table.events["op"]
        start = ops.starts[op]
        if around >= 0 and (sequence := ops.sequences[around]) < 0:
            forward = self._forwards.get(-sequence, -1)
            if forward < 0:
                return None, OF_AUTOGRAD
            return self._forward_place(forward)
        spans = self._optimizers.get(ops.threads[op], [])
        at = bisect_right(spans, start, key=itemgetter(0)) - 1
        if at >= 0 and start < spans[at][1]:
            return spans[at][2]
        return self._forward_place(op)

    def _forward_place(self, op: int) -> Placed:
        known = self._known.get(op)
        if known is None:
            known = self._known[op] = self._find(op)
        return known

    def _find(self, op: int) -> Placed:
        if not len(self._table.events["python"]):
            return None, NO_STACKS
        if not self._sources:
            return None, NO_SOURCE
        ops = self._table.events["op"]
        name = self._table.names[ops.names[op]].rpartition("::")[2]
        location = self._functions.line(ops.starts[op], ops.threads[op], name)
        return (location, "") if location else (None, NOT_IN_FUNCTION)

    def _forward_ops(self) -> dict[int, int]:
        """Return the first op of each sequence number of autograd in the forward."""
        forwards: dict[int, int] = {}
        starts = self._table.events["op"].starts
        for op, sequence in enumerate(self._table.events["op"].sequences):
            if sequence > 0 and (sequence not in forwards or starts[op] < starts[forwards[sequence]]):
                forwards[sequence] = op
        return forwards

    def _optimizer_spans(self) -> Iterator[tuple[float, float, int, Placed]]:
        """Yield the spans of optimizers with the line that calls them."""
        events, placed = self._table.events["annotation"], dict[str, Placed]()
        for index, number in enumerate(events.names):
            name = self._table.names[number]
            match = _OPTIMIZER.match(name)
            if match is None:
                continue
            if name not in placed:
                placed[name] = self._optimizer_line(match[1], match[2])
            start = events.starts[index]
            yield start, start + events.lengths[index], events.threads[index], placed[name]

    def _optimizer_line(self, method: str, kind: str) -> Placed:
        """Return the only line that calls a method of an optimizer of this class."""
        if not self._sources:
            return None, NO_SOURCE
        found = [
            ev.Location(source.file, call.line, call.function)
            for source in self._sources
            for call in source.calls
            if call.name == method and kind in source.made_by.get(call.receiver, ())
        ]
        lines = list(dict.fromkeys(found))
        return (lines[0], "") if len(lines) == 1 else (None, f"{len(lines)} lines call {kind}.{method}")


class _Thread(NamedTuple):
    """The Python functions of one thread by start, outer ones first."""

    functions: list[int]
    starts: list[float]
    parents: list[int]
    """Position of the function around each one, -1 for none."""


class _Functions:
    """The Python functions of a profile by thread and time."""

    def __init__(self, table: ProfileTable, sources: list[_Source]) -> None:
        self._table = table
        self._sources = sources
        self._events = table.events["python"]
        self._parsed: dict[int, tuple[_Source, int, str] | None] = {}
        by_thread: dict[int, list[int]] = defaultdict(list)
        events = self._events
        for index in sorted(range(len(events)), key=lambda index: (events.starts[index], -events.lengths[index])):
            by_thread[events.threads[index]].append(index)
        self._threads = {table.threads[thread][:2]: self._nested(own) for thread, own in by_thread.items()}

    def _nested(self, functions: list[int]) -> _Thread:
        starts, lengths = self._events.starts, self._events.lengths
        parents: list[int] = []
        open_: list[int] = []
        for position, index in enumerate(functions):
            while open_ and starts[functions[open_[-1]]] + lengths[functions[open_[-1]]] <= starts[index]:
                open_.pop()
            parents.append(open_[-1] if open_ else -1)
            open_.append(position)
        return _Thread(functions, [starts[index] for index in functions], parents)

    def line(self, start: float, thread: int, op: str) -> ev.Location | None:
        """Return the line of the innermost function of the user that runs an op."""
        callee = op
        for index in self._around(start, self._table.threads[thread][:2]):
            text = self._table.names[self._events.names[index]]
            known = self._user_function(index)
            if known is not None:
                return self._line_in(known, {callee, op})
            if (match := _BUILT_IN.match(text)) or (match := _FUNCTION.match(text)):
                callee = match[match.lastindex or 1]
        return None

    def line_of_backward(self, start: float, besides: int) -> ev.Location | None:
        """Return the line that runs a backward at a time, on any thread but one; None if it is not one line.

        Autograd has a thread for each device: there, no function of the user is around what it runs.
        """
        own = self._table.threads[besides][:2]
        found = set[ev.Location]()
        for thread in self._threads:
            user = None
            names = set[str]()
            for index in self._around(start, thread) if thread != own else ():
                if (user := self._user_function(index)) is not None:
                    break
                if match := _FUNCTION.match(self._table.names[self._events.names[index]]):
                    names.add(match[3])
            if user is not None and "backward" in names and (line := self._line_in(user, {"backward"})):
                found.add(line)
        return found.pop() if len(found) == 1 else None

    def _around(self, start: float, thread: tuple[str, str]) -> Iterator[int]:
        """Yield the functions that run at a time, innermost first."""
        own = self._threads.get(thread)
        position = bisect_right(own.starts, start) - 1 if own is not None else -1
        while own is not None and position >= 0:
            index = own.functions[position]
            if self._events.starts[index] + self._events.lengths[index] > start:
                yield index
            position = own.parents[position]

    def _user_function(self, index: int) -> tuple[_Source, int, str] | None:
        """Return the source, first line and name of a function of the user's files."""
        number = self._events.names[index]
        if number not in self._parsed:
            match = _FUNCTION.match(self._table.names[number])
            self._parsed[number] = None
            if match is not None:
                path = match[1]
                source = next((s for s in self._sources if s.file == path or s.file.endswith(f"/{path}")), None)
                if source is not None:
                    self._parsed[number] = (source, int(match[2]), match[3])
        return self._parsed[number]

    @staticmethod
    def _line_in(known: tuple[_Source, int, str], names: set[str]) -> ev.Location | None:
        source, first, function = known
        if function == "<module>":
            first = 0
        lines = {call.line for call in source.calls if call.first == first and call.name in names}
        return ev.Location(source.file, lines.pop(), function) if len(lines) == 1 else None
