"""A cold compile beside a warm one: the same tree of torch's spans, and what became of each look-up in a cache."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tcexplore.session.compile_time import SMALL, CompileSpan, compile_time
from tcexplore.session.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Both:
    """A span of either side, None where a side has no such span."""

    depth: int
    name: str
    cold: float | None
    warm: float | None


class LookedUp(NamedTuple):
    """A cache, what became of look-ups in it, the reason that torch gives, and how many there were on each side."""

    cache: str
    outcome: str
    reason: str
    cold: int
    warm: int


def side_by_side(cold: Snapshot, warm: Snapshot | None) -> tuple[Both, ...]:
    """The spans that matter, those of the cold side in its order, then what only the warm one has."""
    left, right = compile_time(cold), compile_time(warm).roots if warm is not None else ()
    return tuple(_level(left.roots, right, 0, SMALL * left.seconds))


def _level(cold: Sequence[CompileSpan], warm: Sequence[CompileSpan], depth: int, least: float) -> Iterator[Both]:
    left, right = _named(cold, depth), _named(warm, depth)
    for key in dict.fromkeys([*left, *right]):
        one, other = left.get(key), right.get(key)
        if max(_seconds(one) or 0.0, _seconds(other) or 0.0) < least:
            continue
        yield Both(depth, " ".join(filter(None, key)), _seconds(one), _seconds(other))
        yield from _level(one.children if one else (), other.children if other else (), depth + 1, least)


def _named(spans: Iterable[CompileSpan], depth: int) -> dict[tuple[str, str], CompileSpan]:
    """By graph, at the root, and name; spans of one name as one, for the compiler's files are many."""
    named: dict[tuple[str, str], CompileSpan] = {}
    for span in spans:
        key = ((span.graph or "") if not depth else "", span.name)
        known = named.get(key)
        named[key] = span if known is None else CompileSpan(
            span.name, known.seconds + span.seconds, span.graph, (*known.children, *span.children),
            known.count + span.count
        )  # fmt: skip
    return named


def _seconds(span: CompileSpan | None) -> float | None:
    return None if span is None else span.seconds


def looked_up(cold: Snapshot, warm: Snapshot | None) -> tuple[LookedUp, ...]:
    """Every kind of look-up that either side made."""
    left, right = _counted(cold), _counted(warm)
    return tuple(LookedUp(*key, left[key], right[key]) for key in dict.fromkeys([*left, *right]))


def _counted(run: Snapshot | None) -> Counter[tuple[str, str, str]]:
    return (
        Counter((used.cache, used.outcome, used.reason) for used in run.cache_lookups) if run is not None else Counter()
    )
