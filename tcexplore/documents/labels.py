"""Labels: one color and one number for each kernel, the same in every pane, and short texts about nodes and kernels.

Ops have the color of their kernel.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from rich.cells import cell_len

from tcexplore import events as ev
from tcexplore.documents.document import Row, Span, by_identity
from tcexplore.documents.highlight import highlighted
from tcexplore.documents.locations import Places
from tcexplore.documents.prose import fold, row, shortened, squeezed, wrapped
from tcexplore.quantities import size
from tcexplore.session import Snapshot
from tcexplore.session.links import Link, aten_link, kernel_link, line_link, statement_link

EXTERN = "E"


@dataclass(frozen=True, slots=True)
class KernelLabel:
    """The label of a kernel; `number` counts generated and extern kernels separately, from 1, in call order."""

    number: int
    extern: bool
    link: Link

    @property
    def text(self) -> str:
        return f"{EXTERN}{self.number}" if self.extern else f"▐{self.number}▌"

    @property
    def style(self) -> str:
        """Return the style of text about the kernel."""
        return "extern" if self.extern else f"kernel.{self.number - 1}"

    @property
    def spans(self) -> tuple[Span, ...]:
        if self.extern:
            return (Span(self.text, "extern"),)
        return _pill(str(self.number), self.number - 1)

    @property
    def name(self) -> str:
        """Return `kernel 1`, `E2`."""
        return self.text if self.extern else f"kernel {self.number}"


def _pill(text: str, color: int) -> tuple[Span, ...]:
    edge = f"kernel.{color}"
    return Span("▐", edge), Span(text, f"label.{color}"), Span("▌", edge)


@dataclass(frozen=True, slots=True)
class OpLabel:
    """The label of an op in a kernel: its name (`layer_norm`) in the color of the kernel."""

    text: str
    kernel: KernelLabel

    @property
    def spans(self) -> tuple[Span, ...]:
        if self.kernel.extern:
            return (Span(f"▐{self.text}▌", "extern"),)
        return _pill(self.text, self.kernel.number - 1)

    @property
    def style(self) -> str:
        return self.kernel.style

    @property
    def label_style(self) -> str:
        """Return the style of a label on the kernel's color."""
        return "extern" if self.kernel.extern else f"label.{self.kernel.number - 1}"


def op_name(target: str) -> str:
    """Return `gelu` for `torch.nn.functional.gelu`, `mul` for `aten.mul.Tensor` and `operator.mul`."""
    parts = target.split(".")
    if parts[0] in ("aten", "prims", "inductor") and len(parts) > 1:
        return parts[1].removeprefix("native_")
    overload = len(parts) > 2 and parts[-1] == "default"
    return parts[-2] if overload else parts[-1]


def call_name(node: ev.FxNode) -> str:
    """Return the name of what a node calls: of the user's kernel or op, or of torch's op."""
    return node.user_op.name.rpartition(".")[2] if node.user_op else op_name(node.target)


def is_users(user_op: ev.UserOp | None) -> bool:
    """Return whether the user wrote a kernel or op. FlexAttention is torch's."""
    return user_op is not None and user_op.kind != "FlexAttention"


def describe_user_op(user_op: ev.UserOp) -> str:
    """Return `your Triton kernel`, or `FlexAttention`."""
    return f"your {user_op.kind}" if is_users(user_op) else user_op.kind


MOVING = frozenset({
    "view", "view_as", "reshape", "expand", "expand_as", "permute", "transpose", "t", "unsqueeze", "squeeze", "slice",
    "select", "getitem", "contiguous", "to", "float", "half", "bfloat16", "type", "type_as", "_to_copy", "clone",
    "convert_element_type", "alias", "flatten", "unflatten", "chunk", "split", "detach", "as_strided", "narrow",
    "unbind",
})  # fmt: skip
"""Ops that compute nothing: views, copies and casts."""


