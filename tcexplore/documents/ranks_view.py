"""The ranks of a job (verdict, cause, one row per rank), and what only a trace has: collectives, splits, records."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence

from tcexplore import events as ev
from tcexplore.documents.document import Parts, Row, Span, fixed
from tcexplore.documents.locations import display_path, places
from tcexplore.documents.prose import BLANK, Spans, columns, fold, heading, row, wrapped
from tcexplore.documents.rank_alert import BADGES, hang_sentence, with_values
from tcexplore.events.rank_events import Divergence, DivergenceSide, RankRow, RanksCompared, name_ranks
from tcexplore.quantities import count, duration, size
from tcexplore.session import Snapshot
from tcexplore.session.communication import CollectiveCall, collective_calls
from tcexplore.session.links import aten_link, line_link, line_links

LONG_S = 30.0
"""Seconds of one step of a compile from which on its time is emphasized."""

SILENT_S = 3.0
"""Seconds without a record after which a rank between compiles is named."""

_HEAD = ("rank", "host", "pid", "phase", "graphs", "breaks", "recompiles", "hits", "misses", "compile", "")


def ranks_document(comparison: RanksCompared, width: int) -> Parts:
    """Return the document of the report."""
    rows = [*verdict_rows(comparison, width), BLANK, *_table(comparison, ())]
    rows += [*_stack_rows(comparison, None), *_notes(comparison, width)]
    return Parts(_title(comparison), [fixed(rows)])


def ranks_screen_document(
    snapshot: Snapshot, comparison: RanksCompared | None, loaded: Sequence[int], toggled: frozenset[str], width: int
) -> Parts:
    """Return the document of the ranks screen: all ranks, then what the rank in view communicates and records."""
    if comparison is None:
        head = [row((" … reading the ranks", "running"))]
    else:
        head = [*verdict_rows(comparison, width), BLANK, *_table(comparison, loaded), *_under_way_rows(comparison)]
        head += [*_stack_rows(comparison, toggled), *_notes(comparison, width)]
    own = (*collective_rows(snapshot), *split_rows(snapshot), *record_rows(snapshot, toggled))
    name = (BLANK, heading(snapshot.trace), *own) if own else ()
    return Parts("", [fixed(head), fixed(name)])


def _notes(comparison: RanksCompared, width: int) -> Iterator[Row]:
    for note in comparison.notes:
        yield BLANK
        yield from wrapped(note, width, "muted")


def _title(comparison: RanksCompared) -> str:
    ranks = count(len(comparison.rows), "rank")
    divergence = comparison.divergence
    if divergence is None:
        return f"{ranks}, {'no verdict' if comparison.unread else 'identical'}"
    compared = divergence.kind not in ("unfinished rank", "missing rank")
    return f"{ranks}, {f'{divergence.kind} differs' if compared else divergence.subject}"


def summary_sentence(comparison: RanksCompared) -> str:
    """Return the figures of all ranks and the verdict in one line."""
    rows = comparison.rows
    graphs, breaks = sum(row.graphs for row in rows), sum(row.break_places for row in rows)
    parts = [
        count(graphs, "graph"), count(breaks, "graph break"), count(sum(row.recompiles for row in rows), "recompile"),
        f"{duration(max((row.compile_s for row in rows), default=0.0))} of compiling",
    ]  # fmt: skip
    text = ", ".join(parts)
    if len(rows) < 2 and comparison.divergence is None:
        return text
    text = f"{len(rows)} ranks, {text}"
    divergence = comparison.divergence
    if divergence is None:
        return f"{text}; {unread_sentence(comparison) or 'all ranks compile the same'}"
    at = divergence.location
    place = f" at {at.file}:{at.line}" if at else ""
    return f"{text}; {divergence.subject}: {divergence.kind}{place}"


def unread_sentence(comparison: RanksCompared) -> str:
    """Return that files were not read; empty if all were."""
    return f"{count(comparison.unread, 'file')} could not be read" if comparison.unread else ""


def verdict_rows(comparison: RanksCompared, width: int) -> Iterator[Row]:
    """Yield whether the ranks agree, or the first difference with its cause and both sides."""
    divergence, hang = comparison.divergence, comparison.hang
    if hang is not None:
        mark = " ✖ HANG " if hang.severity == "error" else " ◐ WAITING "
        at = hang.place or hang.location
        spans = Span(mark, BADGES[hang.severity]), Span("  "), Span(hang_sentence(hang, ""), "strong")
        yield Row(spans, links=line_links(at), location=at)
    if divergence is not None:
        yield from _divergence(divergence, width)
        for further in comparison.further:
            yield BLANK
            yield from _divergence(further, width)
    elif comparison.unread:
        yield row((" ● NO VERDICT ", "badge.muted"), (f"  {unread_sentence(comparison)}", ""))
    elif len(comparison.rows) < 2:
        yield row((" ● one process ", "badge.muted"), ("  no other rank to compare with", "muted"))
    else:
        extent = " so far" if comparison.partial else ""
        if comparison.ended_early:
            extent = " until the first one ended early"
        number = len(comparison.rows)
        ranks = "both ranks" if number == 2 else f"all {number} ranks"
        badge = (" ✔ IDENTICAL ", "badge.muted" if extent or hang is not None else "badge.ok")
        yield row(badge, (f"  {ranks} compile the same{extent}", ""))
    for sentence in comparison.ended_early:
        yield from wrapped(sentence, width, "warn")


def _divergence(divergence: Divergence, width: int) -> Iterator[Row]:
    at = divergence.location
    place = f"{display_path(at.file)}:{at.line}" if at else ""
    graph = f" in compile {divergence.compile_id}" if divergence.compile_id else ""
    links = line_links(at)
    yield row(
        (f" {'✖' if divergence.severity == 'error' else '≠'} {divergence.kind.upper()} ", BADGES[divergence.severity]),
        (f"  {name_ranks(divergence.ranks)}", "strong"),
        (f" {divergence.verb}", ""), (graph, ""),
        (f", {place}" if place else "", "location"), location=at, links=links,
    )  # fmt: skip
    detail = f"{divergence.detail[:1].upper()}{divergence.detail[1:]}".rstrip(".")
    yield from wrapped(f"{detail}.", width)
    for side in divergence.sides:
        yield from _side(side, width)


def _side(side: DivergenceSide, width: int) -> Iterator[Row]:
    at = side.location
    place = f"  {display_path(at.file)}:{at.line}" if at else ""
    links = line_links(at)
    lead = f"{name_ranks(side.ranks)}: "
    yield from wrapped(
        f"{with_values(side.text, side.values)}{place}", width, lead=lead, indent=3, location=at, links=links
    )


def _table(comparison: RanksCompared, shown: Sequence[int]) -> Iterable[Row]:
    rows = comparison.rows
    most = max((row.group for row in rows), default=0)
    lines = [_cells(row, several=most > 0, loaded=row.rank in shown) for row in rows]
    keep = [n for n, title in enumerate(_HEAD) if title != "host" or any(row.host for row in rows)]
    cells = [[line[n] for n in keep] for line in lines]
    head, *table = columns([_HEAD[n] for n in keep], cells, [() for _ in lines], left=(0,))
    yield head
    for rank, line in zip(rows, table, strict=True):
        yield line._replace(fold=f"rank {rank.rank}")


def _under_way_rows(comparison: RanksCompared) -> Iterator[Row]:
    """Yield what each rank of a followed job compiles now, and for how long; then those that write nothing."""
    now = time.time()
    busy = [row for row in comparison.rows if row.span_began is not None]
    silent = [row for row in comparison.rows if row.last_record is not None and row.span_began is None]
    since = now - max((row.last_record or now for row in silent), default=now)
    if busy or any(row.waits is not None for row in silent) or since >= SILENT_S:
        yield BLANK
    for rank in sorted(busy, key=lambda row: row.span_began or 0.0):
        yield _activity("◐", rank, f"{rank.graph} {rank.span}", now - (rank.span_began or now))
    known = [row for row in silent if row.waits is not None]
    for rank in known:
        verb = _verb(rank)
        # A rank that makes progress does so all the time: the seconds since the last look at it say nothing.
        seconds = None if rank.state == "runs" else now - (rank.since or rank.last_record or now)
        yield _activity("○", rank, f"{verb} in {rank.call}" if rank.call else verb, seconds)
    unknown = [row for row in silent if row.waits is None]
    seconds = now - max((row.last_record or now for row in unknown), default=now)
    if unknown and (busy or seconds >= SILENT_S):
        text = f"  no record for {duration(max(0.0, seconds))}: they run, or wait in a collective"
        yield row((f" ○ {name_ranks([row.rank for row in unknown])}", "strong"), (text, "muted"))


def _verb(rank: RankRow) -> str:
    """Return what a rank does between compiles.

    Its CPU time over a second is what counts. A stack is of one moment, in which the main thread may wait for others.
    """
    if rank.state == "stopped":
        return "is stopped"
    waits = rank.waits if rank.state is None else rank.state == "waits"
    return "waits" if waits else "runs"


STACKS = "stacks"
"""Fold of the Python stacks."""


def _stack_rows(comparison: RanksCompared, toggled: frozenset[str] | None) -> Iterator[Row]:
    """Yield the Python stacks of ranks that make no progress, in folds; all of them open if `toggled` is None."""
    known = [row for row in comparison.rows if row.stack]
    if comparison.hang is None or not known:
        return
    yield BLANK
    for rank in known:
        name = f"{STACKS} {rank.rank}"
        opened = toggled is None or name in toggled
        first = rank.stack[0]
        note = f"  {rank.call or first.function}"
        yield fold(name, opened, (f"stack of rank {rank.rank}", ""), (note, "muted"), indent=1)
        for frame in rank.stack if opened else ():
            place = ev.Location(frame.file, frame.line, frame.function)
            own = rank.place is not None and frame.file == rank.place.file
            text = f"      {frame.function}  {display_path(frame.file)}:{frame.line}"
            yield row((text, "strong" if own else "muted"), location=place, links=line_links(place) if own else ())


def _activity(mark: str, rank: RankRow, text: str, seconds: float | None) -> Row:
    """Return what a rank does, for how long if that is known, and where."""
    at = rank.place
    place = f"  {display_path(at.file)}:{at.line} {at.function}" if at else ""
    return row(
        (f" {mark} rank {rank.rank}", "strong"), (f"  {text}", ""),
        (f"  {duration(max(0.0, seconds))}" if seconds is not None else "",
         "warn" if seconds is not None and seconds >= LONG_S else "muted"),
        (place, "location"),
        location=at, links=line_links(at),
    )  # fmt: skip


def _cells(row: RankRow, *, several: bool, loaded: bool) -> list[Spans]:
    phase = f"{row.phase} {row.graph}".strip() or ("done" if row.last_record is None else "between compiles")
    group = f"group {row.group + 1}" if several else ""
    style = "" if row.group == 0 else "break"
    texts = (
        f"{row.rank}{' ●' if loaded else ''}", row.host or "", str(row.pid), phase, str(row.graphs),
        str(row.break_places), str(row.recompiles), str(row.cache_hits), str(row.cache_misses),
        duration(row.compile_s), group,
    )  # fmt: skip
    return [(Span(text, style),) for text in texts]


MOST_CALLS = 200
RECORDS = "records"
"""Fold of the list of records."""


def collective_rows(snapshot: Snapshot) -> Iterator[Row]:
    """Yield the collectives of each graph in order, with their size and process group."""
    calls = list(collective_calls(snapshot))
    if not calls:
        return
    where = places(snapshot.file).abbreviate
    yield BLANK
    yield heading("Collectives", _total(calls))
    lines: list[list[Spans]] = []
    links = []
    for number, call in enumerate(calls[:MOST_CALLS], 1):
        at = call.node.location
        texts = (
            f"{number}", f"{call.graph} {call.phase}", call.op, size(call.bytes) if call.bytes is not None else "?",
            f"group {call.group}" if call.group else "", _overlap(call), f"line {where(at)}" if at else "",
        )  # fmt: skip
        lines.append([(Span(text, "location" if index == 6 else ""),) for index, text in enumerate(texts)])
        own = (aten_link(call.graph, call.phase, call.node.name),)
        links.append((*own, line_link(at)) if at else own)
    yield from columns(
        ("", "graph", "collective", "bytes", "group", "overlaps with", ""), lines, links, left=(1, 2, 4, 5, 6)
    )
    for merged in snapshot.merged_collectives:
        total = sum(len(bucket) for bucket in merged.buckets)
        buckets = " | ".join(", ".join(bucket) for bucket in merged.buckets)
        yield row(
            (f" {merged.graph}: Inductor merged {count(total, merged.op)} into {len(merged.buckets)}: ", ""),
            (buckets, "muted"),
        )  # fmt: skip


def _total(calls: Sequence[CollectiveCall]) -> str:
    """Return the number of collectives, their bytes, and torch's estimates if it recorded them."""
    known = [call.bytes for call in calls if call.bytes is not None]
    parts = [count(len(calls), "call"), *([size(sum(known))] if known else [])]
    waits = [call for call in calls if call.overlapping_kernels == ()]
    if waits:
        parts.append(f"{len(waits)} exposed: the code waits immediately")
    times = [(call.estimate_us, call.exposed_us) for call in calls if call.estimate_us is not None]
    if times:
        total, exposed = (duration(sum(us or 0.0 for us in column) / 1e6) for column in zip(*times, strict=True))
        parts.append(f"torch's estimate: {total}, {exposed} of it exposed")
    return " · ".join(parts)


