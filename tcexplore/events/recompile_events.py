"""Symbolic sizes of a graph, and the answer to "would these inputs recompile?"."""

from __future__ import annotations

from dataclasses import dataclass

from tcexplore.events.base import Event, Location
from tcexplore.events.dynamo_events import Recompiled


@dataclass(frozen=True, slots=True, kw_only=True)
class SymbolSource:
    """What a symbol stands for: dimension `dim` of the tensor `name`, or the number `name` itself (`dim` is None).

    `what` is `size`, `stride` or `value`.
    """

    name: str
    kind: str
    dim: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SymbolCondition:
    """A guard on symbolic sizes, readable, and the user's line that made it necessary."""

    code: str
    location: Location | None = None
    user_code: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Specialization:
    """A place where a symbol became the number `value`: the guard or decision `reason`, the user's line."""

    value: str
    reason: str
    location: Location | None = None
    user_code: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Symbol:
    """A symbolic size of one graph.

    `name` is torch's (`s77`, `u0`); `unbacked` ones stand for data that is not known while compiling, and come from
    `location`. `hint` is the value that it was traced with, empty where there is none; `lower` and `upper` its range
    as torch ended up with it (`int_oo` is no bound). Several `sources` are sizes that were equal when it was compiled
    (duck shaping).
    """

    name: str
    unbacked: bool = False
    hint: str = ""
    lower: str = ""
    upper: str = ""
    sources: tuple[SymbolSource, ...] = ()
    location: Location | None = None
    user_code: str = ""
    specialized: tuple[Specialization, ...] = ()
    conditions: tuple[SymbolCondition, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ZeroOneSpecialization:
    """A dynamic dimension that got no symbol, because its size was 0 or 1 when it was compiled."""

    source: SymbolSource
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphSymbols(Event):
    """The symbols of one graph, once its guards are made; none where all of its sizes are numbers."""

    graph: str
    symbols: tuple[Symbol, ...]
    zero_one: tuple[ZeroOneSpecialization, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryAnswer:
    """One cache entry: whether it `matches`, else the guard that would fail first."""

    graph: str
    matches: bool
    failed: Recompiled | None = None


ANSWER_VERDICTS = ("matches", "recompiles", "limit", "raises", "eager", "unknown")
"""`limit`: would run eagerly, the recompile limit is reached; `raises`: would be an error for that reason; `eager`:
nothing is compiled of this frame; `unknown`: its inputs come out of running."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameAnswer:
    """The answer for one frame.

    `graph` is the entry that would match, empty where none does; `entries` are those that torch would try, in its
    order. `dynamic` are the dimensions and numbers (`x.size()[0]`) that would be symbols in the new graph; `note` says
    what else is to know.
    """

    number: str
    verdict: str
    frame: Location | None = None
    resumed: bool = False
    graph: str = ""
    entries: tuple[EntryAnswer, ...] = ()
    dynamic: tuple[str, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecompileAnswer(Event):
    """The answer to the question of this `number`. `inputs` as they were understood; `problem` why there is none.

    `region` is the region of a script that was asked.
    """

    number: int
    inputs: tuple[str, ...]
    region: int | None = None
    frames: tuple[FrameAnswer, ...] = ()
    problem: str = ""
