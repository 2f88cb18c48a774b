"""Rows and texts about recompiles: the guard that failed, what it compared, the recompile limit."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from tcexplore.documents.document import Row
from tcexplore.documents.locations import Places, places
from tcexplore.documents.prose import BLANK, row, wrapped
from tcexplore.events import ExtraCompiles, Recompiled
from tcexplore.quantities import count, duration
from tcexplore.session import Snapshot
from tcexplore.session.cache_entries import CacheEntry, FrameEntries, newest_causes
from tcexplore.session.links import line_links

_CARRIED = re.compile(r"\b___stack(\d+)")
"""Dynamo's name of a value that the code before a break leaves on the stack."""

_CARRIED_MEMBER = re.compile(r"\b___stack(\d+)(?=[.\[])")

_SOURCES = {
    "argument": "an argument",
    "attribute": "an attribute of the module",
    "global": "a global",
    "closure": "a closure",
}


def recompile_rows(
    snapshot: Snapshot, width: int, below: Callable[[Recompiled], Iterable[Row]] = lambda _: ()
) -> Iterator[Row]:
    """Yield the rows of all recompiles, each with the rows `below` it and a blank one."""
    for recompile, others in newest_causes(snapshot):
        links = line_links(recompile.location)
        rows = [*_recompile(recompile, places(snapshot.file), width), *_older_entries(others)]
        yield from (Row(r.spans, links, recompile.location) for r in rows)
        yield from below(recompile)
        yield BLANK
    if snapshot.extra_compiles:
        yield from wrapped(describe_extra_compiles(snapshot.extra_compiles), width, "warn", lead="↻ ")
        yield BLANK


def describe_extra_compiles(extra: ExtraCompiles) -> str:
    """Return how often tcexplore's own calls compiled, and why."""
    until = ", until the recompile limit was reached: later calls ran eagerly" if extra.limit_hit else ""
    why = f" {extra.reason}" if extra.reason else ""
    return (
        f"tcexplore's own calls, which compare and time the program, compiled {count(extra.compiles, 'more graph')}"
        f"{until}. They are not listed: the state of the program changes with each call.{why}"
    )


def _older_entries(number: int) -> Iterator[Row]:
    if number:
        yield row((f"   {number} older {'entry' if number == 1 else 'entries'} did not match either", "muted"))


def _recompile(recompile: Recompiled, where: Places, width: int) -> Iterator[Row]:
    used = f"  {recompile.entry_count} of {recompile.limit}" if recompile.entry_count and recompile.limit else ""
    yield row((f"↻ {recompile.failed_entry} → {recompile.graph}", "recompile"),
              (used, "warn" if recompile.limit_hit else "muted"),
              (f"  {where.describe(recompile.location)}", "muted"))  # fmt: skip
    if recompile.old or recompile.new:
        yield row(
            "   ",
            (recompile.old or "?", "removed"),
            (" → ", "muted"),
            (recompile.new or "?", "added"),
            f"  {name_carried(recompile.failed_guard)}",
        )
    elif recompile.failed_guard:
        yield from wrapped(name_carried(recompile.failed_guard), width, indent=3)
    if recompile.reason and recompile.reason != recompile.failed_guard:
        yield from wrapped(recompile.reason, width, "muted", indent=3)
    if recompile.limit_hit:
        text = "recompile limit reached: from now on this frame runs eagerly"
        yield from wrapped(text, width, "break", indent=3, lead="✖ ")


def name_carried(guard: str) -> str:
    """Return a guard or a name with `___stack0` described as `break's value`: the result of what broke the graph."""
    if "___stack" not in guard:  # each row of each guard comes here
        return guard
    return _CARRIED.sub(_carried, _CARRIED_MEMBER.sub(r"carried value \1", guard))


def _carried(name: re.Match[str]) -> str:
    number = "" if name[1] == "0" else f" {name[1]}"
    return f"break's value{number}"