def _overlap(call: CollectiveCall) -> str:
    """Return the number of kernels between the start and the wait of a collective in the generated code."""
    if call.overlapping_kernels is None:
        return ""
    text = count(len(call.overlapping_kernels), "kernel") if call.overlapping_kernels else "exposed"
    if call.estimate_us is not None and call.exposed_us is not None:
        text += f", estimate {duration(call.estimate_us / 1e6)}, {duration(call.exposed_us / 1e6)} exposed"
    return text


def split_rows(snapshot: Snapshot) -> Iterator[Row]:
    """Yield the parts of graphs that DDP compiles separately."""
    for origin, title, note in _ORIGINS:
        splits = [split for split in snapshot.splits if split.origin == origin]
        if splits:
            yield BLANK
            yield heading(title, note)
            yield from _part_rows(snapshot, splits)


_ORIGINS = (
    ("ddp", "DDP splits", "each part's gradients are one bucket"),
    ("vllm", "vLLM pieces", "each is compiled separately, for the sizes behind it"),
)


def _part_rows(snapshot: Snapshot, splits: Sequence[ev.GraphSplit]) -> Iterator[Row]:
    where = places(snapshot.file).abbreviate
    lines: list[list[Spans]] = []
    for split in splits:
        lines_of = list(dict.fromkeys(where(at) for at in (split.first, split.last) if at))
        texts = (
            split.graph, split.part, count(split.ops, "op"),
            size(split.parameter_bytes) if split.parameter_bytes is not None else "?",
            _ends(split.modules), _sizes(snapshot, split),
            f"line{'s' if len(lines_of) > 1 else ''} {' to '.join(lines_of)}" if lines_of else "",
        )  # fmt: skip
        lines.append([(Span(text),) for text in texts])
    links = [line_links(split.first) for split in splits]
    yield from columns(("graph", "part", "ops", "parameters", "modules", "", ""), lines, links, left=(0, 1, 4, 5, 6))


