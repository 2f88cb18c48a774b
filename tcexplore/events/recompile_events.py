"""Symbolic sizes of a graph, and the answers of the recompile check."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tcexplore.events.base import Event, Location
from tcexplore.events.dynamo_events import Recompiled


@dataclass(frozen=True, slots=True, kw_only=True)
class SymbolSource:
    """The value of a symbol: the size of a dimension of the tensor `name`, or the number `name`."""

    name: str
    kind: Literal["size", "stride", "value"]
    dim: int | None = None
    """The dimension of a tensor, None for a number."""

    @property
    def expression(self) -> str:
        """The value in torch's guards: `x.size()[0]`, or the name of a number."""
        return self.name if self.kind == "value" else f"{self.name}.{self.kind}()[{self.dim}]"


@dataclass(frozen=True, slots=True, kw_only=True)
class SymbolCondition:
    """A guard on symbolic sizes."""

    code: str
    location: Location | None = None
    """The line of user code that required it."""
    user_code: str = ""
    library_place: str = ""
    """What required it if no line of user code did: `_inductor/codegen/cpp.py:2273 in need_use_acc_helper`, or that it
    is of a graph from torch's cache, whose compile is over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Specialization:
    """A place where a symbol was specialized to a number."""

    value: str
    reason: str
    """The guard or decision."""
    location: Location | None = None
    user_code: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Symbol:
    """A symbolic size of one graph."""

    name: str
    """torch's name: `s77`, `u0`."""
    unbacked: bool = False
    """Its value is unknown at compile time."""
    hint: str = ""
    """Value that it was traced with; empty for none."""
    lower: str = ""
    """Range at the end of the compile; `int_oo` means unbounded."""
    upper: str = ""
    sources: tuple[SymbolSource, ...] = ()
    """Several: sizes that were equal at compile time (duck shaping)."""
    location: Location | None = None
    """Origin of an unbacked symbol."""
    user_code: str = ""
    specialized: tuple[Specialization, ...] = ()
    conditions: tuple[SymbolCondition, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ZeroOneSpecialization:
    """A dynamic dimension that got no symbol because its size was 0 or 1 at compile time."""

    source: SymbolSource
    value: str


RecompileChangeKind = Literal["mark_dynamic", "mark_unbacked", "dynamic", "tensor", "attribute", "unspec_int"]
"""`tensor`: an argument, `attribute`: an attribute of a module becomes a tensor. `unspec_int`: the setting
`torch._dynamo.config.allow_unspec_int_on_nn_module`."""


@dataclass(frozen=True, slots=True)
class RecompileChange:
    """A change that might avoid recompiles."""

    kind: RecompileChangeKind
    name: str = ""
    """Argument or attribute; empty for `dynamic`."""
    dim: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecompileFixTried(Event):
    """The calls repeated with changes, compiled with Dynamo only."""

    changes: tuple[RecompileChange, ...]
    """Several: all of them together."""
    avoids: tuple[str, ...] = ()
    """Compile ids of the recompiles that did not happen."""
    graphs_before: int = 0
    """Compiles of the unchanged calls, recompiles included."""
    graphs_after: int | None = None
    """None if the calls failed."""
    problem: str = ""
    """Why the calls failed, or what they broke; empty if nothing did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueRecompile:
    """Code after a graph break that compiled again because the value that broke the graph was another one."""

    frame: Location | None
    """The resume function; its line is that of the break."""
    call: int
    """Number of the call with other values, from 1."""
    seconds: float
    """Of that call, in which several functions may have compiled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherValuesTried(Event):
    """The first call repeated with other values in its tensors, of the same sizes, in a copy of the process."""

    calls: int
    """Calls with other values, each with new ones."""
    recompiles: tuple[ValueRecompile, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphSymbols(Event):
    """Symbols of one graph, from its guards; empty if all of its sizes are numbers."""

    graph: str
    symbols: tuple[Symbol, ...]
    zero_one: tuple[ZeroOneSpecialization, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryAnswer:
    """The check of one cache entry."""

    graph: str
    matches: bool
    failed: Recompiled | None = None
    """The guard that fails first, None if the entry matches."""


AnswerVerdict = Literal["matches", "recompiles", "limit", "raises", "eager", "not entered", "unknown"]
"""`limit`: runs eagerly because the recompile limit is reached. `raises`: raises an error for the same reason. `eager`:
nothing in this frame is compiled. `not entered`: a call with the values of the nearest one does not enter this frame.
`unknown`: its inputs are not known, as only a call computes them."""

NO_MATCH: tuple[AnswerVerdict, ...] = ("raises", "recompiles", "limit")
"""Verdicts on a compiled frame of which no entry matches, the gravest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameAnswer:
    """The answer for one frame."""

    number: str
    verdict: AnswerVerdict
    frame: Location | None = None
    resumed: bool = False
    """Whether this is a resume function after a graph break."""
    graph: str = ""
    """The entry that matches, empty if none does."""
    entries: tuple[EntryAnswer, ...] = ()
    """The entries in the order in which torch tries them."""
    dynamic: tuple[str, ...] = ()
    """The sizes and numbers (`x.size()[0]`) that are symbols in the new graph."""
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecompileAnswer(Event):
    """The answer to the `RecompileQuery` of this `number`."""

    number: int
    inputs: tuple[str, ...]
    """The inputs as they were parsed."""
    region: int | None = None
    """The checked region of a script."""
    frames: tuple[FrameAnswer, ...] = ()
    problem: str = ""
    """Why there is no answer."""
    changed_with: tuple[str, ...] = ()
    """Inputs whose sizes were changed with those that were asked for: the call raises otherwise."""
    with_equal_sizes: tuple[str, ...] = ()
    """All inputs as they would be if equal sizes were changed together, where the call works without that; it may fail
    once it is compiled, as with an attention mask that eager code leaves out."""
    asked: tuple[str, ...] = ()
    """The inputs as the query has them."""
