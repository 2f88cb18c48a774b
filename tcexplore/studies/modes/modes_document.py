"""The matrix of modes and backends: a row for each cell, from the start."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from tcexplore.documents.columns import Cell, columns
from tcexplore.documents.configurations import DYNAMIC, describe_configuration
from tcexplore.documents.document import Row, Span
from tcexplore.documents.document_parts import StaticDocument
from tcexplore.documents.prose import BLANK, row, wrapped
from tcexplore.documents.timing.accuracy_rows import ACCURACY_STYLES, format_error
from tcexplore.documents.verdict_marks import LEGEND, format_speedup
from tcexplore.events import Config
from tcexplore.quantities import count, duration, size
from tcexplore.session.links import Link
from tcexplore.session.run_figures import RunFigures
from tcexplore.studies.modes.modes_text import FAILED, conclusions, eager_peak

HEAD = (
    "backend", "mode", "dynamic", "speed-up", "95 % interval", "compiled", "compile", "first call", "peak", "off by",
    "breaks", "graphs", "kernels",
)  # fmt: skip
LEFT = (0, 1, 2)
INTERVAL = HEAD.index("95 % interval")
WIDE = 100
"""Columns from which on there is room for the interval in view."""


class Order(NamedTuple):
    """How the finished cells are sorted; `key` gives less for what comes first, None where it is not known."""

    name: str
    key: Callable[[RunFigures], float | None]


ORDERS = (
    Order("as run", lambda _: None),
    Order("speed-up", lambda cell: -cell.run.timing.speedup if cell.run.timing else None),
    Order("time of a compiled call", lambda cell: cell.run.timing.compiled_us if cell.run.timing else None),
    Order("compile time", lambda cell: cell.compile_s),
    Order("memory at the peak", lambda cell: cell.peak_bytes),
    Order("difference to eager", lambda cell: cell.max_abs),
)


def matrix(
    found: Sequence[RunFigures], waiting: Sequence[Config], under_way: Config | None, others: Sequence[str],
    order: Order,
    width: int = 78,
) -> StaticDocument:  # fmt: skip
    """The document. `waiting` are configurations still to come, the first of them `under_way` if that is not None;
    `others` are backends that could be added."""
    cells = sorted(enumerate(found), key=lambda item: _rank(order, item[1]))
    rows = [_row(cell) for _, cell in cells] + [_to_come(config, running=config == under_way) for config in waiting]
    links = [(Link("cell", "", str(index)),) for index, _ in cells] + [(Link("waiting", "", ""),) for _ in waiting]
    kept = [index for index in range(len(HEAD)) if width >= WIDE or index != INTERVAL]
    fitted = [[shown[index] for index in kept] for shown in rows]
    table = columns([HEAD[index] for index in kept], fitted, links, LEFT) if rows else ()
    below = [
        *_conclusions(found, bool(waiting), width),
        *_reasons(found, width),
        *_others(others, width),
        *_keys(found, order, width),
    ]
    return StaticDocument("", (*table, *below))


def _rank(order: Order, cell: RunFigures) -> float:
    key = order.key(cell)
    return math.inf if key is None and order is not ORDERS[0] else key or 0.0


def _row(cell: RunFigures) -> list[Cell]:
    config, timing, summary = cell.run.config, cell.run.timing, cell.summary
    if cell.failure:
        return [*_named(config), (Span("✖ failed", "error"),), *[()] * (len(HEAD) - 4)]
    accuracy = cell.run.accuracy
    off = "" if cell.max_abs is None else format_error(cell.max_abs)
    return [
        *_named(config),
        (Span(format_speedup(timing), _verdict(timing.verdict)),) if timing else (Span("not timed", "muted"),),
        (Span(f"[{timing.low:.2f}, {timing.high:.2f}]", "interval"),) if timing else (),
        _seconds(timing.compiled_us / 1e6 if timing else None),
        _seconds(cell.compile_s),
        _seconds(cell.first_call_s),
        (Span("" if cell.peak_bytes is None else size(cell.peak_bytes)),),
        (Span(off, ACCURACY_STYLES.get(accuracy.verdict, "warn")),) if accuracy else (),
        (Span(str(summary.breaks), "break" if summary.breaks else ""),),
        (Span(str(summary.graphs)),),
        (Span(f"{summary.kernels}+{summary.extern}" if summary.extern else str(summary.kernels)),),
    ]


def _named(config: Config) -> list[Cell]:
    return [(Span(config.backend, "strong"),), (Span(config.mode),), (Span(DYNAMIC[config.dynamic]),)]


def _verdict(verdict: str) -> str:
    return {"faster": "faster", "slower": "slower", "no difference": "strong"}.get(verdict, "muted")


def _seconds(seconds: float | None) -> Cell:
    return (Span("" if seconds is None else duration(seconds)),)


def _to_come(config: Config, *, running: bool) -> list[Cell]:
    state = Span("◐ running", "running") if running else Span("·", "dim")
    return [*([(Span(span.text, "muted"),) for (span,) in _named(config)]), (state,), *[()] * (len(HEAD) - 4)]


def _conclusions(found: Sequence[RunFigures], more: bool, width: int) -> Iterator[Row]:
    for index, line in enumerate(conclusions(found, more=more)):
        if not index:
            yield BLANK
        yield from wrapped(line, width, "error" if line.startswith(FAILED) else "strong" if not index else "")


def _reasons(found: Sequence[RunFigures], width: int) -> Iterator[Row]:
    for cell in found:
        if cell.failure:
            yield from wrapped(
                f"{describe_configuration(cell.run.config)}: {cell.failure}", width, "error", lead=FAILED
            )


def _others(others: Sequence[str], width: int) -> Iterator[Row]:
    if others:
        yield BLANK
        yield from wrapped(f"{count(len(others), 'other backend')} of this torch: enter runs one too", width, "muted")
        for name in others:
            yield row(("   + ", "key"), name, links=(Link("backend", "", name),))


def _keys(found: Sequence[RunFigures], order: Order, width: int) -> Iterator[Row]:
    yield BLANK
    told = "in the order of the runs" if order is ORDERS[0] else f"sorted by {order.name}"
    legend = [LEGEND, "kernels: own+extern", eager_peak(found), told]
    yield from wrapped(" · ".join(filter(None, legend)), width, "muted")
    yield from wrapped("enter on a row runs your file that way", width, "muted")
