"""What a script that compiles things itself does with them: its compiled regions, their calls, how long it ran.

A **region** is what one use of `torch.compile` made: a function, a module, an optimizer's step, or one backward graph
of compiled autograd. Regions are numbered from 0 in the order in which they were made.
"""

from __future__ import annotations

from dataclasses import dataclass

from tcexplore.events.base import Event, Location


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionCreated(Event):
    """`torch.compile` was used.

    `kind` is `function`, `method`, `module`, `module in place`, `optimizer` or `compiled autograd`; `location` the
    user's line that asked for it, None where no line of theirs did.
    """

    region: int
    name: str
    kind: str
    location: Location | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionGraph(Event):
    """Dynamo began to compile the graph with this compile id while this region was the innermost one called."""

    region: int
    graph: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BackwardCaptured(Event):
    """Compiled autograd found no capture of a backward that it could use again, and makes the one with the number
    `backward`, as in `!2/5/0`. `reason` is torch's own sentence."""

    backward: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionCompiled(Event):
    """A call of a region that compiled something. `call` counts from 1; `at` is when it began, in seconds since the job
    arrived, and `seconds` how long it took, the call itself included; `graphs` are the compile ids, and `inputs` the
    arguments (`f32[64, 512]`), empty where nobody can ask about them."""

    region: int
    call: int
    at: float
    seconds: float
    graphs: tuple[str, ...]
    inputs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionCalls(Event):
    """All calls of a region so far; each one replaces the last, so that many calls take no more room than one.

    A warm call is one that compiled nothing. `median_us`, `low_us` and `high_us` are the median and the 10th and 90th
    percentile of the newest `sampled` warm calls, in microseconds until the call returned; None before there is one.
    `entered` counts the compiled graphs that the calls ran, `resumed` those of them that go on behind a graph break,
    both None where this torch gives no way to count; `uncompiled` the calls that ran no graph at all, and `raised`
    those that ended in an exception.
    `activity` has the number of calls that began in each `bin_s` seconds since the job arrived.
    """

    region: int
    calls: int
    warm: int
    seconds: float
    sampled: int = 0
    median_us: float | None = None
    low_us: float | None = None
    high_us: float | None = None
    entered: int | None = None
    resumed: int | None = None
    uncompiled: int = 0
    raised: int = 0
    bin_s: float = 1.0
    activity: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptEnded(Event):
    """The script is over after `seconds`; `limit` is set where it was ended because it may be followed no longer."""

    seconds: float
    time_limit: float | None = None
