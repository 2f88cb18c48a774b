"""The op behind each statement of a generated kernel: marks stay in the text until the kernel is complete.

A mark is a comment at the end of a line that names its ops. It is removed before torch hashes, names or compiles the
kernel.
"""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from tcexplore.capture.hooks import Hooks
from tcexplore.torch_text.kernel_source import KernelSource


def mark_lines(hooks: Hooks) -> MarkedKernels:
    """Follow statements from the op to the complete kernel.

    If torch does not define kernels where expected, no line is marked, and kernels have their origins as a whole only.
    """
    marks, current, interpreted = LineMarks(), CurrentOp(), InterpretedNode()
    kernels = MarkedKernels(marks)
    if kernels.install(hooks):
        for part in (current, interpreted, SymbolicValues(current), LoopBodies(current, interpreted)):
            part.install(hooks)
        for writer in (WrittenLines, Reductions, HelperFunctions):
            writer(marks, interpreted).install(hooks)
    return kernels


FACT = "statement provenance"
CPP = "/*{}*/"
TRITON = "#{}"

_SCHEDULINGS = ("cpp:CppScheduling", "triton:TritonScheduling")
_HOOKED = "_tcexplore_marked_kernels"
_ALREADY_HOOKED = (
    "other hooks of this process mark statements already; they have to be removed before these are installed"
)

Ops = tuple[str, ...]
"""Names of post-grad nodes."""


class MarkedText(NamedTuple):
    """A text without its marks."""

    text: str
    ops: dict[int, Ops]
    """The ops of each marked line, counted from 0."""


class LineMarks:
    """Issuer of unique marks; a mark may get further ops after its line was written.

    Each instance ignores the marks of others.
    """

    _instances = itertools.count()

    def __init__(self) -> None:
        self._ops: list[dict[str, None]] = []
        self._sign = f"@tcexplore{next(self._instances)}:"
        self._mark = re.compile(rf"(?:/\*|#){self._sign}(\d+)@(?:\*/)?")

    @property
    def issued(self) -> int:
        """Number of marks issued so far, which is also the number of the next mark."""
        return len(self._ops)

    def mark(self, line: str, ops: Ops, form: str) -> str:
        """Add a new mark to a line, unless it is blank, marked already, or cannot have a comment."""
        if not ops or not line.strip() or self._sign in line or line.endswith("\\"):
            return line
        self._ops.append(dict.fromkeys(ops))
        return line + form.format(f"{self._sign}{len(self._ops) - 1}@")

    def add(self, numbers: Iterable[int], ops: Ops) -> None:
        """Add ops to existing marks."""
        for number in numbers:
            self._ops[number].update(dict.fromkeys(ops))

    def strip(self, text: str) -> MarkedText:
        """Remove all marks from a text."""
        pieces = self._mark.split(text)
        texts, numbers = pieces[::2], pieces[1::2]
        ops: dict[int, dict[str, None]] = defaultdict(dict)
        line = 0
        for before, number in zip(texts, numbers, strict=False):  # a text follows the last number
            line += before.count("\n")
            ops[line].update(self._ops[int(number)])
        return MarkedText("".join(texts), {n: tuple(names) for n, names in ops.items()})


class MarkedKernels:
    """The marks of complete kernels, by kernel name, of the latest definition."""

    def __init__(self, marks: LineMarks) -> None:
        self._marks = marks
        self._defined: dict[str, MarkedText] = {}
        self._already_hooked = False

    def install(self, hooks: Hooks) -> bool:
        """Watch kernel definitions; return whether lines may be marked.

        Do not mark lines if torch defines kernels elsewhere, or if other hooks mark lines: a value has only one mark.
        """
        symbols = (f"torch._inductor.codegen.{owner}.define_kernel" for owner in _SCHEDULINGS)
        exist = [hooks.wrap(FACT, symbol, self._defining) for symbol in symbols]
        if self._already_hooked:
            hooks.report_missing(FACT, "torch._inductor.codegen", _ALREADY_HOOKED)
        return all(exist) and not self._already_hooked

    def _defining(self, original: Callable[..., str]) -> Callable[..., str]:
        self._already_hooked = self._already_hooked or hasattr(original, _HOOKED)

        def define_kernel(scheduling: Any, src_code: str, *args: Any, **kwargs: Any) -> str:
            marked = self._marks.strip(src_code)
            name = original(scheduling, marked.text, *args, **kwargs)
            self._defined[name] = marked
            return name

        setattr(define_kernel, _HOOKED, self)
        return define_kernel

    def take(self, kernel: str, source: KernelSource) -> dict[int, Ops]:
        """Return the ops of the lines of `source`, counted from 1, for the latest definition of `kernel`.

        Lines whose text differs from the marked one are left out.
        """
        marked = self._defined.pop(kernel, None)
        if marked is None:
            return {}
        written, shown = marked.text.split("\n"), source.text.split("\n")
        blank = next((n for n, line in enumerate(written) if line.strip()), 0)
        placed = {n - blank - source.cut: (written[n].strip(), ops) for n, ops in marked.ops.items()}
        return {
            n + 1: ops
            for n, (text, ops) in sorted(placed.items())
            if 0 <= n < len(shown) and shown[n].strip() == text and any(c.isalnum() for c in text)
        }