class Labels:
    """The labels of one run: of the kernels by link (`kernel`), of the kernels of a Dynamo node (`of_node`), a source
    line (`of_line`) and an ATen node (`of_aten`), and of the ops of post-grad nodes (`ops`)."""

    def __init__(
        self, graphs: tuple[ev.GraphCaptured, ...], aten: tuple[ev.AtenGraph, ...], kernels: tuple[ev.Kernel, ...]
    ) -> None:
        self.kernel: dict[Link, KernelLabel] = {}
        self.of_node: dict[tuple[str, str], list[KernelLabel]] = {}
        self.of_line: dict[tuple[str, int], list[KernelLabel]] = {}
        self.of_aten: dict[tuple[str, str, str], list[KernelLabel]] = {}
        self._targets = {(graph.graph, node.name): call_name(node) for graph in graphs for node in graph.all_nodes}
        self._aten: dict[tuple[str, str, str], ev.FxNode] = {
            (graph.graph, graph.phase, node.name): node
            for graph in aten
            for node in graph.all_nodes
            if node.op != "placeholder"
        }
        self._computed = {
            (graph, phase, origin)
            for (graph, phase, _), node in self._aten.items()
            for origin in (() if node.is_view else node.origins)
        }
        """Dynamo nodes that some post-grad node computes, and that others may only show in another form."""
        self._phases = len({kernel.phase for kernel in kernels})
        for extern in (False, True):
            ours = dict.fromkeys(kernel_link(k) for k in kernels if k.generated != extern)
            self.kernel |= {link: KernelLabel(n, extern, link) for n, link in enumerate(ours, 1)}
        self.statements_known = any(kernel.lines for kernel in kernels)
        """Whether the op of each statement of a kernel is known, at least for one kernel."""
        for kernel in kernels:
            self._join(kernel)

    def _join(self, kernel: ev.Kernel) -> None:
        label = self.kernel[kernel_link(kernel)]
        for location in kernel.source_lines:
            _add(self.of_line.setdefault((location.file, location.line), []), label)
        for name in kernel.nodes:
            _add(self.of_aten.setdefault((kernel.graph, kernel.phase, name), []), label)
            for origin in self._origins(kernel.graph, kernel.phase, name):
                _add(self.of_node.setdefault((kernel.graph, origin), []), label)

    def ops(self, kernel: ev.Kernel, names: Iterable[str]) -> tuple[OpLabel, ...]:
        """Return the labels of the ops of a kernel's post-grad nodes, each once, in order, without unknown ops."""
        texts = (text for name in names for text in self._texts(kernel.graph, kernel.phase, name))
        return tuple(OpLabel(text, self.kernel[kernel_link(kernel)]) for text in dict.fromkeys(texts))

    def fused(self, kernel: ev.Kernel) -> tuple[OpLabel, ...]:
        """Return the labels of all ops of a kernel, or of its ATen ops if the nodes are unknown."""
        known = self.ops(kernel, kernel.nodes)
        own = self.kernel[kernel_link(kernel)]
        return known or tuple(OpLabel(op_name(op), own) for op in dict.fromkeys(kernel.ops))

    def origins(self, kernel: ev.Kernel, names: Iterable[str]) -> Iterator[tuple[str, str]]:
        """Yield the graph and the name of each Dynamo node that post-grad nodes of a kernel come from."""
        for name in names:
            for origin in self._origins(kernel.graph, kernel.phase, name):
                yield kernel.graph, origin

    def title(self, kernel: ev.Kernel) -> str:
        """Return `▐2▌`, or `▐2▌ backward` if there are several phases."""
        label = self.kernel[kernel_link(kernel)].text
        return f"{label} {kernel.phase}" if self._phases > 1 else label

    def _texts(self, graph: str, phase: str, name: str) -> list[str]:
        node = self._aten.get((graph, phase, name))
        if node is None:
            return []
        origins = self._origins(graph, phase, name)
        written = [self._targets[graph, origin] for origin in origins if (graph, origin) in self._targets]
        return written if written or (node.is_view and node.origins) else [call_name(node)]

    def _origins(self, graph: str, phase: str, name: str) -> tuple[str, ...]:
        """Return the Dynamo nodes that a post-grad node belongs to.

        A kernel that reads the result of a matrix product through a view does not compute the product.
        """
        node = self._aten.get((graph, phase, name))
        if node is None:
            return ()
        if not node.is_view:
            return node.origins
        return tuple(origin for origin in node.origins if (graph, phase, origin) not in self._computed)


def _add(labels: list[KernelLabel], label: KernelLabel) -> None:
    """Add a label unless it is the last one."""
    if not labels or labels[-1] is not label:
        labels.append(label)


@by_identity(2)
def labels_of(
    graphs: tuple[ev.GraphCaptured, ...], aten: tuple[ev.AtenGraph, ...], kernels: tuple[ev.Kernel, ...]
) -> Labels:
    """Return the labels of the code for one target, cached."""
    return Labels(graphs, aten, kernels)


def labels(snapshot: Snapshot) -> Labels:
    """Return the labels of a run, cached."""
    return labels_of(snapshot.graphs, snapshot.code.aten_graphs, snapshot.code.kernels)


