"""One color and one number for each kernel, one color for each op, the same in every pane."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tcexplore import events as ev
from tcexplore.documents.document import Span
from tcexplore.documents.memo import by_identity
from tcexplore.session import Snapshot
from tcexplore.session.links import Link, kernel_link

EXTERN = "✕"


@dataclass(frozen=True, slots=True)
class KernelLabel:
    """`number` counts generated and extern kernels each from 1, in the order of the calls."""

    number: int
    extern: bool
    link: Link

    @property
    def text(self) -> str:
        return f"{EXTERN}{self.number}" if self.extern else f"▐{self.number}▌"

    @property
    def style(self) -> str:
        """The style of text that belongs to the kernel."""
        return "extern" if self.extern else f"kernel.{self.number - 1}"

    @property
    def spans(self) -> tuple[Span, ...]:
        if self.extern:
            return (Span(self.text, "extern"),)
        return _pill(str(self.number), self.number - 1)

    @property
    def words(self) -> str:
        """`kernel 1`, `extern 2`."""
        return f"{'extern' if self.extern else 'kernel'} {self.number}"


def _pill(text: str, color: int) -> tuple[Span, ...]:
    edge = f"kernel.{color}"
    return Span("▐", edge), Span(text, f"label.{color}"), Span("▌", edge)


@dataclass(frozen=True, slots=True)
class OpLabel:
    """An op as a pane names it (`layer_norm`), and its color."""

    text: str
    color: int

    @property
    def spans(self) -> tuple[Span, ...]:
        return _pill(self.text, self.color)

    @property
    def style(self) -> str:
        return f"kernel.{self.color}"


def op_name(target: str) -> str:
    """`gelu` of `torch.nn.functional.gelu`, `mul` of `aten.mul.Tensor` and of `operator.mul`."""
    parts = target.split(".")
    if parts[0] in ("aten", "prims", "inductor") and len(parts) > 1:
        return parts[1].removeprefix("native_")
    return parts[-1]


class Labels:
    """The labels of one run. `kernel` has them by kernel link, `of_node` and `of_line` the kernels of a Dynamo node
    and of a line of the user's, `of_aten` those of a node below Dynamo's, by graph, phase and name; `ops` the labels
    of a post-grad node: what the user wrote, where torch tells."""

    def __init__(
        self, graphs: tuple[ev.GraphCaptured, ...], aten: tuple[ev.AtenGraph, ...], kernels: tuple[ev.Kernel, ...]
    ) -> None:
        self.kernel: dict[Link, KernelLabel] = {}
        self.of_node: dict[tuple[str, str], list[KernelLabel]] = {}
        self.of_line: dict[tuple[str, int], list[KernelLabel]] = {}
        self.of_aten: dict[tuple[str, str, str], list[KernelLabel]] = {}
        self._targets = {(graph.graph, node.name): op_name(node.target) for graph in graphs for node in graph.nodes}
        self._aten = {(g.graph, g.phase, node.name): node for g in aten for node in g.nodes if node.op != "placeholder"}
        self._colors: dict[str, int] = {}
        self._phases = len({kernel.phase for kernel in kernels})
        for extern in (False, True):
            ours = dict.fromkeys(kernel_link(k) for k in kernels if (k.language == "extern") == extern)
            self.kernel |= {link: KernelLabel(n, extern, link) for n, link in enumerate(ours, 1)}
        for kernel in kernels:
            self._join(kernel)
            self.fused(kernel)

    def _join(self, kernel: ev.Kernel) -> None:
        label = self.kernel[kernel_link(kernel)]
        for location in kernel.source_lines:
            _add(self.of_line.setdefault((location.file, location.line), []), label)
        for name in kernel.nodes:
            _add(self.of_aten.setdefault((kernel.graph, kernel.phase, name), []), label)
            node = self._aten.get((kernel.graph, kernel.phase, name))
            for origin in node.origins if node else ():
                _add(self.of_node.setdefault((kernel.graph, origin), []), label)

    def ops(self, graph: str, phase: str, names: Iterable[str]) -> tuple[OpLabel, ...]:
        """The labels of these post-grad nodes, each once, in their order; what torch does not know has none."""
        texts = (text for name in names for text in self._texts(graph, phase, name))
        return tuple(self._op(text) for text in dict.fromkeys(texts))

    def fused(self, kernel: ev.Kernel) -> tuple[OpLabel, ...]:
        """The labels of all ops of a kernel; its ATen ops where their nodes are not known."""
        known = self.ops(kernel.graph, kernel.phase, kernel.nodes)
        return known or tuple(self._op(op_name(op)) for op in dict.fromkeys(kernel.ops))

    def title(self, kernel: ev.Kernel) -> str:
        """`▐2▌`, and `▐2▌ backward` where there are several phases."""
        label = self.kernel[kernel_link(kernel)].text
        return f"{label} {kernel.phase}" if self._phases > 1 else label

    def _texts(self, graph: str, phase: str, name: str) -> list[str]:
        node = self._aten.get((graph, phase, name))
        if node is None:
            return []
        written = [self._targets[graph, origin] for origin in node.origins if (graph, origin) in self._targets]
        return written or [op_name(node.target)]

    def _op(self, text: str) -> OpLabel:
        return OpLabel(text, self._colors.setdefault(text, len(self._colors)))


def _add(labels: list[KernelLabel], label: KernelLabel) -> None:
    """Kernels come one after another: one that is there already is the last."""
    if not labels or labels[-1] is not label:
        labels.append(label)


_labels = by_identity(2)(Labels)


def labels(snapshot: Snapshot) -> Labels:
    """The labels of a run, made once for each state of its graphs and kernels."""
    return _labels(snapshot.graphs, snapshot.code.aten_graphs, snapshot.code.kernels)
