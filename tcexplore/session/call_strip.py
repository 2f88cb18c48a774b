"""The compiled calls one by one: which of them compiled, which compiled again and why, from which on nothing does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tcexplore.events import CallMade, Recompiled
from tcexplore.session.snapshot import Snapshot

COMPILE, RECOMPILE, WARM = "compile", "recompile", "warm"


@dataclass(frozen=True, slots=True)
class CompiledCall:
    """One compiled call; `number` counts from 1. `why` are the guards that failed, where it compiled again."""

    number: int
    kind: str
    seconds: float
    causes: tuple[Recompiled, ...] = ()


def compiled_calls(snapshot: Snapshot) -> tuple[CompiledCall, ...]:
    """Every compiled call of a run, in order."""
    calls = [call for call in snapshot.calls if call.variant == "compiled"]
    return tuple(_made(call, number, snapshot) for number, call in enumerate(calls, 1))


def _made(call: CallMade, number: int, snapshot: Snapshot) -> CompiledCall:
    why = tuple(_first_of_each(again for again in snapshot.recompiles if again.graph in call.graphs))
    what = RECOMPILE if why else COMPILE if call.compiles else WARM
    return CompiledCall(number, what, call.seconds, why)


def _first_of_each(found: Iterator[Recompiled]) -> Iterator[Recompiled]:
    """The guard of the newest entry: each older entry of the same frame has one more that failed."""
    seen = set()
    for again in found:
        if again.graph not in seen:
            seen.add(again.graph)
            yield again
