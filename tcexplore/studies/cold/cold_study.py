"""The cold compile study: a run with empty compile caches, and a run with what the first one left in them."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from tcexplore.documents.document import Document, Row, Span, StaticDocument
from tcexplore.documents.prose import BLANK, columns, heading, wrapped
from tcexplore.quantities import count, duration
from tcexplore.session.compile_time import SMALL, CompileSpan, compile_time
from tcexplore.session.economics import RunFigures
from tcexplore.session.snapshot import Snapshot
from tcexplore.studies.study import Announce, Study, StudyState
from tcexplore.studies.study_json import Fields, run_fields
from tcexplore.studies.study_runs import Runs, failure_status

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


# ---- comparison


@dataclass(frozen=True, slots=True)
class SpanPair:
    """Seconds of one span in both runs; None in a run without it."""

    depth: int
    name: str
    cold: float | None
    warm: float | None


class LookupCounts(NamedTuple):
    """The number of lookups in one cache with one outcome in each run, and torch's reason."""

    cache: str
    outcome: str
    reason: str
    cold: int
    warm: int


def span_pairs(cold: Snapshot, warm: Snapshot | None) -> tuple[SpanPair, ...]:
    """Return the large spans: those of the cold run in its order, then those that only the warm run has."""
    left, right = compile_time(cold), compile_time(warm).roots if warm is not None else ()
    return tuple(_pairs(left.roots, right, 0, SMALL * left.seconds))


def _pairs(cold: Sequence[CompileSpan], warm: Sequence[CompileSpan], depth: int, least: float) -> Iterator[SpanPair]:
    left, right = _merged(cold, depth), _merged(warm, depth)
    for key in dict.fromkeys([*left, *right]):
        one, other = left.get(key), right.get(key)
        if max(_spent(one) or 0.0, _spent(other) or 0.0) < least:
            continue
        yield SpanPair(depth, " ".join(filter(None, key)), _spent(one), _spent(other))
        yield from _pairs(one.children if one else (), other.children if other else (), depth + 1, least)


def _merged(spans: Iterable[CompileSpan], depth: int) -> dict[tuple[str, str], CompileSpan]:
    """Merge spans of the same name (torch has one for each C++ file), at the root those of the same graph."""
    merged: dict[tuple[str, str], CompileSpan] = {}
    for span in spans:
        key = ((span.graph or "") if not depth else "", span.name)
        known = merged.get(key)
        merged[key] = span if known is None else CompileSpan(
            span.name, known.seconds + span.seconds, span.graph, (*known.children, *span.children),
            known.count + span.count,
        )  # fmt: skip
    return merged


def _spent(span: CompileSpan | None) -> float | None:
    return None if span is None else span.seconds


def lookup_counts(cold: Snapshot, warm: Snapshot | None) -> tuple[LookupCounts, ...]:
    """Return all kinds of lookups in either run."""
    left, right = _counted(cold), _counted(warm)
    return tuple(LookupCounts(*key, left[key], right[key]) for key in dict.fromkeys([*left, *right]))


def _counted(run: Snapshot | None) -> Counter[tuple[str, str, str]]:
    lookups = run.cache_lookups if run is not None else ()
    return Counter((lookup.cache, lookup.outcome, lookup.reason) for lookup in lookups)


SIDES = ("cold", "warm")
"""The runs, in their order."""


class ColdStudy(Study[None, RunFigures]):
    """Results are the cold run and the warm run, both untimed."""

    name = "cold"
    title = "cold compile"
    studies_scripts = True
    description = "A compile with empty caches, and one with warm caches."

    def options_from(self, answers: Sequence[str]) -> None:  # noqa: ARG002
        return None

    async def plan(
        self, state: StudyState[None, RunFigures], runs: Runs, announce: Announce
    ) -> AsyncGenerator[RunFigures, None]:
        """Run twice with one folder of caches."""
        async with runs.temporary_folder("caches") as folder:
            job = replace(state.job, caches=folder, time_for=0.0, examine=False)
            runs.steps.plan(SIDES)
            for side in SIDES:
                announce(side)
                yield RunFigures((await runs.run(job, state.timeout)).snapshot)

    def document(
        self,
        state: StudyState[None, RunFigures],
        width: int = 78,
        toggled: frozenset[str] = frozenset(),  # noqa: ARG002
    ) -> Document:
        return cold_document(state.results, over=state.over, width=width)

    def fields(self, state: StudyState[None, RunFigures]) -> Fields:
        return {side: run_fields(result) for side, result in zip(SIDES, state.results, strict=False)}

    def exit_status(self, state: StudyState[None, RunFigures]) -> int:
        return max((failure_status(result.run) for result in state.results), default=0)


STUDY = ColdStudy()