def name_guarded(recompile: Recompiled) -> str:
    """Return what the guard checks, `x.size(0)`, `self.steps`, or else the guard itself."""
    if recompile.kind == "grad mode":
        return recompile.kind
    if recompile.kind == "global state":
        return recompile.name or recompile.kind
    if recompile.kind in ("size", "stride") and recompile.dim is not None:
        return name_carried(f"{recompile.name}.{recompile.kind}({recompile.dim})")
    if recompile.kind == "condition":
        return name_carried(recompile.failed_guard)
    name = name_carried(recompile.name or recompile.failed_guard)
    return f"{name} {recompile.kind}" if recompile.kind in ("rank", "dtype", "dispatch", "requires_grad") else name


def format_change(recompile: Recompiled) -> str:
    """Return `4 → 5`, for a condition `not for 1`, empty if torch does not report the values."""
    if recompile.kind == "condition" and recompile.new:
        return f"not for {recompile.new}"
    return f"{recompile.old or '?'} → {recompile.new or '?'}" if recompile.old or recompile.new else ""


def describe_origin(recompile: Recompiled) -> str:
    """Return where the guarded value comes from: `a global`, empty if unknown."""
    return _SOURCES.get(recompile.origin, "")


def format_compile_seconds(entry: CacheEntry) -> str:
    """Return `0.64 s`, `0.64 s + backward 0.20 s`, empty if torch reports no span."""
    forward = "" if entry.seconds is None else duration(entry.seconds)
    backward = "" if entry.backward_seconds is None else f"backward {duration(entry.backward_seconds)}"
    return " + ".join(filter(None, (forward, backward)))


def name_call(entry: CacheEntry) -> str:
    """Return `call 3`, empty if unknown."""
    return "" if entry.call is None else f"call {entry.call}"


def count_entries(number: int) -> str:
    """Return `1 entry`, `8 entries`."""
    return "1 entry" if number == 1 else f"{number} entries"


def summarize_entries(frame: FrameEntries) -> str:
    """Return `8 entries, compiling 5.31 s (recompiles: 4.67 s)`."""
    entries = count_entries(len(frame.entries))
    times = [(entry.seconds or 0.0) + (entry.backward_seconds or 0.0) for entry in frame.entries]
    if not any(times):
        return entries
    again = f" (recompiles: {duration(sum(times[1:]))})" if any(times[1:]) else ""
    return f"{entries}, compiling {duration(sum(times))}{again}"


def describe_limit(frame: FrameEntries) -> str:
    """Return what happens at the recompile limit or has happened, empty for a frame with one entry."""
    name = frame.limit_hit or "recompile_limit"
    limit = frame.accumulated_limit if name.startswith("accumulated") else frame.limit
    if frame.limit_hit and frame.error_at_limit:
        return f"Limit reached ({name} = {limit}): torch.compile raised an error instead of recompiling."
    if frame.limit_hit:
        last = frame.over_limit[0].call if frame.over_limit else None
        since = f"since call {last}" if last else "from now on"
        return (
            f"Limit reached ({name} = {limit}): {since}, this frame runs eagerly if no entry matches. torch logs this "
            "once."
        )
    left = frame.free_entries
    if left is None or len(frame.entries) < 2:
        return ""
    happens = "raises an error" if frame.error_at_limit else "runs this frame eagerly"
    if left == 0:
        return f"No entry left ({name} = {limit}): the next call without a match {happens}."
    more = "1 entry left" if left == 1 else f"{left} entries left"
    return f"{more} ({name} = {limit}); after that, a call without a match {happens}."


def describe_failed_guard(recompile: Recompiled) -> str:
    """Return the guard that failed after its change: `64 → 24: L['x'].size()[0] == 64`."""
    changed = f"{recompile.old} → {recompile.new}: " if recompile.old and recompile.new else ""
    return f"{changed}{name_carried(recompile.failed_guard) or recompile.reason}"
