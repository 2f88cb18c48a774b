"""The cold compile study as a document."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tcexplore.documents.columns import columns
from tcexplore.documents.document import Row, Span
from tcexplore.documents.document_parts import StaticDocument
from tcexplore.documents.prose import BLANK, heading, wrapped
from tcexplore.quantities import count, duration
from tcexplore.session.run_summary import RunFigures
from tcexplore.studies.cold.cold_result import lookup_counts, span_pairs

INTENT = (
    "Your file runs twice with torch's compile caches in a temporary folder. In the cold run they are empty; the warm "
    "run uses the caches of the cold run, as the next start of your program would."
)
LEFT_OUT = (
    "Neither time includes what torch does once per process or machine before the first compile: the worker has done "
    "it already."
)
OUTCOME_STYLES = {"hit": "ok", "miss": "warn", "bypass": "warn"}


def cold_document(results: Sequence[RunFigures], *, over: bool, width: int = 78) -> StaticDocument:
    """Return the document of the runs so far."""
    rows = list(wrapped(INTENT, width, "muted"))
    if results:
        warm = results[1] if len(results) > 1 else None
        rows += [BLANK, *_figures(results[0], warm), *_caches(results[0], warm, width), *_spans(results[0], warm)]
        rows += [BLANK, *wrapped(LEFT_OUT, width, "dim")]
    for name, result in zip(("cold", "warm"), results, strict=False):
        if result.failure:
            rows += wrapped(f"{name}: {result.failure}", width, "error", lead="✖ ")
    if over and len(results) < 2:
        rows += wrapped("Stopped before the warm run.", width, "warn")
    return StaticDocument("", tuple(rows))


def _figures(cold: RunFigures, warm: RunFigures | None) -> Iterator[Row]:
    rows = [
        _figure("first call", cold.first_call_s, warm.first_call_s if warm else None),
        _figure("compiling", cold.compile_s, warm.compile_s if warm else None),
    ]
    yield from columns(("", "cold", "warm", "warm / cold"), rows, [(), ()])


def _figure(name: str, cold: float | None, warm: float | None) -> list[tuple[Span, ...]]:
    share = f"{100 * warm / cold:.0f}%" if cold and warm is not None else ""
    seconds = ("" if value is None else duration(value) for value in (cold, warm))
    return [(Span(name),), *((Span(text, "strong"),) for text in seconds), (Span(share, "muted"),)]


def _caches(cold: RunFigures, warm: RunFigures | None, width: int) -> Iterator[Row]:
    yield BLANK
    yield heading("Caches")
    counts = lookup_counts(cold.run, warm.run if warm else None)
    if not counts:
        yield from wrapped("torch reports no cache lookups.", width, "muted")
        return
    rows = [
        [
            (Span(f"{lookups.cache} cache"),), (Span(lookups.outcome, OUTCOME_STYLES.get(lookups.outcome, "")),),
            (Span(_times(lookups.cold)),), (Span(_times(lookups.warm)),), (Span(lookups.reason, "muted"),),
        ]
        for lookups in counts
    ]  # fmt: skip
    yield from columns(("", "", "cold", "warm", ""), rows, [()] * len(rows), left=(0, 1, 4))


def _times(number: int) -> str:
    return f"{number}×" if number else "·"


def _spans(cold: RunFigures, warm: RunFigures | None) -> Iterator[Row]:
    pairs = span_pairs(cold.run, warm.run if warm else None)
    rows = [
        [(Span("  " * pair.depth + pair.name),), (Span(_seconds(pair.cold)),), (Span(_seconds(pair.warm)),)]
        for pair in pairs
    ]
    if rows:
        yield BLANK
        yield heading("Compile time", count(len(rows), "span"))
        yield from columns(("", "cold", "warm"), rows, [()] * len(rows))


def _seconds(seconds: float | None) -> str:
    return "·" if seconds is None else duration(seconds)