def format_tensor(node: ev.FxNode) -> str:
    """Return `f32[64, 512]`, empty if the value is not a tensor."""
    if node.shape is None:
        return ""
    dtype = (node.dtype or "").removeprefix("torch.")
    return f"{dtype}[{', '.join(node.shape)}]"


def format_stride(node: ev.FxNode) -> str:
    """Return `stride [1, 64]`, empty if the tensor is contiguous."""
    return "" if node.contiguous or node.stride is None else f"stride [{', '.join(node.stride)}]"


def format_call(node: ev.FxNode, args: str | None = None) -> str:
    """Return the call with its arguments, or with `args`: `torch.nn.functional.gelu(layer_norm)`."""
    args = node.args if args is None else args
    if node.op == "output":
        return args
    launched = node.user_op is not None and node.user_op.kind == "Triton kernel"
    callee = node.user_op.name if node.user_op and launched else node.target
    return f"{callee}({args})" if node.op.startswith("call_") else node.target


def name_node(node: ev.FxNode) -> str:
    """Return the last name of an op (`gelu`), the name of an input in the source, or `output`."""
    return call_name(node) if node.op.startswith("call_") else node.target


# ---- kernels: the summary row, the rows above the source, and the source, each statement with its ops


LONGEST = 20
"""Characters of an op's name in a list of ops."""

LEAST_NAME = 16
"""Columns that the name of a kernel has at least."""

LANGUAGES = {
    "cpp": "C++", "triton": "Triton", "extern": "extern", "cuda": "CUDA", "rocm": "ROCm", "metal": "Metal",
    "pallas": "Pallas", "cutedsl": "CuTe DSL", "flydsl": "FlyDSL", "halide": "Halide", "nv_universal_gemm": "NVGEMM",
}  # fmt: skip
"""Names of languages; another one is shown as torch's function that compiles it is named."""


def kernel_links(kernel: ev.Kernel) -> tuple[Link, ...]:
    """Return links to the kernel and its source lines."""
    return (kernel_link(kernel), *(line_link(location) for location in kernel.source_lines))


def kernel_row(kernel: ev.Kernel, known: Labels, where: Places, number: int, width: int) -> Row:
    """Return the row of a kernel in the list of kernels."""
    label = known.kernel[kernel_link(kernel)]
    head = (Span(" "), *label.spans, Span(" " * (number - len(label.text) + 1)))
    room = width - sum(map(_cells, head))
    # A kernel of a profile alone has no known ops: its name says the most.
    has_ops = bool(kernel.ops or known.fused(kernel))
    ops = fitting_op_spans(kernel, known, room) if has_ops else (Span(squeezed(kernel.name, room), "dim"),)
    facts = [
        Span("  yours" if is_users(kernel.user_op) else "", "changed"),
        Span(f"  {format_lines(kernel, where)}", "muted"),
        Span(f"  {format_traffic(kernel)}" if format_traffic(kernel) else "", "muted"),
        Span(f"  {LANGUAGES.get(kernel.language, kernel.language)}", "muted"),
        Span(f"  {kernel.name}" if has_ops else "", "dim"),
    ]
    shown, room = [*head, *ops], room - sum(map(_cells, ops))
    for fact in facts:  # those that fit, the most important first
        if _cells(fact) <= room:
            shown.append(fact)
            room -= _cells(fact)
    return Row(
        tuple(shown), kernel_links(kernel), kernel.source_lines[0] if kernel.source_lines else None, copy=kernel.name
    )


def fitting_op_spans(kernel: ev.Kernel, known: Labels, room: int) -> tuple[Span, ...]:
    """Return the labels of as many ops as fit, at least one, and how many more there are."""
    for most in range(len(known.fused(kernel)), 1, -1):
        ops = op_spans(kernel, known, most)
        if sum(map(_cells, ops)) <= room:
            return ops
    return op_spans(kernel, known, 1)


def _cells(span: Span) -> int:
    return cell_len(span.text)


