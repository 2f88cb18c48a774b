"""Compiled regions of a script in words."""

from __future__ import annotations

from collections.abc import Iterator

from tcexplore.documents.calls_text import describe_failed_guard
from tcexplore.events import RegionCalls, ScriptFollowed
from tcexplore.quantities import count, duration
from tcexplore.session.timeline import BACKWARD, BACKWARD_AGAIN, COMPILE, RECOMPILE, CompileMark, RegionLane, Timeline

_DID = {
    COMPILE: "compiled", RECOMPILE: "compiled again", BACKWARD: "its backward compiled",
    BACKWARD_AGAIN: "its backward compiled again",
}  # fmt: skip


def summarize_timeline(found: Timeline) -> str:
    """`3 regions · 1,004 calls · 5 compiles · 2 recompiles, 2.01 s`."""
    marks = [mark for lane in found.lanes for mark in lane.marks if mark.call is not None]
    again = [mark for mark in marks if mark.again]
    parts = [count(len(found.lanes), "region"), count(found.calls, "call")]
    if first := len(marks) - len(again):
        parts.append(f"{count(first, 'compile')}, {duration(sum(mark.seconds for mark in marks if not mark.again))}")
    if again:
        parts.append(f"{count(len(again), 'recompile')}, {duration(sum(mark.seconds for mark in again))}")
    return " · ".join(parts)


def describe_ending(told: ScriptFollowed | None) -> str:
    """How the script ended; empty while it runs."""
    if told is None:
        return ""
    if told.limit is None:
        return f"the script ran for {duration(told.seconds)}"
    return f"ended after {told.limit:g} s: --follow S follows a script for S seconds, 0 until it ends by itself"


def region_figures(lane: RegionLane) -> Iterator[str]:
    """What the calls of a region came to, a part each."""
    seen = lane.seen
    if seen is None:
        yield "not called"
        return
    yield count(seen.calls, "call")
    for again, noun in ((False, "compile"), (True, "recompile")):
        if marks := [mark for mark in lane.marks if mark.again is again and mark.call is not None]:
            yield f"{count(len(marks), noun)} {duration(sum(mark.seconds for mark in marks))}"
    if backward := [mark for mark in lane.marks if mark.call is None]:
        yield f"{count(len(backward), 'backward')} compiled {duration(sum(mark.seconds for mark in backward))}"
    if seen.median_us is not None:
        yield format_warm_call(seen)


def format_warm_call(seen: RegionCalls) -> str:
    """`warm 84.1 µs (80.0 µs to 92.0 µs)`."""
    low, median, high = (duration((us or 0.0) / 1e6) for us in (seen.low_us, seen.median_us, seen.high_us))
    return f"warm {median} ({low} to {high})" if seen.sampled > 1 else f"warm {median}"


def graph_figures(seen: RegionCalls) -> Iterator[str]:
    """What the calls ran: how many graphs each, behind breaks, or none at all."""
    if seen.entered is not None and seen.entered:
        each = seen.entered / seen.calls
        yield f"{each:.3g} {'graph' if each == 1 else 'graphs'} a call"
        if seen.resumed:
            yield f"{count(seen.resumed, 'entry') if seen.resumed == 1 else f'{seen.resumed:,} entries'} behind a break"
    if seen.uncompiled:
        yield f"{count(seen.uncompiled, 'call')} ran no graph: {'it' if seen.uncompiled == 1 else 'they'} ran eagerly"
    if seen.raised:
        yield f"{count(seen.raised, 'call')} raised"


def suggest_region_fix(lane: RegionLane) -> str:
    """What spares an optimizer's step its recompiles, where it is the learning rate that they are from."""
    rates = (again.kind == "float" and again.what.endswith("['lr']") for mark in lane.marks for again in mark.why)
    if lane.region.kind != "optimizer" or not any(rates):
        return ""
    return (
        "the learning rate is a float, built into the code: give the optimizer lr=torch.tensor(…) and change it with "
        ".fill_(); capturable=True where the optimizer asks for that"
    )


def describe_compile(found: CompileMark) -> str:
    """`call 3 at 1.97 s: compiled again 0/1, 2.01 s`."""
    which = f"call {found.call} at" if found.call is not None else "at"
    return f"{which} {duration(found.at)}: {_DID[found.what]} {', '.join(found.graphs)}, {duration(found.seconds)}"


def recompile_reasons(found: CompileMark) -> Iterator[str]:
    """Which guard failed, of each graph that was compiled again; and why a backward was captured anew."""
    yield from dict.fromkeys(map(describe_failed_guard, found.why))
    if found.captured is not None:
        yield f"captured anew: {found.captured}" if found.captured else "captured anew: torch does not say why"
