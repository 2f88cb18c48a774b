"""The cold compile study: a run with empty compile caches, and one with what the first left in them.

Each is in a new process, as two starts of the program would be.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from tcexplore.documents.document import Document, Row, StaticDocument
from tcexplore.documents.locations import places
from tcexplore.documents.prose import BLANK, Column, heading, table, wrapped
from tcexplore.documents.timing.cache_miss_rows import cache_miss_rows
from tcexplore.events import Event
from tcexplore.quantities import count, duration
from tcexplore.report.json_records import fields
from tcexplore.session import Snapshot
from tcexplore.session.cache_misses import cache_misses
from tcexplore.session.compile_time import SMALL, CompileSpan, compile_time
from tcexplore.session.economics import RunFigures, cold_compile
from tcexplore.studies.runs import Runs, failure_status
from tcexplore.studies.study import Announce, Study, StudyState
from tcexplore.studies.study_json import Fields, run_fields

INTENT = (
    "Your file runs twice, each time in a new process, with torch's compile caches in a temporary folder. In the cold "
    "run they are empty; the warm run uses the caches of the cold run, as the next start of your program would."
)
LEFT_OUT = (
    "Both times include loading the compiler, and neither has importing torch. The C++ header that torch precompiles "
    "is not among its caches: it is made once per machine."
)
OUTCOME_STYLES = {"hit": "ok", "miss": "warn", "bypass": "warn"}


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
        merged[key] = span if known is None else known.join(span)
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


# ---- document

FIGURES: tuple[Column[tuple[str, float | None, float | None]], ...] = (
    Column("", lambda figure: figure[0], left=True),
    Column("cold", lambda figure: figure[1], duration, "strong"),
    Column("warm", lambda figure: figure[2], duration, "strong"),
    Column("warm / cold", lambda figure: _share(*figure[1:]), style="muted"),
)
LOOKUPS: tuple[Column[LookupCounts], ...] = (
    Column("", lambda lookups: f"{lookups.cache} cache", left=True),
    Column("", lambda lookups: lookups.outcome, style=lambda one: OUTCOME_STYLES.get(one.outcome, ""), left=True),
    Column("cold", lambda lookups: _times(lookups.cold)),
    Column("warm", lambda lookups: _times(lookups.warm)),
    Column("", lambda lookups: lookups.reason, style="muted", left=True),
)
SPANS: tuple[Column[SpanPair], ...] = (
    Column("", lambda pair: "  " * pair.depth + pair.name, left=True),
    Column("cold", lambda pair: _seconds(pair.cold)),
    Column("warm", lambda pair: _seconds(pair.warm)),
)


def _share(cold: float | None, warm: float | None) -> str:
    return f"{100 * warm / cold:.0f}%" if cold and warm is not None else ""


def _times(number: int) -> str:
    return f"{number}×" if number else "·"


def _seconds(seconds: float | None) -> str:
    return "·" if seconds is None else duration(seconds)


def _rows(cold: RunFigures, warm: RunFigures | None, width: int) -> Iterator[Row]:
    figures = [
        ("first call", cold.first_call_s, warm.first_call_s if warm else None),
        ("compiling", cold.compile_s, warm.compile_s if warm else None),
    ]
    yield from table(FIGURES, [figure for figure in figures if figure[1:] != (None, None)])
    yield BLANK
    yield heading("Caches")
    if counts := lookup_counts(cold.run, warm.run if warm else None):
        yield from table(LOOKUPS, counts)
    else:
        yield from wrapped("torch reports no cache lookups.", width, "muted")
    if warm is not None:
        yield from cache_miss_rows(cache_misses(warm.run, cold.run), places(warm.run.file), width)
    if pairs := span_pairs(cold.run, warm.run if warm else None):
        yield BLANK
        yield heading("Compile time", count(len(pairs), "span"))
        yield from table(SPANS, pairs)


SIDES = ("cold", "warm")
"""The runs, in their order."""


State = StudyState[None, RunFigures]


class ColdStudy(Study[None, RunFigures]):
    """Results are the cold run and the warm run, both untimed."""

    name = "cold"
    title = "cold compile"
    studies_scripts = True
    description = "A compile with empty caches, and one with warm caches."

    async def plan(self, state: State, runs: Runs, announce: Announce) -> AsyncGenerator[RunFigures, None]:
        """Run twice with one folder of caches."""
        async with runs.temporary_folder("caches") as folder:
            job = replace(state.job, caches=folder, cold=True, time_for=0.0, examine=False)
            runs.steps.plan(SIDES)
            for side in SIDES:
                announce(side)
                yield RunFigures((await runs.run(job, state.timeout)).snapshot)

    def document(self, state: State, width: int = 78) -> Document:
        results = state.results
        rows = list(wrapped(INTENT, width, "muted"))
        if results:
            rows += [BLANK, *_rows(results[0], results[1] if len(results) > 1 else None, width)]
            rows += [BLANK, *wrapped(LEFT_OUT, width, "dim")]
        for name, result in zip(SIDES, results, strict=False):
            if result.failure:
                rows += wrapped(f"{name}: {result.failure}", width, "error", lead="✖ ")
        if state.over and len(results) < 2:
            rows += wrapped("Stopped before the warm run.", width, "warn")
        return StaticDocument("", tuple(rows))

    def facts(self, state: State) -> tuple[Event, ...]:
        runs = [result.run for result in state.results]
        cold = cold_compile(runs[0], runs[1] if len(runs) > 1 else None) if runs else None
        return () if cold is None else (cold,)

    def fields(self, state: State) -> Fields:
        sides = {side: run_fields(result) for side, result in zip(SIDES, state.results, strict=False)}
        runs = [result.run for result in state.results]
        misses = cache_misses(runs[1], runs[0]) if len(runs) > 1 else ()
        return {**sides, "warm_misses": [fields("cache_miss", miss) for miss in misses]}

    def exit_status(self, state: State) -> int:
        return max((failure_status(result.run) for result in state.results), default=0)


STUDY = ColdStudy()
