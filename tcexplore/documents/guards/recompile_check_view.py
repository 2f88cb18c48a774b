"""The answers to "would it recompile?", the newest first."""

from __future__ import annotations

from collections.abc import Iterator

from tcexplore.documents.document import Row
from tcexplore.documents.document_parts import Parts, fixed
from tcexplore.documents.location_text import Places, places
from tcexplore.documents.prose import BLANK, row, wrapped
from tcexplore.documents.recompile_check_text import (
    describe_dynamic_sizes,
    describe_moved_state,
    describe_verdict,
    format_inputs,
)
from tcexplore.documents.recompiles_text import format_change, name_guarded
from tcexplore.events import EntryAnswer, FrameAnswer, RecompileAnswer
from tcexplore.quantities import count
from tcexplore.session import Snapshot
from tcexplore.session.links import entry_link, line_link
from tcexplore.session.region_query import region_name

TEACHES = (
    "Press R and type inputs, for instance f32[33, 512] or lr=0.01: torch's own guards are then asked whether compiled "
    "code fits them, and which guard would fail first. Nothing is run."
)
_STYLES = {"matches": "ok", "recompiles": "recompile", "limit": "break", "raises": "break", "unknown": "muted"}
_MARKS = {"matches": "✔", "recompiles": "↻", "limit": "✖", "raises": "✖", "eager": "∅", "unknown": "·"}


def recompile_check_document(snapshot: Snapshot, toggled: frozenset[str] = frozenset(), width: int = 78) -> Parts:  # noqa: ARG001
    """The document of the view."""
    answers = list(reversed(snapshot.would))
    rows = [r for answer in answers for r in (*_answer(answer, snapshot, width), BLANK)]
    teaches = fixed(wrapped(TEACHES, width, "muted", keys_only=True))
    return Parts(count(len(answers), "question") if answers else "", [fixed(rows), teaches])


def _answer(answer: RecompileAnswer, snapshot: Snapshot, width: int) -> Iterator[Row]:
    where, region = places(snapshot.file), region_name(snapshot, answer.region)
    yield row((" ? ", "key"), (format_inputs(answer.inputs), "heading"), (f"  {region}", "muted"))
    if answer.problem:
        yield from wrapped(answer.problem, width, "error", indent=3)
    known = [frame for frame in answer.frames if frame.verdict != "unknown"]
    for frame in known:
        yield from _frame(frame, where, width)
    yield from _unknown([frame for frame in answer.frames if frame.verdict == "unknown"], where, width)


def _frame(frame: FrameAnswer, where: Places, width: int) -> Iterator[Row]:
    name = f"  {frame.frame.function}, {where.describe(frame.frame)}" if frame.frame else ""
    links = (line_link(frame.frame),) if frame.frame else ()
    links = (entry_link(frame.graph), *links) if frame.graph else links
    yield row((f" {_MARKS[frame.verdict]} ", _STYLES.get(frame.verdict, "warn")),
              (describe_verdict(frame), _STYLES.get(frame.verdict, "warn")), (name, "muted"), links=links,
              location=frame.frame)  # fmt: skip
    for entry in frame.entries:
        yield from _entry(entry, where, width)
    for said, style in (
        (describe_dynamic_sizes(frame), ""),
        (describe_moved_state(frame), "muted"),
        (frame.note, "muted"),
    ):
        if said:
            yield from wrapped(said, width, style, indent=3)


def _entry(entry: EntryAnswer, where: Places, width: int) -> Iterator[Row]:
    if entry.matches:
        yield row("   ", (entry.graph, "title"), ("  matches", "ok"), links=(entry_link(entry.graph),))
        return
    found = entry.failed
    if found is None:
        yield row("   ", (entry.graph, "title"), ("  does not match", "muted"), links=(entry_link(entry.graph),))
        return
    links = (entry_link(entry.graph), *((line_link(found.location),) if found.location else ()))
    said = f"  {format_change(found)}" if format_change(found) else ""
    yield row("   ", (entry.graph, "title"), ("  ✖ ", "break"), (name_guarded(found), "guard"), said,
              (f"  {where.describe(found.location)}", "muted"), links=links, location=found.location)  # fmt: skip
    yield from wrapped(found.reason, width, "muted", indent=8, links=links, location=found.location)


def _unknown(frames: list[FrameAnswer], where: Places, width: int) -> Iterator[Row]:
    """What cannot be known, once for each reason."""
    for why in dict.fromkeys(frame.note for frame in frames):
        named = [f"frame {frame.number} {f'({where.describe(frame.frame)})' if frame.frame else ''}".strip()
                 for frame in frames if frame.note == why]  # fmt: skip
        yield from wrapped(f"not known for {', '.join(filter(None, named))}: {why}", width, "muted", lead="· ")
