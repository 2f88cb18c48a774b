"""The roofline view: bytes, FLOPs, bound and least time of each kernel, measured rates, and the plot."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeVar

from tcexplore.documents.document import Parts, Row, Span, fixed
from tcexplore.documents.labels import EXTERN, Labels, kernel_links, labels
from tcexplore.documents.module_folds import kernel_groups
from tcexplore.documents.prose import BLANK, Column, Spans, heading, row, table, wrapped
from tcexplore.documents.timing.device_rows import format_rate
from tcexplore.events import Kernel, RooflinePoint
from tcexplore.quantities import count, duration, size
from tcexplore.session import Snapshot
from tcexplore.session.kernel_facts import Achieved, achieved, kernel_facts
from tcexplore.session.links import Link, kernel_link

LOWEST, HIGHEST = 0.01, 10_000.0
"""FLOP per byte at the two ends of the axis."""


SLOW = 0.5
"""Share of the roof below which a kernel is marked."""

Measured = tuple[Kernel, Achieved]


HEIGHT, WIDEST = 9, 64
"""Height and maximum width of the plot."""

KernelPoint = tuple[Kernel, RooflinePoint]

Fact = TypeVar("Fact")

Kernels = tuple[Kernel, ...]

Points = tuple[Kernels, list[RooflinePoint]]
"""Kernels of equal layers, and the bounds of each."""

Reaches = tuple[Kernels, list[Achieved]]
"""Kernels of equal layers, and what each reaches."""

Reached = Mapping[Link, float | None]
"""Measured FLOP/s of kernels."""


def roofline_section(snapshot: Snapshot, toggled: frozenset[str], width: int) -> Parts:  # noqa: ARG001
    """Return the bounds of the kernels, what they reach of them, and plots."""
    known = labels(snapshot)
    points = [
        (kernel, point) for kernel in snapshot.code.kernels if (point := kernel_facts(snapshot.code, kernel).roofline)
    ]
    if not points:
        return Parts("", [])
    total = sum(point.implied_us for _, point in points)
    rows = _alike(snapshot, dict(points))
    bounds = table(_bound_columns(total, known), rows, [_links(kernels) for kernels, _ in rows])
    reached = ((kernel, achieved(snapshot, kernel, kernel_facts(snapshot.code, kernel))) for kernel, _ in points)
    measured = [(kernel, at) for kernel, at in reached if at]
    title = f"at least {duration(total / 1e6)} in total{snapshot.for_target} · estimate"
    if measured:
        title += f" · measured {duration(sum(at.measured.us for _, at in measured) / 1e6)}"
    parts = (
        bounds, _measured_rows(measured, _alike(snapshot, dict(measured)), known, width),
        _plots(points, measured, known, width), _source_rows(points, width),
    )  # fmt: skip
    return Parts(title, [fixed(part) for part in parts])


def _alike(snapshot: Snapshot, facts: Mapping[Kernel, Fact]) -> list[tuple[Kernels, list[Fact]]]:
    """Return the facts of kernels, those of equal layers together."""
    groups = [group.kernels for group in kernel_groups(snapshot, snapshot.code)] or [(kernel,) for kernel in facts]
    known = ([kernel for kernel in group if kernel in facts] for group in groups)
    return [(tuple(kernels), [facts[kernel] for kernel in kernels]) for kernels in known if kernels]


def _links(kernels: Kernels) -> tuple[Link, ...]:
    return tuple(dict.fromkeys(link for kernel in kernels for link in kernel_links(kernel)))


def _label(kernels: Kernels, known: Labels) -> Spans:
    """Return the label of the first of equal kernels, and how often a call launches them."""
    spans = known.kernel[kernel_link(kernels[0])].spans
    launches = sum(max(1, len(kernel.calls)) for kernel in kernels)
    return (*spans, Span(f" ×{launches}", "number")) if launches > 1 else tuple(spans)


def _bound_columns(total: float, known: Labels) -> tuple[Column[Points], ...]:
    def least(it: Points) -> float:
        return sum(point.implied_us for point in it[1])

    return (
        Column("kernel", lambda it: _label(it[0], known), left=True),
        Column("at least", least, _least, "strong"),
        Column("of the time", lambda it: f"{least(it) / total:.0%}" if total else "–", style="number"),
        Column("bound", lambda it: it[1][0].bound, left=True,
               style=lambda it: "warn" if it[1][0].bound == "compute" else ""),
        Column("moves", lambda it: sum(point.bytes for point in it[1]), size),
        Column("FLOP", lambda it: _flops(_sum(point.flops for point in it[1]))),
        Column("FLOP/byte", lambda it: "–" if it[1][0].intensity is None else f"{it[1][0].intensity:.2f}"),
    )  # fmt: skip


def _sum(counts: Iterable[int | None]) -> int | None:
    """Return the sum; None if a count is not known."""
    known = list(counts)
    return None if None in known else sum(count for count in known if count is not None)


def _least(us: float) -> str:
    return "< 0.01 µs" if us < 0.01 else duration(us / 1e6)


def _flops(flops: int | None) -> str:
    return "–" if flops is None else f"{flops / 1e6:,.1f} M"


def _plots(points: Sequence[KernelPoint], measured: Sequence[Measured], known: Labels, width: int) -> Iterator[Row]:
    """Yield a plot for each precision of kernels with counted FLOPs."""
    ran = {kernel_link(kernel): reach for kernel, reach in measured}
    counted = [
        (kernel, _as_measured(point, ran.get(kernel_link(kernel)))) for kernel, point in points if point.intensity
    ]
    for precision in dict.fromkeys(point.precision for _, point in counted):
        same = [(kernel, point) for kernel, point in counted if point.precision == precision]
        yield BLANK
        at = {kernel: reach.compute.rate for kernel, reach in ran.items() if reach.compute.share is not None}
        yield from _plot(same, at, known, min(width - 4, WIDEST))


def _as_measured(point: RooflinePoint, reached: Achieved | None) -> RooflinePoint:
    """Return the point with the peak of the arithmetic that ran, if it is known."""
    if reached is None or reached.peak is None:
        return point
    return replace(point, precision=reached.arithmetic, peak=reached.peak)


def _plot(points: Sequence[KernelPoint], at: Reached, known: Labels, cells: int) -> Iterator[Row]:
    point = points[0][1]
    marks = [_mark(kernel, p, at, known) for kernel, p in points]
    roof = Roof(point.memory_peak, point.peak)
    rates = f"  {point.memory_peak / 1e12:.2f} TB/s · {point.peak / 1e12:.1f} TFLOP/s in {point.precision}"
    yield row((" roof", "heading"), (rates, "muted"))
    for line in draw_roofline(roof, marks, cells, HEIGHT):
        yield Row((Span("  "), *(Span(*piece) for piece in line)))
    left, right = f"{LOWEST:g}", f"{HIGHEST:,.0f} FLOP/byte"
    yield row(("  ", ""), (f"{left}{right:>{cells - len(left)}}", "dim"))


def _mark(kernel: Kernel, point: RooflinePoint, at: Reached, known: Labels) -> PlotMark:
    label = known.kernel[kernel_link(kernel)]
    sign = EXTERN if label.extern else str(label.number) if label.number < 10 else "●"
    return PlotMark(point.intensity or 0.0, sign, label.style, at.get(kernel_link(kernel)))


def _source_rows(points: Sequence[KernelPoint], width: int) -> Iterator[Row]:
    yield BLANK
    uncounted = sum(point.flops is None for _, point in points)
    if uncounted:
        text = f"torch counts no FLOPs for {count(uncounted, 'kernel')}, so only memory bounds them here."
        yield from wrapped(text, width, "dim")
    text = (
        "The roof is an estimate from the scheduler's bytes, each buffer once, torch's FLOP count and the vendor's "
        "peaks. A launch adds a few microseconds; caches make kernels faster."
    )
    yield from wrapped(text, width, "dim")


def _measured_rows(measured: Sequence[Measured], rows: Sequence[Reaches], known: Labels, width: int) -> Iterator[Row]:
    """Yield a table of the measured kernels, nothing if there are none."""
    if not measured:
        return
    yield BLANK
    yield heading("Measured")
    yield from table(_achieved_columns(known), rows, [_links(kernels) for kernels, _ in rows])
    text = (
        "Measured: device time under torch's profiler, the mean of a few calls with warm caches. `of the roof` is "
        "the least time of the bound divided by this time; kernels of a few microseconds stay far below it."
    )
    yield from wrapped(text, width, "dim")
    if any(reach.measured.device != "cpu" for _, reach in measured):
        yield from _reasons(rows, known, width)


def _reasons(rows: Sequence[Reaches], known: Labels, width: int) -> Iterator[Row]:
    """Yield why kernels have no share of a peak, each reason once."""
    without: dict[tuple[str, str], list[str]] = {}
    for kernels, reaches in rows:
        reasons = Counter(
            (peak, share.reason)
            for reach in reaches
            for peak, share in (("memory", reach.memory), ("arithmetic", reach.compute))
            if share.reason
        )
        for each, number in reasons.items():
            name = f"{known.title(kernels[0])}{f' ×{number}' if number > 1 else ''}"
            without.setdefault(each, []).append(name)
    for (peak, reason), names in without.items():
        yield from wrapped(f"No share of the peak of {peak} for {', '.join(names)}: {reason}.", width, "dim")


def _achieved_columns(known: Labels) -> tuple[Column[Reaches], ...]:
    def mean(value: Callable[[Achieved], float | None]) -> Callable[[Reaches], float | None]:
        """Return the mean of a rate or share over the time of the kernels of a row; None if one has none."""

        def of_row(it: Reaches) -> float | None:
            weighted = [(at.measured.us, each) for at in it[1] if (each := value(at)) is not None]
            whole = sum(us for us, _ in weighted)
            return sum(us * each for us, each in weighted) / whole if len(weighted) == len(it[1]) else None

        return of_row

    memory, compute = mean(lambda at: at.memory.rate), mean(lambda at: at.compute.rate)
    roof = mean(lambda at: at.bound_share)
    return (
        Column("kernel", lambda it: _label(it[0], known), left=True),
        Column("measured", lambda it: sum(at.measured.us for at in it[1]) / 1e6, duration, "strong"),
        Column("of the roof", lambda it: _share(roof(it)),
               style=lambda it: "warn" if (roof(it) or 1.0) < SLOW else "number"),
        Column("launches", _launches),
        Column("memory", lambda it: _format_rate(memory(it), "B/s")),
        Column("of peak", lambda it: _share(mean(lambda at: at.memory.share)(it)), style="number"),
        Column("arithmetic", lambda it: _format_rate(compute(it), "FLOP/s")),
        Column("of peak", lambda it: _share(mean(lambda at: at.compute.share)(it)), style="number"),
    )  # fmt: skip


def _launches(it: Reaches) -> str:
    replayed = all(at.measured.replayed for at in it[1])
    return f"{sum(at.measured.launches for at in it[1])}{' replayed' if replayed else ''}"


def _format_rate(rate: float | None, unit: str) -> str:
    return format_rate(rate, unit) if rate else "–"


def _share(share: float | None) -> str:
    return "–" if share is None else f"{share:.0%}"


class Roof(NamedTuple):
    """Peak rates: bytes/s of the memory, FLOP/s of the arithmetic units."""

    memory: float
    compute: float

    def at(self, intensity: float) -> float:
        """Return the attainable FLOP/s for an intensity in FLOP per byte."""
        return min(self.memory * intensity, self.compute)


class PlotMark(NamedTuple):
    """A kernel in the plot: its intensity, its sign, and its measured FLOP/s, if known."""

    intensity: float
    sign: str
    style: str
    reached: float | None = None


Piece = tuple[str, str]
"""Text and its style."""


def draw_roofline(roof: Roof, marks: Sequence[PlotMark], width: int, height: int) -> Iterator[list[Piece]]:
    """Yield `height` rows of `width` cells from the top: the roof as a line, each mark at its intensity.

    The height of a mark is the measured rate; a mark without one is on the roof.
    """
    columns = [LOWEST * (HIGHEST / LOWEST) ** (x / (width - 1)) for x in range(width)]
    top, bottom = math.log(roof.compute), math.log(roof.at(LOWEST))

    def level(rate: float) -> int:
        share = (math.log(max(rate, 1.0)) - bottom) / (top - bottom)
        return min(max(round(share * (height - 1)), 0), height - 1)

    heights = [level(roof.at(intensity)) for intensity in columns]
    at = {}
    for mark in marks:
        x = _column(mark.intensity, width)
        at[x, level(mark.reached) if mark.reached else heights[x]] = mark
    for y in reversed(range(height)):
        yield [_cell(at.get((x, y)), heights, x, y) for x in range(width)]


def _column(intensity: float, width: int) -> int:
    share = math.log(max(intensity, LOWEST) / LOWEST) / math.log(HIGHEST / LOWEST)
    return min(round(share * (width - 1)), width - 1)


def _cell(mark: PlotMark | None, heights: Sequence[int], x: int, y: int) -> Piece:
    if mark is not None:
        return mark.sign, mark.style
    if heights[x] != y:
        return " ", ""
    return ("─" if heights[x] == heights[-1] else "╱"), "rule"
