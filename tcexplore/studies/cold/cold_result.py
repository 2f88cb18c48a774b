"""A cold and a warm compile compared: torch's spans, and lookups in caches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tcexplore.session.compile_time import SMALL, CompileSpan, compile_time
from tcexplore.session.snapshot import Snapshot


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
        if max(_seconds(one) or 0.0, _seconds(other) or 0.0) < least:
            continue
        yield SpanPair(depth, " ".join(filter(None, key)), _seconds(one), _seconds(other))
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


def _seconds(span: CompileSpan | None) -> float | None:
    return None if span is None else span.seconds


def lookup_counts(cold: Snapshot, warm: Snapshot | None) -> tuple[LookupCounts, ...]:
    """Return all kinds of lookups in either run."""
    left, right = _counted(cold), _counted(warm)
    return tuple(LookupCounts(*key, left[key], right[key]) for key in dict.fromkeys([*left, *right]))


def _counted(run: Snapshot | None) -> Counter[tuple[str, str, str]]:
    lookups = run.cache_lookups if run is not None else ()
    return Counter((lookup.cache, lookup.outcome, lookup.reason) for lookup in lookups)