_IR_OPS = "_tcexplore_ops"
_STORES = ("store_output", "store_reduction")


class CurrentOp:
    """Stack of ops, one entry per running `inner_fn`; nested loaders are on top."""

    def __init__(self) -> None:
        self._stack: list[Ops] = []

    @property
    def ops(self) -> Ops:
        """The innermost ops, empty outside the evaluation of an IR node."""
        return self._stack[-1] if self._stack else ()

    def call(self, ops: Ops, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call `function` as part of `ops`."""
        self._stack.append(ops)
        try:
            return function(*args, **kwargs)
        finally:
            self._stack.pop()

    def install(self, hooks: Hooks) -> None:
        """Record the op of each IR loop when it is created, and run the loop's code as that op's."""
        from torch._inductor import ir

        hooks.wrap(FACT, "torch._inductor.ir:IRNode.__post_init__", self._creating)
        for name, loops in vars(ir).items():
            if isinstance(loops, type) and issubclass(loops, ir.Loops):
                for method in _STORES:
                    if method in vars(loops):
                        hooks.wrap(FACT, f"torch._inductor.ir:{name}.{method}", self._storing)

    def _creating(self, original: Callable[..., None]) -> Callable[..., None]:
        from torch._inductor.ir import Loops
        from torch._inductor.virtualized import V

        def post_init(node: Any) -> None:
            original(node)
            if isinstance(node, Loops):
                lowered = getattr(V.graph, "current_node", None)
                if lowered is not None:
                    self._attribute(node, (lowered.name,))

        return post_init

    def _attribute(self, loops: Any, ops: Ops) -> None:
        object.__setattr__(loops, _IR_OPS, ops)
        object.__setattr__(loops, "inner_fn", self._as_part_of(ops, loops.inner_fn))
        if hasattr(loops, "inner_fns"):
            object.__setattr__(loops, "inner_fns", tuple(self._as_part_of(ops, fn) for fn in loops.inner_fns))

    def _as_part_of(self, ops: Ops, inner_fn: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a function to run as `ops`, unless another IR node has wrapped it already."""
        if hasattr(inner_fn, _IR_OPS):
            return inner_fn

        def attributed(*args: Any, **kwargs: Any) -> Any:
            return self.call(ops, inner_fn, *args, **kwargs)

        setattr(attributed, _IR_OPS, ops)
        return attributed

    def _storing(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def store(loops: Any, *args: Any, **kwargs: Any) -> Any:
            return self.call(getattr(loops, _IR_OPS, ()), original, loops, *args, **kwargs)

        return store


class SymbolicValues:
    """Ops of constants and index expressions, which Inductor folds and writes only where they are used.

    A constant belongs to the op that creates it, not to one that uses it.
    """

    def __init__(self, current: CurrentOp) -> None:
        self._current = current

    def install(self, hooks: Hooks) -> None:
        """Watch symbolic values being folded and written."""
        owner = "torch._inductor.index_propagation:IndexPropagation"
        hooks.wrap(FACT, f"{owner}.propagate_sympy", self._folding)
        hooks.wrap(FACT, f"{owner}.unwrap", self._writing)

    def _folding(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def propagate_sympy(handler: Any, name: str, args: Any, kwargs: Any) -> Any:
            result = original(handler, name, args, kwargs)
            if getattr(result, "is_symbolic", False):
                ops: list[str] = list(self._current.ops)
                for value in (*args, *kwargs.values()):
                    ops.extend(getattr(value, _IR_OPS, ()))
                setattr(result, _IR_OPS, tuple(dict.fromkeys(ops)))
            return result

        return propagate_sympy

    def _writing(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def unwrap(handler: Any, value: Any) -> Any:
            ops: Ops = getattr(value, _IR_OPS, ())
            return self._current.call(ops, original, handler, value) if ops else original(handler, value)

        return unwrap


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
