"""The values of one call of Inductor's wrapper: its arguments, and each buffer right after the kernel that writes it.

The function `call` of the wrapper is compiled again with a statement after each kernel, so it works alike for C++,
Triton and extern kernels, and in the thread of the backward.
"""

from __future__ import annotations

import ast
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import CodeType
from typing import Any, NamedTuple

import torch

from tcexplore.capture.compiled_regions import records_cuda_graph
from tcexplore.numerics.comparison import same
from tcexplore.numerics.lowered_graphs import LoweredGraph

_BEGIN, _WRITTEN = "_tcexplore_begin", "_tcexplore_written"

_NOT_KERNELS = frozenset({
    "empty_strided", "empty_strided_cpu", "empty_strided_cuda", "empty_strided_cpu_pinned", "empty_strided_xpu",
    "reinterpret_tensor", "alloc_from_pool", "assert_size_stride", "assert_alignment", "clear", "get_raw_stream",
    "empty", "copy_misaligned",
})  # fmt: skip
"""Functions that a wrapper calls besides kernels."""


class WrittenValue(NamedTuple):
    """One of the values that a buffer has during a call."""

    buffer: str
    number: int
    """0 as the kernel that creates it wrote it, then one more for each kernel that changed it."""


@dataclass(slots=True)
class WrapperCall:
    """One call of a wrapper."""

    arguments: list[Any] = field(default_factory=list)
    written: dict[str, list[torch.Tensor]] = field(default_factory=dict)
    """Buffers by name, as they were right after the kernel that wrote them, and after each that changed them."""
    complete: bool = True
    """Whether all buffers were small enough to be copied."""
    same_arguments: bool | None = None
    """Whether a second call got the same arguments; None without one."""
    statements: dict[tuple[str, int], WrittenValue] = field(default_factory=dict)
    """The value that each statement of the wrapper gave a buffer, by the buffer and the number of the statement."""
    named: Sequence[frozenset[str]] = ()
    """The buffers that each statement names, and those whose memory they view or took over."""
    repeated: dict[WrittenValue, bool] = field(default_factory=dict)
    """Whether later calls wrote the same values, in the order of the call."""
    varied: dict[WrittenValue, torch.Tensor] = field(default_factory=dict)
    """Values of the later call whose values are the farthest from the first one's, where it wrote others."""

    def named_with(self, written: Collection[WrittenValue]) -> frozenset[str] | None:
        """Return the buffers that a kernel which wrote these values may have read; None if it is not known."""
        numbers = {number for (_, number), value in self.statements.items() if value in written}
        return frozenset().union(*(self.named[number] for number in numbers)) if numbers else None

    def repeats(self, written: Collection[WrittenValue]) -> bool | None:
        """Return whether a kernel gave the same values twice; None if something before it did not, or is unknown."""
        if not self.same_arguments:
            return None
        for value, equal in self.repeated.items():
            if value in written:
                return all(self.repeated.get(each, True) for each in written)
            if not equal:
                return None
        return None


