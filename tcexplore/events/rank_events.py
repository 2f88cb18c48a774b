"""The ranks of a job side by side, and the first difference between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from tcexplore.events.base import Event, Location

DivergenceKind = Literal[
    "library version", "missing rank", "config", "environment", "branch", "shape", "dtype", "break", "guard",
    "collective order", "cache", "autotuning", "unfinished rank",
]  # fmt: skip
"""What differs first: `branch`: the traced code. `environment`: threads, precision and other global settings."""


Severity = Literal["error", "warning"]

WARNINGS: tuple[DivergenceKind, ...] = ("cache", "autotuning")
"""Kinds of divergence that ranks of a correct program may have."""

ENDED_EARLY = "tcexplore_rank_ended_early"
"""Name of the trace record in which a fake rank says why it ended before the end of the script."""

MOST_RANKS_NAMED = 12

ProcessState = Literal["runs", "waits", "stopped", "ended"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RankRow:
    """Figures of one rank."""

    rank: int
    host: str | None = None
    """Folder of its trace, if the ranks have several; None if unknown: torch does not write the host's name."""
    pid: int = 0
    phase: str = ""
    """Phase under way at the end of the trace; empty between compiles."""
    graph: str = ""
    """Compile id of the phase."""
    span: str = ""
    """torch's name of the innermost work under way, with its kernel if torch names it. Only while a job is followed."""
    span_began: float | None = None
    """Start of that work as a timestamp."""
    place: Location | None = None
    """The user's line of the compile under way, or of what the process does between compiles."""
    call: str = ""
    """Call of generated code or of `torch.distributed` in which the process is between compiles, if it is in one."""
    waits: bool | None = None
    """Whether the process uses no CPU; None if unknown."""
    state: ProcessState | None = None
    """What a process of this machine does; None if unknown."""
    since: float | None = None
    """Time of its last progress as a timestamp: a record, or work of its main thread. None if unknown."""
    stack: tuple[Location, ...] = ()
    """Python stack of its main thread, innermost first; empty if unknown."""
    error: str = ""
    """The exception that ended it; empty if there was none, or it is unknown."""
    last_record: float | None = None
    """Time at which a followed trace last grew, as a timestamp; None for a trace that is complete."""
    compile_ids: tuple[str, ...] = ()
    """In the order of the trace."""
    graphs: int = 0
    """Graphs of Dynamo, one for each compile that has one: those of attempts that torch gave up are not counted."""
    restarts: int = 0
    """Attempts that torch gave up, to trace a frame again."""
    breaks: int = 0
    """Reports of graph breaks: nested frames and repeated compiles report one break several times."""
    break_places: int = 0
    """Distinct graph breaks, as they are counted everywhere else."""
    recompiles: int = 0
    cache_hits: int = 0
    cache_misses: int = 0
    cache_bypasses: int = 0
    compile_s: float = 0.0
    """Seconds of all compiles, backward included."""
    offset_s: float | None = None
    """Median delay of its compiles after those of the first rank: clock skew and lag together."""
    group: int = 0
    """Ranks with the same number compiled the same."""


