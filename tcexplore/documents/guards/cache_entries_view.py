"""The cache entries view: the entries of each frame, the guard that caused each one, and how near the limit is."""

from __future__ import annotations

from collections.abc import Iterator

from tcexplore import events as ev
from tcexplore.documents.document import Parts, Row, fixed
from tcexplore.documents.empty_states import empty_part, missing_rows
from tcexplore.documents.guards.recompile_rows import (
    count_entries,
    describe_limit,
    describe_origin,
    format_change,
    format_compile_seconds,
    name_call,
    name_carried,
    name_guarded,
    summarize_entries,
)
from tcexplore.documents.locations import Places, explain_compile_id, name_frame, places
from tcexplore.documents.prose import BLANK, fold, row, wrapped
from tcexplore.events import Guard, Recompiled
from tcexplore.quantities import count
from tcexplore.session import Snapshot
from tcexplore.session.cache_entries import CacheEntry, FrameEntries, GuardDiff, cache_entries, guard_diff, guards_of
from tcexplore.session.links import entry_link, guard_link, line_links

SAME = "Their guards are the same, except for structural guards."
NONE = "One of them has no guards."


EMPTY_TEXT = (
    "Dynamo keeps the compiled code of a frame in cache entries: 0/0 is the first entry of frame 0. A call that "
    "matches no entry compiles a new one. The entries appear here, with the call and the guard that caused each one."
)
GAUGE = 16
"""Maximum width of the gauge; a higher limit is drawn to scale."""


def cache_entries_document(snapshot: Snapshot, toggled: frozenset[str] = frozenset(), width: int = 78) -> Parts:
    """Return the document of the view."""
    frames = cache_entries(snapshot)
    if not frames:
        missing = fixed(missing_rows(snapshot, (ev.RunFact.CACHE_ENTRIES,), width))
        return Parts("", [empty_part(snapshot, width, EMPTY_TEXT), missing])
    rows: list[Row] = []
    for frame in frames:
        rows += [*_frame(snapshot, frame, toggled, width), BLANK]
    entries = sum(len(frame.entries) for frame in frames)
    again = sum(max(len(frame.entries) - 1, 0) for frame in frames)
    recompiles = f", {count(again, 'recompile')}" if again else ""
    return Parts(f"{count(len(frames), 'frame')}, {count_entries(entries)}{recompiles}", [fixed(rows)])


def recompiled_frame_rows(snapshot: Snapshot, width: int) -> Iterator[Row]:
    """Yield the cache entries of the frames that were compiled more than once."""
    for frame in cache_entries(snapshot):
        if len(frame.entries) > 1 or frame.over_limit:
            yield from _frame(snapshot, frame, frozenset(), width)
            yield BLANK


def _frame(snapshot: Snapshot, frame: FrameEntries, toggled: frozenset[str], width: int) -> Iterator[Row]:
    where = places(snapshot.file)
    first = next((entry.graph for entry in (*frame.entries, *frame.over_limit)), "")
    name = name_frame(first, frame.location) or "frame inside torch"
    rest = ", resume function after the break" if frame.resumed else ""
    rest += ", isolated" if frame.isolated else ""
    links = line_links(frame.location)
    yield row((f" {name}", "heading"), (f"  {where.describe(frame.location)}{rest}", "muted"),
              (f"  frame {frame.number}", "dim"), links=links, location=frame.location)  # fmt: skip
    yield _gauge(frame)
    yield from wrapped(describe_limit(frame), width, _urgency(frame), indent=3) if describe_limit(frame) else ()
    before, widths = "", _widths(frame)
    for entry in frame.entries:
        yield from _edge(snapshot, entry, before, toggled, width)
        yield _entry(entry, widths, where)
        before = entry.graph
    for entry in frame.over_limit[:1]:
        yield from _edge(snapshot, entry, before, toggled, width)
        outcome = "error" if frame.error_at_limit else "eager"
        yield row((" ✖ ", "break"), (outcome, "break"), (f"  {name_call(entry) or 'from now on'}", "muted"))


def _urgency(frame: FrameEntries) -> str:
    if frame.limit_hit:
        return "break"
    return "warn" if frame.free_entries is not None and frame.free_entries <= (frame.limit or 0) // 4 else "muted"


def _gauge(frame: FrameEntries) -> Row:
    limit, used = frame.limit, len(frame.entries)
    if not limit:
        return row((f"   {summarize_entries(frame)}", "muted"))
    cells = min(limit, GAUGE)
    full = min(cells, max(round(used / limit * cells), 1 if used else 0))
    style = "recompile" if _urgency(frame) == "muted" else _urgency(frame)
    style = style if used > 1 else "muted"
    return row("   ", ("■" * full, style), ("□" * (cells - full), "dim"), (f" {used} of {limit}", style),
               (f"  {summarize_entries(frame)}",
                                                                         "muted"))  # fmt: skip


