"""Where each kernel stands under the roof of the device: bytes, FLOPs, the bound, and the time that it implies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tcexplore.documents.code.achieved_rows import Measured, achieved_rows
from tcexplore.documents.code.kernel_labels import links
from tcexplore.documents.code.roofline_plot import HIGHEST, LOWEST, PlotMark, Roof, draw
from tcexplore.documents.code.target_notes import target_rows
from tcexplore.documents.columns import columns
from tcexplore.documents.document import Row, Span
from tcexplore.documents.document_parts import Parts, fixed
from tcexplore.documents.empty_states import empty_part
from tcexplore.documents.labels import EXTERN, Labels, labels
from tcexplore.documents.prose import BLANK, row, wrapped
from tcexplore.events import Kernel, RooflinePoint
from tcexplore.quantities import count, duration, size
from tcexplore.session import Snapshot
from tcexplore.session.achieved_rates import achieved
from tcexplore.session.code import NATIVE
from tcexplore.session.kernel_facts import machine
from tcexplore.session.links import Link, kernel_link

TEACHES = (
    "Each kernel's place under the roof of the GPU that T chooses will stand here: what it moves and computes, whether "
    "memory or arithmetic bounds it, and the least time that the bound allows: an estimate, nothing measured."
)

HEAD = ("kernel", "at least", "bound", "moves", "FLOP", "FLOP/byte", "of the time")

HEIGHT, WIDEST = 9, 64
"""Cells of the plot, its width at most."""

Standing = tuple[Kernel, RooflinePoint]

Reached = Mapping[Link, float | None]
"""The FLOP/s that kernels were measured to reach."""


def roofline_document(snapshot: Snapshot, toggled: frozenset[str] = frozenset(), width: int = 78) -> Parts:
    """The document of the view."""
    known = labels(snapshot)
    found = [(kernel, point) for kernel in snapshot.code.kernels if (point := machine(snapshot.code, kernel).point)]
    if not found:
        return Parts("", [fixed(target_rows(snapshot, toggled, width)), empty_part(snapshot, width, TEACHES)])
    total = sum(point.implied_us for _, point in found)
    table = columns(HEAD, [_cells(*each, total, known) for each in found], [links(k) for k, _ in found], left=(0, 2))
    where = f" for {snapshot.target}" if snapshot.target != NATIVE else ""
    measured = [(kernel, at) for kernel, point in found if (at := achieved(snapshot, kernel, point))]
    title = f"at least {duration(total / 1e6)} in all{where} · estimate"
    if measured:
        title += f" · measured {duration(sum(at.timed.us for _, at in measured) / 1e6)}"
    parts = (
        target_rows(snapshot, toggled, width), table, achieved_rows(measured, known, width),
        _plots(found, measured, known, width), _whose(found, width),
    )  # fmt: skip
    return Parts(title, [fixed(part) for part in parts])


def _cells(kernel: Kernel, point: RooflinePoint, total: float, known: Labels) -> Sequence[tuple[Span, ...]]:
    return (
        known.kernel[kernel_link(kernel)].spans,
        (Span("< 0.01 µs" if point.implied_us < 0.01 else duration(point.implied_us / 1e6), "strong"),),
        (Span(point.bound, "warn" if point.bound == "compute" else ""),),
        (Span(size(point.bytes)),),
        (Span(_flops(point.flops)),),
        (Span("–" if point.intensity is None else f"{point.intensity:.2f}"),),
        (Span(f"{point.implied_us / total:.0%}" if total else "–", "number"),),
    )


def _flops(flops: int | None) -> str:
    return "–" if flops is None else f"{flops / 1e6:,.1f} M"


def _plots(found: Sequence[Standing], measured: Sequence[Measured], known: Labels, width: int) -> Iterator[Row]:
    """A plot for each rate of arithmetic that a kernel with counted FLOPs could reach."""
    counted = [(kernel, point) for kernel, point in found if point.intensity]
    for precision in dict.fromkeys(point.precision for _, point in counted):
        same = [(kernel, point) for kernel, point in counted if point.precision == precision]
        yield BLANK
        at = {kernel_link(kernel): reach.compute for kernel, reach in measured}
        yield from _plot(same, at, known, min(width - 4, WIDEST))


def _plot(found: Sequence[Standing], at: Reached, known: Labels, cells: int) -> Iterator[Row]:
    point = found[0][1]
    marks = [_mark(kernel, p, at, known) for kernel, p in found]
    roof = Roof(point.memory_peak, point.peak)
    rates = f"  {point.memory_peak / 1e12:.2f} TB/s · {point.peak / 1e12:.1f} TFLOP/s in {point.precision}"
    yield row((" roof", "heading"), (rates, "muted"))
    for line in draw(roof, marks, cells, HEIGHT):
        yield Row((Span("  "), *(Span(*piece) for piece in line)))
    left, right = f"{LOWEST:g}", f"{HIGHEST:,.0f} FLOP/byte"
    yield row(("  ", ""), (f"{left}{right:>{cells - len(left)}}", "dim"))


def _mark(kernel: Kernel, point: RooflinePoint, at: Reached, known: Labels) -> PlotMark:
    label = known.kernel[kernel_link(kernel)]
    sign = EXTERN if label.extern else str(label.number) if label.number < 10 else "●"
    return PlotMark(point.intensity or 0.0, sign, label.style, at.get(kernel_link(kernel)))


def _whose(found: Sequence[Standing], width: int) -> Iterator[Row]:
    yield BLANK
    uncounted = sum(point.flops is None for _, point in found)
    if uncounted:
        said = f"torch counts no FLOPs of {count(uncounted, 'kernel')}: only what they move bounds them here."
        yield from wrapped(said, width, "dim")
    said = (
        "The roof is an estimate, nothing measured: the bytes are the scheduler's, each buffer once, the FLOPs torch's "
        "own count, the rates the vendor's peaks. A launch takes some microseconds more; caches make a kernel faster."
    )
    yield from wrapped(said, width, "dim")