HangKind = Literal["not reached", "other collective", "all wait", "waits"]
"""`not reached`: some ranks wait in a collective for others. `other collective`: they wait in different ones.
`all wait`: in the same one. `waits`: a rank waits outside of any collective."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hang:
    """Ranks that make no progress, and those that hold them up."""

    kind: HangKind
    ranks: tuple[int, ...]
    """Ranks that hold up the others."""
    waiting: tuple[int, ...] = ()
    """Ranks that wait for them."""
    call: str = ""
    """The collective in which these wait."""
    location: Location | None = None
    """The user's line of that collective."""
    doing: str = ""
    """What the ranks do that hold up the others: `it waits`, `it is stopped`, `it compiles 0/1`."""
    place: Location | None = None
    """The user's line of what they do."""
    since: float = 0.0
    """Time of their last progress as a timestamp; 0 if it is unknown."""
    waiting_since: float = 0.0
    """Time of the last progress of the ranks that wait."""
    severity: Severity = "error"
    """`warning` if the ranks that hold up the others still work."""

    def seconds(self, now: float) -> float:
        """Return how long these ranks have made no progress; the others, if these still work."""
        began = self.since if self.severity == "error" and self.since else self.waiting_since
        return max(0.0, now - began) if began else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DivergenceSide:
    """The side of some ranks at the first difference."""

    ranks: tuple[int, ...]
    text: str
    location: Location | None = None
    values: tuple[str, ...] = ()
    """What the condition read on these ranks and not on the others, by their guards: `self.training == True`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Divergence:
    """The first difference between ranks, and its cause."""

    kind: DivergenceKind
    ranks: tuple[int, ...]
    """Ranks that differ from most; those of both sides if as many ranks are on each."""
    compile_id: str | None = None
    """None if the difference is not in one compile."""
    location: Location | None = None
    """The user's line: of the condition by which the ranks go apart if it is known, else of the first difference."""
    detail: str = ""
    sides: tuple[DivergenceSide, ...] = ()
    condition: str = ""
    """The condition at the location, as the user wrote it; empty if none is known."""

    @property
    def severity(self) -> Severity:
        """`warning` for what the ranks need not have in common: caches and autotuning."""
        return "warning" if self.kind in WARNINGS else "error"

    @property
    def subject(self) -> str:
        """`rank 1 first differs`, `ranks 0 and 1 first differ`, `rank 1 ended early`, `rank 2 cannot be compared`."""
        return f"{name_ranks(self.ranks)} {self.verb}"

    @property
    def verb(self) -> str:
        """What the ranks do: `first differs`."""
        if self.kind == "unfinished rank":
            return "ended early"
        if self.kind == "missing rank":
            return "cannot be compared"
        return "first differs" if len(self.ranks) == 1 else "first differ"


@dataclass(frozen=True, slots=True, kw_only=True)
class RanksCompared(Event):
    """The ranks of a job side by side; it replaces the last one."""

    rows: tuple[RankRow, ...]
    divergence: Divergence | None = None
    """None if the ranks agree."""
    hang: Hang | None = None
    """None if the job makes progress, or runs on other machines."""
    further: tuple[Divergence, ...] = ()
    """The first difference of each other group of ranks, if there are more than two groups."""
    notes: tuple[str, ...] = ()
    """Sentences: what was tolerated, clock skew, unreadable files."""
    ended_early: tuple[str, ...] = ()
    """Sentences: why ranks ended before the end of the script. Only what they compiled before is compared."""
    partial: bool = False
    """Whether the job is still running: the verdict covers only what all ranks have compiled so far."""
    unread: int = 0
    """Files that were not read; the notes say why. Then no rank is called missing, nor do all agree."""

    @property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """Ranks that agree, the largest group first."""
        numbers = sorted({row.group for row in self.rows})
        groups = [tuple(row.rank for row in self.rows if row.group == number) for number in numbers]
        return tuple(sorted(groups, key=lambda group: (-len(group), group)))


def name_ranks(ranks: Sequence[int]) -> str:
    """Return `rank 3`, `ranks 1 and 3`, `ranks 0 to 2, 5`, `ranks 0, 2, 3`."""
    if len(ranks) == 2:
        return f"ranks {ranks[0]} and {ranks[1]}"
    spans: list[list[int]] = []
    for number in ranks:
        if spans and number == spans[-1][-1] + 1:
            spans[-1].append(number)
        else:
            spans.append([number])
    texts = [f"{span[0]} to {span[-1]}" if len(span) > 2 else ", ".join(map(str, span)) for span in spans]
    cut = [*texts[:MOST_RANKS_NAMED], *(["…"] if len(texts) > MOST_RANKS_NAMED else [])]
    return f"rank{'' if len(ranks) == 1 else 's'} {', '.join(cut)}"