def _widths(frame: FrameEntries) -> tuple[int, int, int]:
    """Return the column widths of the compile ids, the calls and the seconds."""
    entries = frame.entries
    texts = [(entry.graph, name_call(entry), format_compile_seconds(entry)) for entry in entries] or [("", "", "")]
    graph, call, cost = (max(map(len, column)) for column in zip(*texts, strict=True))
    return graph, call, cost


def _entry(entry: CacheEntry, widths: tuple[int, int, int], where: Places) -> Row:
    graph, call, wide = widths
    cost = f"{format_compile_seconds(entry):>{wide}}"
    called = f"  {name_call(entry):<{call}}" if call else ""
    caller = f"  from {where.describe(entry.caller)}" if entry.caller else ""
    return row((" ● ", "recompile" if entry.causes else "ok"), (f"{entry.graph:<{graph}}", "title"), called,
               (f"  {cost}" if wide else "", "number"), (caller, "muted"), links=(entry_link(entry.graph),),
               location=entry.caller, meaning=explain_compile_id(entry.graph))  # fmt: skip


def _edge(snapshot: Snapshot, entry: CacheEntry, before: str, toggled: frozenset[str], width: int) -> Iterator[Row]:
    """Yield the guard that failed between an entry and the one before, with a fold for the details."""
    if not entry.causes:
        return
    cause, where = entry.causes[0], places(snapshot.file)
    name = f"edge {entry.failed_entry} {entry.graph}"
    opened = name in toggled
    other = f"of {cause.failed_entry}: " if cause.failed_entry != before else ""
    yield fold(name, opened, (other, "muted"), (name_guarded(cause), "guard"), *_values(cause),
               (f"  {where.describe(cause.location)}", "muted"), indent=3, location=cause.location,
               links=line_links(cause.location))  # fmt: skip
    if opened:
        yield from _opened(snapshot, entry, width)


def _values(cause: Recompiled) -> tuple[tuple[str, str], ...]:
    if cause.kind == "condition" or not format_change(cause):
        return (("  " if format_change(cause) else "", ""), (format_change(cause), "added"))
    return (("  ", ""), (cause.old or "?", "removed"), (" → ", "muted"), (cause.new or "?", "added"))


def _opened(snapshot: Snapshot, entry: CacheEntry, width: int) -> Iterator[Row]:
    for cause in entry.causes:
        yield from _cause(cause, snapshot.file, width)
    if entry.failed_entry and guards_of(snapshot, entry.failed_entry) and guards_of(snapshot, entry.graph):
        yield from guard_difference_rows(snapshot, entry.failed_entry, entry.graph, width, indent=7)


def _cause(cause: Recompiled, file: str, width: int) -> Iterator[Row]:
    where = places(file).describe(cause.location)
    kind = ", ".join(filter(None, (describe_origin(cause), where)))
    tail = f" ({kind})" if kind else ""
    yield from wrapped(f"{cause.reason}{tail}", width, indent=7, lead=f"{cause.failed_entry} ", location=cause.location)
    if cause.failed_guard and cause.failed_guard not in cause.reason:
        yield from wrapped(name_carried(cause.failed_guard), width, "dim", indent=7 + len(cause.failed_entry) + 1)


def guard_diff_document(snapshot: Snapshot, one: str, other: str, width: int = 78) -> Parts:
    """Return the document of the guards that differ between two entries."""
    return Parts(f"{one} and {other}", [fixed(guard_difference_rows(snapshot, one, other, width, indent=1))])


def guard_difference_rows(snapshot: Snapshot, one: str, other: str, width: int, indent: int) -> Iterator[Row]:
    """Yield a row or two for each guard that is not in both entries."""
    before, after = guards_of(snapshot, one), guards_of(snapshot, other)
    if before is None or after is None:
        yield from wrapped(NONE, width, "muted", indent=indent)
        return
    differences = guard_diff(before, after)
    text = f"{len(differences) or 'no'} guards differ between {one} and {other}"
    yield row((" " * indent + text, "muted"))
    for difference in differences:
        yield from _difference(difference, one, other, indent)
    if not differences:
        yield from wrapped(SAME, width, "muted", indent=indent)


def _difference(difference: GuardDiff, one: str, other: str, indent: int) -> Iterator[Row]:
    sides = (("− ", one, difference.before, "removed"), ("+ ", other, difference.after, "added"))
    for sign, graph, guard, style in sides:
        if guard is not None:
            yield row((" " * indent + sign, style), (f"{graph} ", "muted"), (_name_of(guard), "guard"),
                      f" {_condition(guard)}", links=(guard_link(graph, guard),), location=guard.location)  # fmt: skip


def _name_of(guard: Guard) -> str:
    return guard.name or guard.source or ("sizes" if guard.kind == "SHAPE_ENV" else guard.kind)


def _condition(guard: Guard) -> str:
    return guard.summary or " and ".join(guard.code) or guard.kind
