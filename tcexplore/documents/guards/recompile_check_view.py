"""The recompile check view: the answers, newest first."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tcexplore import events as ev
from tcexplore.documents.document import Parts, Row, fixed
from tcexplore.documents.empty_states import empty_part
from tcexplore.documents.guards.recompile_rows import format_change, name_guarded
from tcexplore.documents.locations import Places, places
from tcexplore.documents.prose import BLANK, row, wrapped
from tcexplore.events import NO_MATCH, EntryAnswer, FrameAnswer, RecompileAnswer
from tcexplore.keymap import hint
from tcexplore.quantities import count
from tcexplore.session import Snapshot
from tcexplore.session.links import entry_link, line_links, region_name

_SIZE = re.compile(r"\.(size|stride)\(\)\[(\d+)\]")

_VERDICTS = {
    "recompiles": "would recompile",
    "limit": "would run eagerly: no entry matches and the recompile limit is reached",
    "raises": "would raise an error: no entry matches and recompiling is not allowed",
    "eager": "would run eagerly",
    "not entered": "would not be entered",
    "unknown": "unknown",
}

EMPTY_TEXT = (
    "Press {} and type inputs, for example f32[33, 512] or lr=0.01. torch's own guards then tell whether compiled code "
    "matches them, and which guard would fail first. Nothing is compiled."
)
_STYLES = {
    "matches": "ok",
    "recompiles": "recompile",
    "limit": "break",
    "raises": "break",
    "not entered": "muted",
    "unknown": "muted",
}
_MARKS = {
    "matches": "✔", "recompiles": "↻", "limit": "✖", "raises": "✖", "eager": "∅", "not entered": "·", "unknown": "·",
}  # fmt: skip


def recompile_check_document(snapshot: Snapshot, toggled: frozenset[str] = frozenset(), width: int = 78) -> Parts:  # noqa: ARG001
    """Return the document of the view."""
    if snapshot.trace:
        return Parts("", [empty_part(snapshot, width, EMPTY_TEXT, ev.RunFact.RECOMPILE_CHECKS)])
    answers = list(reversed(snapshot.recompile_answers))
    rows = list(_waiting(snapshot, width))
    rows += [r for answer in answers for r in (*_answer(answer, snapshot, width), BLANK)]
    empty_text = fixed(wrapped(EMPTY_TEXT.format(hint("recompile-check")), width, "muted", keys_only=True))
    return Parts(count(len(answers), "check") if answers else "", [fixed(rows), empty_text])


def _waiting(snapshot: Snapshot, width: int) -> Iterator[Row]:
    """Yield a query that the run has not answered yet, and when it will."""
    if snapshot.recompile_asked is None or snapshot.status != "running":
        return
    yield row((" ? ", "key"), (format_inputs(snapshot.recompile_asked[1]), "heading"))
    if snapshot.is_script and snapshot.phase == "answering":
        when = "a captured call is repeated with these inputs"
    elif snapshot.is_script:
        when = "the answer comes after the script's next call"
    else:
        when = "the answer comes once everything is compiled" if not snapshot.complete else "waiting for the answer"
    yield from wrapped(f"{when[:1].upper()}{when[1:]}.", width, "running", indent=3, lead="◐ ")
    yield BLANK


def _answer(answer: RecompileAnswer, snapshot: Snapshot, width: int) -> Iterator[Row]:
    region = region_name(snapshot, answer.region)
    yield row((" ? ", "key"), (format_inputs(answer.inputs), "heading"), (f"  {region}", "muted"))
    yield from answer_rows(answer, snapshot, width)


def answer_rows(answer: RecompileAnswer, snapshot: Snapshot, width: int) -> Iterator[Row]:
    """Yield the verdict of each frame, with the entries tried."""
    where = places(snapshot.file)
    if answer.problem:
        yield from wrapped(answer.problem, width, "error", indent=3)
    if answer.changed_with:
        text = f"Changed too, since the call fails otherwise: {', '.join(answer.changed_with)}."
        yield from wrapped(text, width, "warn", indent=3)
    if answer.with_equal_sizes:
        text = (
            "The call works with other inputs of an equal size as they are. To change them too, ask for "
            f"{', '.join(answer.with_equal_sizes)}."
        )
        yield from wrapped(text, width, "warn", indent=3)
    known = [frame for frame in answer.frames if frame.verdict != "unknown"]
    unknown = [frame for frame in answer.frames if frame.verdict == "unknown"]
    if len(answer.frames) > 1 and not (known and known[0].verdict in NO_MATCH):  # which says it itself
        yield from wrapped(_summary(known, len(unknown)), width, "strong", indent=3)
    for frame in known:
        yield from _frame(frame, where, width)
    yield from _unknown(unknown, where, width)


def _summary(known: list[FrameAnswer], unknown: int) -> str:
    """Return the answer for the whole call: its frames may have different ones."""
    verdicts = {frame.verdict for frame in known}
    decisive = next((verdict for verdict in NO_MATCH if verdict in verdicts), None)
    if decisive is not None:
        return f"{'A part of this call' if decisive == 'limit' else 'This call'} {_VERDICTS[decisive]}."
    if not known:
        return "Whether this call would recompile is not known."
    if unknown:
        return f"No recompile in {len(known)} of {len(known) + unknown} frames; not known for the rest."
    return f"This call would not recompile{', with the values of the nearest one' * ('not entered' in verdicts)}."


def _frame(frame: FrameAnswer, where: Places, width: int) -> Iterator[Row]:
    name = f"  {frame.frame.function}, {where.describe(frame.frame)}" if frame.frame else ""
    links = line_links(frame.frame)
    links = (entry_link(frame.graph), *links) if frame.graph else links
    yield row((f" {_MARKS[frame.verdict]} ", _STYLES.get(frame.verdict, "warn")),
              (describe_verdict(frame), _STYLES.get(frame.verdict, "warn")), (name, "muted"), links=links,
              location=frame.frame)  # fmt: skip
    for entry in frame.entries:
        yield from _entry(entry, where, width)
    for text, style in (
        (describe_dynamic_sizes(frame), ""),
        (describe_moved_state(frame), "muted"),
        (frame.note, "muted"),
    ):
        if text:
            yield from wrapped(text, width, style, indent=3)
    if frame.verdict in NO_MATCH and any(entry.failed for entry in frame.entries):
        text = f"{hint('recompiles')} tries what avoids it, as mark_dynamic does for a size."
        yield from wrapped(text, width, "muted", indent=3, keys_only=True)


def _entry(entry: EntryAnswer, where: Places, width: int) -> Iterator[Row]:
    if entry.matches:
        yield row("   ", (entry.graph, "title"), ("  matches", "ok"), links=(entry_link(entry.graph),))
        return
    failed = entry.failed
    if failed is None:
        yield row("   ", (entry.graph, "title"), ("  does not match", "muted"), links=(entry_link(entry.graph),))
        return
    links = (entry_link(entry.graph), *line_links(failed.location))
    values = f"  {format_change(failed)}" if format_change(failed) else ""
    yield row("   ", (entry.graph, "title"), ("  ✖ ", "break"), (name_guarded(failed), "guard"), values,
              (f"  {where.describe(failed.location)}", "muted"), links=links, location=failed.location)  # fmt: skip
    yield from wrapped(failed.reason, width, "muted", indent=8, links=links, location=failed.location)


def _unknown(frames: list[FrameAnswer], where: Places, width: int) -> Iterator[Row]:
    """Yield the frames without an answer, once for each reason."""
    for why in dict.fromkeys(frame.note for frame in frames):
        named = [f"frame {frame.number} {f'({where.describe(frame.frame)})' if frame.frame else ''}".strip()
                 for frame in frames if frame.note == why]  # fmt: skip
        yield from wrapped(f"unknown for {', '.join(filter(None, named))}: {why}", width, "muted", lead="· ")


def describe_verdict(frame: FrameAnswer) -> str:
    """Return `0/1 would be reused`, `would recompile`."""
    return f"{frame.graph} would be reused" if frame.verdict == "matches" else _VERDICTS[frame.verdict]


def describe_dynamic_sizes(frame: FrameAnswer) -> str:
    """Return the sizes that would be dynamic in the new graph, empty if nothing would be compiled."""
    if frame.verdict != "recompiles":
        return ""
    if not frame.dynamic:
        return "The new graph would have no dynamic sizes."
    names = ", ".join(_SIZE.sub(r".\1(\2)", name) for name in frame.dynamic)
    return f"The new graph would be dynamic in {names}, so that further changes need no recompile."


def describe_moved_state(frame: FrameAnswer) -> str:
    """Return that timing calls have changed the state that the answer depends on, empty if they have not."""
    attributes = {
        e.failed.name for e in frame.entries if e.failed and e.failed.origin == "attribute" and e.failed.kind == "int"
    }
    if not attributes:
        return ""
    return (
        f"The check uses the current state of the program: timing calls have changed {', '.join(sorted(attributes))}."
    )


def format_inputs(inputs: tuple[str, ...]) -> str:
    """Return the inputs as one call."""
    return f"({', '.join(inputs)})"
