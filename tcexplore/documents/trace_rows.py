"""What only a trace or a distributed run has: collectives, DDP's splits, all kinds of records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tcexplore import events as ev
from tcexplore.documents.document import Row, Span
from tcexplore.documents.locations import places
from tcexplore.documents.prose import BLANK, Cell, columns, fold, heading, row
from tcexplore.quantities import count, duration, size
from tcexplore.session import Snapshot
from tcexplore.session.communication import CollectiveCall, collective_calls
from tcexplore.session.links import aten_link, line_link, line_links

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
    lines: list[list[Cell]] = []
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
    lines: list[list[Cell]] = []
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
