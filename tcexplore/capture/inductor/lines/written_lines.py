"""Marks on the code lines that Inductor writes: each line gets the mark of its op, also in the bodies of loops."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tcexplore.capture.hooks import Hooks
from tcexplore.capture.inductor.lines.current_op import CurrentOp
from tcexplore.capture.inductor.lines.line_marks import CPP, FACT, TRITON, LineMarks, Ops

_MARKS = "_tcexplore_marks"
_REDUCTIONS = "_tcexplore_reductions"
_HELPER_OPS = "_tcexplore_ops"
_REDUCTION_KERNELS = ("cpp:CppKernel", "cpp:CppVecKernel", "triton:TritonKernel")


class InterpretedNode:
    """The loop-body node that Inductor interprets, to generate code for it or to retrace it."""

    def __init__(self) -> None:
        self._interpreters: list[Any] = []

    @property
    def node(self) -> Any:
        """The node of the innermost interpreter, None outside."""
        return self._interpreters[-1].current_node if self._interpreters else None

    def install(self, hooks: Hooks) -> None:
        """Watch interpreters run."""
        hooks.wrap(FACT, "torch._inductor.loop_body:InterpreterShim.run", self._running)

    def _running(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def run(interpreter: Any, *args: Any, **kwargs: Any) -> Any:
            self._interpreters.append(interpreter)
            try:
                return original(interpreter, *args, **kwargs)
            finally:
                self._interpreters.pop()

        return run


class WrittenLines:
    """Writer of marks into a kernel's own buffers.

    Text in other buffers may be compared or used as a key before it reaches a kernel, so it gets no marks.
    """

    def __init__(self, marks: LineMarks, interpreted: InterpretedNode) -> None:
        self._marks = marks
        self._interpreted = interpreted
        self._forms: dict[type, str | None] = {}
        self._headers = 0
        self._expressions = 0

    def install(self, hooks: Hooks) -> None:
        """Watch lines being written and common subexpressions being reused."""
        hooks.wrap(FACT, "torch._inductor.utils:IndentedBuffer.writeline", self._marking)
        hooks.wrap(FACT, "torch._inductor.codegen.common:CSE.generate", self._sharing)
        hooks.wrap(FACT, "torch._inductor.codegen.simd:IterationRangesEntry._codegen", self._in_header)

    def form(self, kernel: Any) -> str | None:
        """Return the form of a mark in a kernel's language, None for any other backend."""
        cls = type(kernel)
        if cls not in self._forms:
            bases = {base.__name__ for base in cls.__mro__}
            self._forms[cls] = CPP if "CppKernel" in bases else TRITON if "TritonKernel" in bases else None
        return self._forms[cls]

    def _marking(self, original: Callable[..., None]) -> Callable[..., None]:
        from torch._inductor.virtualized import V

        def writeline(buffer: Any, line: Any) -> None:
            node = self._interpreted.node
            if node is not None and not self._headers:
                ops = index_ops_of(node) if self._expressions else ops_of(node)
                if ops:
                    line = self._marked(V.kernel, buffer, line, ops)
            original(buffer, line)

        return writeline

    def _marked(self, kernel: Any, buffer: Any, line: Any, ops: Ops) -> Any:
        form = self.form(kernel)
        if form is None or not _owns(kernel, buffer):
            return line
        if isinstance(line, str):
            return self._marks.mark(line, ops, form)
        if hasattr(line, "_new_line"):
            return line._new_line(self._marks.mark(line.line, ops, form))
        return line

    def _sharing(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def generate(cse: Any, buffer: Any, expr: Any, *args: Any, **kwargs: Any) -> Any:
            node = self._interpreted.node
            if node is None:
                return original(cse, buffer, expr, *args, **kwargs)
            first = self._marks.issued
            self._expressions += 1
            try:
                variable = original(cse, buffer, expr, *args, **kwargs)
            finally:
                self._expressions -= 1
            self.share(variable, first, node, reused=variable is not expr)
            return variable

        return generate

    def share(self, variable: Any, first: int, node: Any, *, reused: bool = True) -> None:
        """Assign the marks from `first` on to `variable`, or add the ops of `node` to those that a reused one has."""
        if self._marks.issued > first:
            setattr(variable, _MARKS, range(first, self._marks.issued))
        elif reused:
            self._marks.add(getattr(variable, _MARKS, ()), index_ops_of(node))

    def _in_header(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Leave the definition of iteration variables unmarked: the first op that needs one triggers it."""

        def codegen(entry: Any) -> Any:
            self._headers += 1
            try:
                return original(entry)
            finally:
                self._headers -= 1

        return codegen


def _owns(kernel: Any, buffer: Any) -> bool:
    for value in vars(kernel).values():  # noqa: SIM110 - runs thousands of times per compile
        if value is buffer:
            return True
    return False


class Reductions:
    """Marks of reductions: accumulators are declared late, and equal reductions are shared."""

    def __init__(self, marks: LineMarks, interpreted: InterpretedNode) -> None:
        self._marks = marks
        self._interpreted = interpreted

    def install(self, hooks: Hooks) -> None:
        """Watch reductions being generated."""
        for kernel in _REDUCTION_KERNELS:
            hooks.wrap(FACT, f"torch._inductor.codegen.{kernel}.reduction", self._reducing)

    def _reducing(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def reduction(kernel: Any, *args: Any, **kwargs: Any) -> Any:
            ops, first = ops_of(self._interpreted.node), self._marks.issued
            declared = len(getattr(kernel, "reduction_prefix_generators", ()))
            result = original(kernel, *args, **kwargs)
            marks_by_result = vars(kernel).setdefault(_REDUCTIONS, {})
            if self._marks.issued > first:
                marks_by_result[str(result)] = range(first, self._marks.issued)
            else:
                self._marks.add(marks_by_result.get(str(result), ()), ops)
            generators = getattr(kernel, "reduction_prefix_generators", [])
            generators[declared:] = [self._declaring(generate, ops) for generate in generators[declared:]]
            return result

        return reduction

    def _declaring(self, generate: Callable[..., Any], ops: Ops) -> Callable[..., Any]:
        def declaration(size: Any = None) -> Any:
            code = generate(size)
            if isinstance(code, str):
                return self._marks.mark(code, ops, CPP)
            return code.map(lambda line: self._marks.mark(line, ops, CPP) if isinstance(line, str) else line)

        return declaration


class HelperFunctions:
    """Marks of Triton helper functions (how a scan combines two values).

    torch writes them separately and shares those with equal text, so the marks are added when they go into a kernel.
    """

    def __init__(self, marks: LineMarks, interpreted: InterpretedNode) -> None:
        self._marks = marks
        self._interpreted = interpreted

    def install(self, hooks: Hooks) -> None:
        """Watch helpers being added and written."""
        owner = "torch._inductor.codegen.triton:HelperFunctions"
        hooks.wrap(FACT, f"{owner}.add", self._adding)
        hooks.wrap(FACT, f"{owner}.__iter__", self._writing)

    def _adding(self, original: Callable[..., str]) -> Callable[..., str]:
        def add(helpers: Any, *args: Any, **kwargs: Any) -> str:
            name = original(helpers, *args, **kwargs)
            ops = vars(helpers).setdefault(_HELPER_OPS, {})
            ops[name] = (*ops.get(name, ()), *ops_of(self._interpreted.node))
            return name

        return add

    def _writing(self, original: Callable[..., Iterator[str]]) -> Callable[..., Iterator[str]]:
        def iterate(helpers: Any) -> Iterator[str]:
            ops_by_name: dict[str, Ops] = getattr(helpers, _HELPER_OPS, {})
            for text in original(helpers):
                ops = next((ops for name, ops in ops_by_name.items() if f"def {name}(" in text), ())
                yield "\n".join(self._marked(line, ops) for line in text.split("\n"))

        return iterate

    def _marked(self, line: str, ops: Ops) -> str:
        return self._marks.mark(line, ops, TRITON) if line.startswith(" ") else line


_OPS = "tcexplore_ops"
_STORE_OPS = "tcexplore_store_ops"
_STORED_VALUE = {"store": 3, "store_reduction": 3}
"""Index of the stored value among the arguments: ops handler, buffer name, index, value."""

_MAX_CONVERSIONS = 8


class LoopBodies:
    """Recorder of a node's ops when a loop body is traced, including retraces of an earlier body."""

    def __init__(self, current: CurrentOp, interpreted: InterpretedNode) -> None:
        self._current = current
        self._interpreted = interpreted

    def install(self, hooks: Hooks) -> None:
        """Watch the creation of loop-body nodes."""
        hooks.wrap(FACT, "torch._inductor.loop_body:LightTracer.create_node", self._creating)

    def _creating(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def create_node(tracer: Any, *args: Any, **kwargs: Any) -> Any:
            node = original(tracer, *args, **kwargs)
            self._record(node, self._interpreted.node)
            return node

        return create_node

    def _record(self, node: Any, earlier: Any) -> None:
        """Record the ops of a new node; `earlier` is the node that is retraced, if any."""
        store_ops = self._current.ops if earlier is None else getattr(earlier, "meta", {}).get(_STORE_OPS, ())
        ops = self._current.ops if earlier is None else ops_of(earlier)
        index = _STORED_VALUE.get(node.target) if isinstance(node.target, str) else None
        if index is not None and len(node.args) > index:
            if earlier is None:
                ops = tuple(dict.fromkeys((*ops_of(node.args[index]), *ops)))
            if store_ops:
                node.meta[_STORE_OPS] = store_ops
        if ops:
            node.meta[_OPS] = ops


def index_ops_of(node: Any) -> Ops:
    """Return the ops of the expressions that compute a node's memory index, not its value."""
    return node.meta.get(_STORE_OPS) or ops_of(node)


def ops_of(node: Any) -> Ops:
    """Return the ops of a loop-body node; a conversion that Inductor inserts belongs to the value that it converts."""
    for _ in range(_MAX_CONVERSIONS):
        if not hasattr(node, "meta"):
            return ()
        ops: Ops = node.meta.get(_OPS, ())
        if ops or node.target != "to_dtype":
            return ops
        node = node.args[1]
    return ()
