"""Labels: one color and one number for each kernel, the same in every pane, and short texts about nodes.

Ops have the color of their kernel.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tcexplore import events as ev
from tcexplore.documents.document import Span, by_identity
from tcexplore.session import Snapshot
from tcexplore.session.links import Link, kernel_link

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
        """Return `kernel 1`, `extern 2`."""
        return f"{'extern' if self.extern else 'kernel'} {self.number}"


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
            node = self._aten.get((kernel.graph, kernel.phase, name))
            for origin in node.origins if node else ():
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

    def title(self, kernel: ev.Kernel) -> str:
        """Return `▐2▌`, or `▐2▌ backward` if there are several phases."""
        label = self.kernel[kernel_link(kernel)].text
        return f"{label} {kernel.phase}" if self._phases > 1 else label

    def _texts(self, graph: str, phase: str, name: str) -> list[str]:
        node = self._aten.get((graph, phase, name))
        if node is None:
            return []
        written = [self._targets[graph, origin] for origin in node.origins if (graph, origin) in self._targets]
        return written or [call_name(node)]


def _add(labels: list[KernelLabel], label: KernelLabel) -> None:
    """Add a label unless it is the last one."""
    if not labels or labels[-1] is not label:
        labels.append(label)


_labels = by_identity(2)(Labels)


def labels(snapshot: Snapshot) -> Labels:
    """Return the labels of a run, cached."""
    return _labels(snapshot.graphs, snapshot.code.aten_graphs, snapshot.code.kernels)


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