class ValueRecorder:
    """Records the first call of each wrapper, and compares the next ones with it.

    It copies values. With `copy_arguments`, arguments are copied too, for a program that goes on and changes them.
    """

    def __init__(self, limit: Callable[[torch.device], int], *, copy_arguments: bool = False, repeats: int = 1) -> None:
        """`limit` returns the bytes that copies may take on a device; `repeats` calls are compared with the first."""
        self._graphs: dict[str, LoweredGraph] = {}
        self._limit = limit
        self._left: dict[torch.device, int] = {}
        self._copy_arguments = copy_arguments
        self._restore = ExitStack()
        self.calls: dict[str, WrapperCall] = {}
        """By the path of the wrapper."""
        self._under_way: set[str] = set()
        self._repeats = repeats
        self._repeated: Counter[str] = Counter()
        """The calls of each wrapper that were compared."""
        self._comparing: set[str] = set()
        self._named: dict[str, list[frozenset[str]]] = {}
        self._reused: dict[str, frozenset[str]] = {}
        """Arguments of each wrapper whose memory it may write to."""

    def add(self, graph: LoweredGraph) -> None:
        """Record the next call of a wrapper; equal graphs share one."""
        path = str(graph.wrapper.__file__)
        if path in self._graphs:
            return
        self._graphs[path] = graph
        scope, tree = vars(graph.wrapper), ast.parse(Path(path).read_text(encoding="utf-8"))
        self._reused[path] = _reused_names(tree)
        instrumented, self._named[path] = _instrumented(tree, path)
        codes = {code.co_name: code for code in instrumented}
        for function in _functions(graph.wrapper):
            code = codes.get(function.__code__.co_name)
            if code is None or code.co_freevars != function.__code__.co_freevars:
                continue
            self._restore.callback(setattr, function, "__code__", function.__code__)
            function.__code__ = code
        for name, observer in ((_BEGIN, self._begin), (_WRITTEN, self._written)):
            scope[name] = partial(observer, path)
            self._restore.callback(scope.pop, name)

    def close(self) -> None:
        """Restore the wrappers."""
        self._restore.close()

    def _begin(self, path: str, arguments: Sequence[Any]) -> None:
        self._under_way.discard(path)
        self._comparing.discard(path)
        if records_cuda_graph():
            return
        call = self.calls.get(path)
        if call is not None and self._repeated[path] < self._repeats:
            self._repeated[path] += 1
            same_arguments = all(_same(one, other) for one, other in zip(call.arguments, arguments, strict=False))
            call.same_arguments = same_arguments if call.same_arguments is None else call.same_arguments
            if same_arguments:
                self._comparing.add(path)
        elif call is None:
            self._under_way.add(path)
            graph = self._graphs[path]
            written = self._reused[path] | graph.mutated_inputs
            names = [node.name for node in graph.module.graph.nodes if node.op == "placeholder"]
            values = zip(names, arguments, strict=False)
            self.calls[path] = WrapperCall(
                [
                    self._copy(path, value) if self._copy_arguments or name in written else value
                    for name, value in values
                ],
                named=self._named[path],
            )

    def _written(self, path: str, scope: dict[str, Any], names: Sequence[str], statement: int) -> None:
        if records_cuda_graph():
            return
        if path not in self._under_way:
            if path in self._comparing:
                self._compare(path, scope, names, statement)
            return
        for name in names:
            value = scope.get(name)
            if not isinstance(value, torch.Tensor):
                continue
            known = self.calls[path].written.get(name)
            # A kernel also names the buffers that it reads, which are known unless it changes them in place.
            if known and (name not in self._graphs[path].changes or same(known[-1], value)):
                continue
            copied = self._copy(path, value)
            if copied is not None:
                values = self.calls[path].written.setdefault(name, [])
                self.calls[path].statements[name, statement] = WrittenValue(name, len(values))
                values.append(copied)

    def _compare(self, path: str, scope: dict[str, Any], names: Sequence[str], statement: int) -> None:
        call = self.calls[path]
        for name in names:
            value = call.statements.get((name, statement))
            if value is None or name not in scope:
                continue
            first, again = call.written[name][value.number], scope[name]
            equal = _same(first, again)
            call.repeated[value] = equal and call.repeated.get(value, True)
            known = call.varied.get(value)
            if equal or (known is not None and not _is_farther(again, known, first)):
                continue
            if (copied := self._copy(path, again)) is not None:
                call.varied[value] = copied

    def _copy(self, path: str, value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        size = value.numel() * value.element_size()
        left = self._left.get(value.device)
        left = self._limit(value.device) if left is None else left
        if size > left:
            self.calls[path].complete = False
            return None
        self._left[value.device] = left - size
        return value.detach().clone()


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        return same(one.detach(), other.detach())
    return one is other or (isinstance(one, int | float) and one == other)


def _is_farther(one: torch.Tensor, other: torch.Tensor, value: torch.Tensor) -> bool:
    """Return whether the largest difference of `one` from a value is larger than that of `other`."""
    distances = [torch.nan_to_num((each - value).abs(), nan=math.inf).max() for each in (one, other)]
    return bool(distances[0] > distances[1])


def _functions(wrapper: Any) -> Iterator[Any]:
    """Yield the functions of a wrapper that call kernels."""
    call = wrapper.call
    yield getattr(call, "__func__", call)
    for name, value in vars(wrapper).items():
        if name.startswith("partition_") and hasattr(value, "__code__"):
            yield value


def _reused_names(tree: ast.Module) -> frozenset[str]:
    """Return the names whose memory a buffer takes over (`buf3 = relu`), or views."""
    return frozenset(
        name.id
        for statement in ast.walk(tree)
        if isinstance(statement, ast.Assign)
        and isinstance(statement.targets[0], ast.Name)
        and statement.targets[0].id.startswith("buf")
        for name in ast.walk(statement.value)
        if isinstance(name, ast.Name)
    )


def _instrumented(tree: ast.Module, path: str) -> tuple[list[CodeType], list[frozenset[str]]]:
    """Return the code of the functions that call kernels, with a statement after each call of a kernel.

    Also return the buffers that each of these calls names, and those whose memory they view or took over.
    """
    observer = _StatementObserver()
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef) and (
            function.name == "call" or function.name.startswith("partition_")
        ):
            function.body = [_statement(f"{_BEGIN}(args)", function.body[0]), *observer.observed(function.body)]
    return list(_codes(compile(tree, path, "exec"))), observer.named


def _codes(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _codes(constant)


class _StatementObserver:
    """Adds a statement after each call of a kernel, which records what it wrote."""

    def __init__(self) -> None:
        self.named: list[frozenset[str]] = []
        """By the number of the call."""
        self._sources: dict[str, frozenset[str]] = {}
        """The buffers whose memory a buffer views or took over."""

    def observed(self, body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
        """Yield statements, and one more after each that calls a kernel."""
        for statement in body:
            yield statement
            for name in ("body", "orelse"):
                if isinstance(statement, ast.With | ast.If | ast.For | ast.While) and getattr(statement, name, None):
                    setattr(statement, name, list(self.observed(getattr(statement, name))))
            if names := _written_names(statement):
                yield _statement(f"{_WRITTEN}(locals(), {names!r}, {len(self.named)})", statement)
                self.named.append(self._with_sources(names))
            elif isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
                self._sources[statement.targets[0].id] = self._with_sources(_buffer_names(statement.value))

    def _with_sources(self, names: Sequence[str]) -> frozenset[str]:
        return frozenset(names).union(*(self._sources.get(name, ()) for name in names))


def _buffer_names(tree: ast.AST) -> tuple[str, ...]:
    names = (node.id for node in ast.walk(tree) if isinstance(node, ast.Name))
    return tuple(dict.fromkeys(name for name in names if name.startswith("buf")))


def _written_names(statement: ast.stmt) -> tuple[str, ...]:
    """Return the buffers that a statement may write: all that it names, if it calls a kernel."""
    if not isinstance(statement, ast.Expr | ast.Assign) or not isinstance(statement.value, ast.Call):
        return ()
    if _callee(statement.value) in _NOT_KERNELS:
        return ()
    return _buffer_names(statement)


def _callee(call: ast.Call) -> str:
    function = call.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _statement(text: str, position: ast.stmt) -> ast.stmt:
    statement = ast.parse(text).body[0]
    for node in ast.walk(statement):
        ast.copy_location(node, position)
    return statement
