"""A cold compile beside a warm one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tcexplore.documents.columns import columns
from tcexplore.documents.document import Row, Span
from tcexplore.documents.document_parts import StaticDocument
from tcexplore.documents.prose import BLANK, heading, wrapped
from tcexplore.quantities import count, duration
from tcexplore.session.run_figures import RunFigures
from tcexplore.studies.cold.cold_result import looked_up, side_by_side

INTENT = (
    "Your file is run twice with torch's compile caches on, in a folder of their own: cold, the folder is empty; warm, "
    "it has what the cold run left there, as a second start of your program would find it."
)
LEFT_OUT = (
    "What torch does once in a process or on a machine before its first compile is in neither: the worker has done it."
)
OUTCOMES = {"hit": "ok", "miss": "warn", "bypass": "warn"}


def cold(cells: Sequence[RunFigures], *, over: bool, width: int = 78) -> StaticDocument:
    """The document of what there is of both runs."""
    rows = list(wrapped(INTENT, width, "muted"))
    if cells:
        warm = cells[1] if len(cells) > 1 else None
        rows += [BLANK, *_figures(cells[0], warm), *_caches(cells[0], warm), *_tree(cells[0], warm)]
        rows += [BLANK, *wrapped(LEFT_OUT, width, "dim")]
    for name, cell in zip(("cold", "warm"), cells, strict=False):
        if cell.failure:
            rows += wrapped(f"{name}: {cell.failure}", width, "error", lead="✖ ")
    if over and len(cells) < 2:
        rows += wrapped("Stopped before the warm run.", width, "warn")
    return StaticDocument("", tuple(rows))


def _figures(one: RunFigures, other: RunFigures | None) -> Iterator[Row]:
    said = [
        _both("first call", one.first_call_s, other.first_call_s if other else None),
        _both("compiling", one.compile_s, other.compile_s if other else None),
    ]
    yield from columns(("", "cold", "warm", "warm / cold"), said, [(), ()])


def _both(name: str, one: float | None, other: float | None) -> list[tuple[Span, ...]]:
    share = f"{100 * other / one:.0f} %" if one and other is not None else ""
    return [(Span(name),), (Span(_time(one), "strong"),), (Span(_time(other), "strong"),), (Span(share, "muted"),)]


def _time(seconds: float | None) -> str:
    return "" if seconds is None else duration(seconds)


def _caches(one: RunFigures, other: RunFigures | None) -> Iterator[Row]:
    yield BLANK
    yield heading("Caches")
    found = looked_up(one.run, other.run if other else None)
    if not found:
        yield from wrapped("torch tells of no look-up in a cache.", 78, "muted")
        return
    rows = [
        [
            (Span(f"{used.cache} cache"),), (Span(used.outcome, OUTCOMES.get(used.outcome, "")),),
            (Span(_times(used.cold)),), (Span(_times(used.warm)),), (Span(used.reason, "muted"),),
        ]
        for used in found
    ]  # fmt: skip
    yield from columns(("", "", "cold", "warm", ""), rows, [()] * len(rows), left=(0, 1, 4))


def _times(number: int) -> str:
    return f"{number}×" if number else "·"


def _tree(one: RunFigures, other: RunFigures | None) -> Iterator[Row]:
    spans = side_by_side(one.run, other.run if other else None)
    rows = [
        [(Span("  " * span.depth + span.name),), (Span(_absent(span.cold)),), (Span(_absent(span.warm)),)]
        for span in spans
    ]
    if rows:
        yield BLANK
        yield heading("Where compiling spent its time", count(len(rows), "span"))
        yield from columns(("", "cold", "warm"), rows, [()] * len(rows))


def _absent(seconds: float | None) -> str:
    return "·" if seconds is None else duration(seconds)