def kernel_heading(
    kernel: ev.Kernel, known: Labels, where: Places, name: str, opened: bool, width: int
) -> Iterator[Row]:
    """Yield the rows above the source of a kernel; the first one is its fold."""
    label = known.kernel[kernel_link(kernel)]
    place = kernel.source_lines[0] if kernel.source_lines else None
    pairs = ((span.text, span.style) for span in label.spans)
    links, room = kernel_links(kernel), width - len(label.text) - 3
    closed = () if opened else fitting_op_spans(kernel, known, room - LEAST_NAME)
    closed = (Span(" "), *closed) if closed else ()
    text = squeezed(kernel.name, max(LEAST_NAME, room - sum(map(_cells, closed))))
    name_of = (f" {text}", "changed" if is_users(kernel.user_op) else "heading")
    yield fold(name, opened, *pairs, name_of, *closed, indent=0, links=links, location=place, copy=kernel.name)
    if not opened:
        return
    verb = "calls " if not kernel.generated else "fuses " if len(known.fused(kernel)) > 1 else "op "
    for index, ops in enumerate(op_lines(kernel, known, width - 3 - len(verb))):
        lead = verb if index == 0 else " " * len(verb)
        yield row((f"   {lead}", "muted"), *ops, links=links, location=place)
    facts = [describe_origin(kernel, where), f"graph {kernel.graph} {kernel.phase}"]
    facts += [format_lines(kernel, where)] if kernel.source_lines else []
    facts += [format_traffic(kernel)] if format_traffic(kernel) else []
    facts += [f"{kernel.flops / 1e6:,.1f} MFLOP"] if kernel.flops else []
    facts += [f"{len(kernel.calls)} calls"] if len(kernel.calls) > 1 else []
    yield from wrapped(" · ".join(facts), width, "muted", indent=3, links=kernel_links(kernel), location=place)
    unknown = kernel.generated and not kernel.lines and not kernel.user_op
    if unknown and (known.statements_known or label.number == 1):  # once if those of all kernels are
        text = "The ops of single statements are unknown; the whole kernel has one color."
        yield from wrapped(text, width, "warn", indent=3)


def op_lines(kernel: ev.Kernel, known: Labels, room: int) -> Iterator[list[Span]]:
    """Yield the labels of all ops in lines of at most `room` cells."""
    line: list[Span] = []
    for label in known.fused(kernel):
        spans = replace(label, text=shortened(label.text, LONGEST)).spans
        if line and sum(map(_cells, (*line, *spans))) + 1 > room:
            yield line
            line = []
        line += [Span(" "), *spans] if line else spans
    if line:
        yield line


def describe_origin(kernel: ev.Kernel, where: Places) -> str:
    """Return the language of a generated kernel, or `your Triton kernel, defined at line 6`."""
    language, user_op = LANGUAGES.get(kernel.language, kernel.language), kernel.user_op
    if user_op is None:
        return language
    if not is_users(user_op):
        return f"{language}, {user_op.kind}"
    place = where.describe(user_op.location) if user_op.location else ""
    return f"{describe_user_op(user_op)}, defined at {place}" if place else describe_user_op(user_op)


def op_spans(kernel: ev.Kernel, known: Labels, most: int | None) -> tuple[Span, ...]:
    """Return the labels of `most` ops, and how many more there are.

    The op of a library call comes before those of its arguments, an op that computes before views and casts.
    """
    fused = known.fused(kernel)
    if most is not None and most < len(fused):
        called = None if kernel.generated else fused[-1]
        fused = tuple(sorted(fused, key=lambda label: (label is not called, label.text in MOVING)))
    shown = fused if most is None else fused[:most]
    short = (replace(label, text=shortened(label.text, LONGEST)) for label in shown)
    spans = [span for label in short for span in (*label.spans, Span(" "))][:-1]
    return (*spans, Span(f" +{len(fused) - len(shown)}", "muted")) if len(fused) > len(shown) else tuple(spans)


def format_traffic(kernel: ev.Kernel) -> str:
    """Return `reads 264 KiB, writes 256 KiB`, empty if unknown."""
    if kernel.bytes_read is None or kernel.bytes_written is None:
        return ""
    return f"reads {size(kernel.bytes_read)}, writes {size(kernel.bytes_written)}"


def format_lines(kernel: ev.Kernel, where: Places) -> str:
    """Return `line 23`, `lines 23, 24, blocks.py:7`; many lines of a file as `blocks.py:7-9, 12`."""
    files: dict[str, list[int]] = {}
    for place in dict.fromkeys(where.abbreviate(location) for location in kernel.source_lines):
        file, _, number = place.rpartition(":")
        files.setdefault(file, []).append(int(number))
    lines = sum(map(len, files.values()))
    if not lines:
        return ""
    return f"line{'s' if lines > 1 else ''} {', '.join(_numbers(file, numbers) for file, numbers in files.items())}"


MOST_LISTED = 4
"""Lines of a file that are listed one by one, in the order of execution."""


