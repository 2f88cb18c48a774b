"""Recompiles: which guard failed, what it compared, how near the limit is."""

from __future__ import annotations

from collections.abc import Iterator

from tcexplore.documents.document import Row
from tcexplore.documents.locations import Places, places
from tcexplore.documents.prose import BLANK, row, wrapped
from tcexplore.events import Recompiled
from tcexplore.quantities import duration
from tcexplore.session import Snapshot
from tcexplore.session.cache_entries import CacheEntry, FrameEntries
from tcexplore.session.links import line_link
from tcexplore.session.recompile_count import newest_causes

_SOURCES = {
    "argument": "an argument",
    "attribute": "an attribute of the module",
    "global": "a global",
    "closure": "a closure",
}


def recompile_rows(snapshot: Snapshot, width: int) -> Iterator[Row]:
    """The rows of all recompiles, a blank one behind each."""
    for recompile, others in newest_causes(snapshot):
        links = (line_link(recompile.location),) if recompile.location else ()
        rows = [*_recompile(recompile, places(snapshot.file), width), *_others(others)]
        yield from (Row(r.spans, links, recompile.location) for r in rows)
        yield BLANK


def _others(others: int) -> Iterator[Row]:
    if others:
        yield row((f"   nor did {others} older {'entry' if others == 1 else 'entries'} match", "muted"))


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
            f"  {recompile.failed_guard}",
        )
    elif recompile.failed_guard:
        yield from wrapped(recompile.failed_guard, width, indent=3)
    if recompile.reason and recompile.reason != recompile.failed_guard:
        yield from wrapped(recompile.reason, width, "muted", indent=3)
    if recompile.limit_hit:
        text = "the limit is reached: from now on this frame runs eagerly, uncompiled"
        yield from wrapped(text, width, "break", indent=3, lead="✖ ")


def name_guarded(recompile: Recompiled) -> str:
    """`x.size(0)`, `self.steps`; the guard itself where torch does not say what it looked at."""
    if recompile.kind == "grad mode":
        return recompile.kind
    if recompile.kind == "global state":
        return recompile.name or recompile.kind
    if recompile.kind in ("size", "stride") and recompile.dim is not None:
        return f"{recompile.name}.{recompile.kind}({recompile.dim})"
    if recompile.kind == "condition":
        return recompile.failed_guard
    tensor = recompile.kind in ("rank", "dtype", "dispatch", "requires_grad")
    return f"{recompile.name} {recompile.kind}" if tensor else recompile.name or recompile.failed_guard


def format_change(recompile: Recompiled) -> str:
    """`4 → 5`, of a condition `not for 1`; empty where torch does not tell the values."""
    if recompile.kind == "condition" and recompile.new:
        return f"not for {recompile.new}"
    return f"{recompile.old or '?'} → {recompile.new or '?'}" if recompile.old or recompile.new else ""


def describe_origin(recompile: Recompiled) -> str:
    """`a global`; empty where it is not known."""
    return _SOURCES.get(recompile.origin, "")


def format_compile_seconds(entry: CacheEntry) -> str:
    """`0.64 s`, `0.64 s + backward 0.20 s`, empty where torch gave no span."""
    forward = "" if entry.seconds is None else duration(entry.seconds)
    backward = "" if entry.backward_seconds is None else f"backward {duration(entry.backward_seconds)}"
    return " + ".join(filter(None, (forward, backward)))


def name_call(entry: CacheEntry) -> str:
    """`call 3`, empty where it is not known."""
    return "" if entry.call is None else f"call {entry.call}"


def count_entries(number: int) -> str:
    """`1 entry`, `8 entries`."""
    return "1 entry" if number == 1 else f"{number} entries"


def summarize_entries(frame: FrameEntries) -> str:
    """`8 entries, 5.31 s of compiling, 4.67 s of it again`."""
    entries = count_entries(len(frame.entries))
    times = [(entry.seconds or 0.0) + (entry.backward_seconds or 0.0) for entry in frame.entries]
    if not any(times):
        return entries
    again = f", {duration(sum(times[1:]))} of it again" if any(times[1:]) else ""
    return f"{entries}, {duration(sum(times))} of compiling{again}"


def describe_limit(frame: FrameEntries) -> str:
    """What happens at the limit, or has happened; said before it is reached, empty for a frame far from it."""
    name = frame.limit_hit or "recompile_limit"
    limit = frame.accumulated_limit if name.startswith("accumulated") else frame.limit
    if frame.limit_hit and frame.error_at_limit:
        return f"The limit is reached: torch.compile raised an error instead of compiling once more ({name} = {limit})."
    if frame.limit_hit:
        last = frame.over_limit[0].call if frame.over_limit else None
        since = f"since call {last} " if last else "from here on "
        return (
            f"The limit is reached ({name} = {limit}): {since}this frame runs eagerly, uncompiled, whenever none of "
            "its entries matches. torch says so in a log message only, and only once."
        )
    left = frame.free_entries
    if left is None or len(frame.entries) < 2:
        return ""
    happens = "is an error" if frame.error_at_limit else "runs this frame eagerly, without an error"
    if left == 0:
        return f"No further entry fits ({name} = {limit}): the next call that matches none of them {happens}."
    more = "1 more entry fits" if left == 1 else f"{left} more entries fit"
    return f"{more} ({name} = {limit}); after that, a call that matches none of them {happens}."


def describe_failed_guard(again: Recompiled) -> str:
    """`64 → 24: ` and the guard that failed."""
    changed = f"{again.old} → {again.new}: " if again.old and again.new else ""
    return f"{changed}{again.failed_guard or again.reason}"