def _sizes(snapshot: Snapshot, split: ev.GraphSplit) -> str:
    """Return the sizes for which vLLM compiles a piece."""
    pieces = [piece for piece in snapshot.pieces if (piece.graph, piece.part) == (split.graph, split.part)]
    texts = [
        (f"{piece.first}" if piece.first == piece.last else f"{piece.first} to {piece.last}")
        + (" (CUDA graph)" if piece.cuda_graph else "")
        for piece in pieces
    ]
    return f"sizes {', '.join(texts)}" if texts else ""


def _ends(modules: Sequence[str]) -> str:
    """Return the first and the last module of a bucket, and how many there are."""
    if len(modules) < 3:
        return ", ".join(modules)
    return f"{modules[0]} to {modules[-1]} ({len(modules)})"


def record_rows(snapshot: Snapshot, toggled: frozenset[str]) -> Iterator[Row]:
    """Yield all kinds of records; those that are only listed open to the beginning of the first one."""
    kinds = snapshot.trace_records
    if not kinds:
        return
    opened = RECORDS in toggled
    total = sum(kind.count for kind in kinds)
    yield BLANK
    yield fold(RECORDS, opened, ("Records", "heading"), (f"  {count(total, 'record')} of {len(kinds)} kinds", "muted"))
    for kind in kinds if opened else ():
        name = f"{RECORDS} {kind.kind}"
        note = f"  {kind.count}"
        if kind.read:
            yield row((f"     {kind.kind}", ""), (note, "muted"))
            continue
        yield fold(name, name in toggled, (kind.kind, ""), (f"{note}, listed only", "muted"), indent=3)
        for line in kind.text.split("\n") if name in toggled else ():
            yield row((f"       {line}", "dim"), no_wrap=True)