def _numbers(file: str, numbers: Sequence[int]) -> str:
    lead = f"{file}:" if file else ""
    if len(numbers) <= MOST_LISTED:
        return ", ".join(f"{lead}{number}" for number in numbers)
    ranges: list[list[int]] = []
    for number in sorted(numbers):
        if ranges and number == ranges[-1][-1] + 1:
            ranges[-1].append(number)
        else:
            ranges.append([number])
    texts = (f"{each[0]}-{each[-1]}" if len(each) > 1 else f"{each[0]}" for each in ranges)
    return f"{lead}{', '.join(texts)}"


WIDEST = 9
"""Maximum width of the label of a statement."""

BAR = "▌"

_HIGHLIGHTED_AS = dict.fromkeys(("cpp", "metal", "cuda", "rocm", "xpu", "halide"), "cpp")
"""Other languages are Python."""


class KernelLines:
    """The rows of the source of one kernel.

    Labels come before the statements, so that a narrow pane shows them. C++ has a part of its indentation, because
    Inductor nests deeply; copying gives the original line.
    """

    def __init__(self, kernel: ev.Kernel, known: Labels, *, narrow: bool = False) -> None:
        """`narrow` for less indentation."""
        self._indentation = 4 if narrow else 2
        self._kernel = kernel
        self._known = known
        self._own = known.kernel[kernel_link(kernel)]
        self._text = highlighted(kernel.source, _HIGHLIGHTED_AS.get(kernel.language, "python"))
        self._from = {line.n: line for line in kernel.lines}
        self._number = len(str(len(self._text.lines)))
        fused = known.fused(kernel)
        several = kernel.lines and len(fused) > 1
        self._wide = min(max((len(label.text) for label in fused), default=0), WIDEST) if several else 0

    def __len__(self) -> int:
        return len(self._text.lines)

    def row(self, index: int) -> Row:
        line = self._from.get(index + 1)
        ops = self._known.ops(self._kernel, line.nodes) if line else ()
        spans = (Span(f" {index + 1:>{self._number}} ", "dim"), *self._label(index, line, ops), *self.code(index))
        place = line.source[0] if line and line.source else None
        return Row(spans, self._links(line), place, copy=self._text.lines[index])

    @property
    def lead(self) -> int:
        """Columns before the code of each row."""
        label = self._wide + 3 if self._wide else 2
        return self._number + 2 + label

    def text(self, index: int) -> str:
        """Return a line as it is in the source."""
        return self._text.lines[index]

    def _label(self, index: int, line: ev.KernelLine | None, ops: tuple[OpLabel, ...]) -> tuple[Span, ...]:
        """Return the ops of a statement as bars and a label in their colors."""
        if not self._kernel.lines:
            return Span(BAR, self._own.style), Span(" ")
        if line is None or not ops:
            return (Span(" " * (self._wide + 3)),) if self._wide else (Span("  "),)
        bars = tuple(Span(BAR, label.style) for label in ops[:2])
        if not self._wide:
            return (*bars[:1], Span(" "))
        text = shortened("+".join(label.text for label in ops), self._wide)
        again = index and self._ops(index) == ops
        style = ops[0].style if again else ops[0].label_style
        return (*bars, Span(text, style), Span(" " * (self._wide - len(text) + 3 - len(bars))))

    def _ops(self, n: int) -> tuple[OpLabel, ...]:
        line = self._from.get(n)
        return self._known.ops(self._kernel, line.nodes) if line else ()

    def code(self, index: int) -> tuple[Span, ...]:
        """Return the code of a row."""
        spans = self._text.raw(index)
        if self._kernel.language != "cpp" or not spans:
            return spans
        line = self._text.lines[index]
        indent = len(line) - len(line.lstrip(" "))
        first = spans[0]
        kept = -(-indent // self._indentation)
        cut = min(indent - kept, len(first.text) - len(first.text.lstrip(" ")))
        return (Span(first.text[cut:], first.style), *spans[1:])

    def _links(self, line: ev.KernelLine | None) -> tuple[Link, ...]:
        """Return links to the post-grad nodes of a statement, or to its kernel if they are unknown."""
        kernel = self._kernel
        if line is None:
            return () if kernel.lines else (kernel_link(kernel),)
        nodes = (aten_link(kernel.graph, kernel.phase, name) for name in line.nodes)
        places = (line_link(location) for location in line.source)
        return (*nodes, *places, kernel_link(kernel), statement_link(kernel, line.n))
