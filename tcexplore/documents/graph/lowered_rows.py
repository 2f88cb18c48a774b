"""The rows of one op: what it is called, the ATen nodes that it became, their statements."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tcexplore.documents.code.kernel_lines import KernelLines
from tcexplore.documents.document import Row, Span
from tcexplore.documents.graph.graph_rows import kernel_spans
from tcexplore.documents.labels import Labels
from tcexplore.documents.location_text import Places
from tcexplore.documents.memo import by_identity
from tcexplore.documents.node_text import format_call, format_tensor, name_node
from tcexplore.documents.prose import fold, row
from tcexplore.events import Kernel
from tcexplore.quantities import count
from tcexplore.session.decomposition import Lowered, Op, Statement, counted
from tcexplore.session.links import aten_link, kernel_link, line_link, node_link


class Lowering:
    """Builds rows."""

    def __init__(self, known: Labels, where: Places, toggled: frozenset[str]) -> None:
        self._known = known
        self._where = where
        self._toggled = toggled

    def is_open(self, name: str, *, at_first: bool = False) -> bool:
        """Whether this fold is open."""
        return (name in self._toggled) != at_first

    def op(self, found: Op) -> Iterator[Row]:
        """The op under its line, and below it what it became."""
        if found.node is None:
            yield row(("   without a Dynamo op that torch names", "muted"))
            yield from self._nodes(found, "no op")
            return
        node = found.node
        name = f"op {found.graph} {node.name}"
        opened = self.is_open(name, at_first=True)
        module = f"  {node.module}" if node.module else ""
        total = counted([found])
        became = f"  → {count(total['nodes'], 'ATen op')}" if found.lowered else "  torch names no ATen op of it"
        places = (line_link(node.location),) if node.location else ()
        yield fold(
            name, opened, (name_node(node), "node"), (module, "dim"), (f"  {format_tensor(node)}", "shape"), (became, "muted"),
            (f"  {found.graph}", "dim"), indent=2, links=(node_link(found.graph, node.name), *places),
            location=node.location, copy=f"{node.name} = {format_call(node)}",
        )  # fmt: skip
        if opened:
            yield from self._nodes(found, name)

    def _nodes(self, found: Op, name: str) -> Iterator[Row]:
        phases = {low.phase for low in found.lowered}
        for low in found.lowered:
            yield from self._lowered(low, name, several=len(phases) > 1)

    def _lowered(self, low: Lowered, under: str, *, several: bool) -> Iterator[Row]:
        node, name = low.node, f"{under} {low.phase} {low.node.name}"
        phase = (f"{low.phase:<9}" if several else "", "muted")
        link = aten_link(low.graph, low.phase, node.name)
        kernels = tuple(kernel_link(kernel) for kernel in low.kernels)
        shown = [self._known.kernel[kernel] for kernel in kernels]
        spans = (
            phase, (f"{node.name} ", "node"), *kernel_spans(shown), (f"  {format_tensor(node)}", "shape"),
            (f"  {format_call(node)}", "target"), (f"  {self._fate(low)}", "muted"),
        )  # fmt: skip
        more = {"links": (link, *kernels), "location": node.location, "copy": f"{node.name} = {format_call(node)}"}
        if not low.statements:
            yield row(("      ", ""), *spans, **more)
            return
        opened = self.is_open(name)
        yield fold(name, opened, *spans, indent=4, **more)
        if opened:
            yield from (_statement(statement, self._known) for statement in low.statements)

    @staticmethod
    def _fate(low: Lowered) -> str:
        if low.statements:
            return count(len(low.statements), "statement")
        if any(kernel.language == "extern" for kernel in low.kernels):
            return "an extern call"
        return "" if low.kernels else "no statement of its own"


def _statement(statement: Statement, known: Labels) -> Row:
    made = _rows(statement.kernel, known).row(statement.n - 1)
    return Row((Span("       "), *_trimmed(made.spans)), made.links, made.location, copy=made.copy)


def _trimmed(spans: Iterable[Span]) -> Iterator[Span]:
    """The statement without its indentation: it stands here on its own."""
    begun = False
    for span in spans:
        code = span.style.startswith("code.")
        yield Span(span.text.lstrip(" "), span.style) if code and not begun else span
        begun = begun or code


@by_identity(512)
def _rows(kernel: Kernel, known: Labels) -> KernelLines:
    return KernelLines(kernel, known)
