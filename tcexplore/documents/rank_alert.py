"""The headline of a job: a hang, or the first difference between its ranks, with its cause and both sides."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from tcexplore.documents.document import Row, Span
from tcexplore.documents.locations import places
from tcexplore.documents.prose import Piece, piece
from tcexplore.events import Location
from tcexplore.events.rank_events import Divergence, DivergenceSide, Hang, RankRow, RanksCompared, name_ranks
from tcexplore.quantities import duration
from tcexplore.session import Session, Snapshot
from tcexplore.session.links import Link, line_link, line_links, node_link

BADGES = {"error": "badge.break", "warning": "badge.warn"}

MOST_SIDES = 2
"""Sides, or ranks of a hang, that the main screen shows."""

_MOST_FRAMES = 3
"""Frames of a stack that one line shows."""


def newest_comparison(session: Session, shown: Snapshot | None) -> RanksCompared | None:
    """Return the newest comparison of the ranks of the job in view; None for a live run."""
    if shown is None or not shown.trace:
        return None
    return next(filter(None, (run.rank_comparison for run in reversed(session.runs))), None)


def hang_sentence(hang: Hang, file: str, now: float | None = None) -> str:
    """Return who has not reached what, what they do instead, and for how long."""
    now = time.time() if now is None else now
    seconds = hang.seconds(now)
    lasts = f" for {duration(seconds)}" if seconds else ""
    who, at, place = name_ranks(hang.ranks), _at(hang.location, file), _at(hang.place, file)
    if hang.kind == "waits":
        doing = hang.doing.partition(" ")[2]
        return f"{who} {doing}{place}{lasts}"
    if hang.kind == "all wait":
        return f"all ranks wait in `{hang.call}`{at}{lasts}"
    if hang.kind == "other collective":
        verb = "waits" if len(hang.waiting) == 1 else "wait"
        others = f"{name_ranks(hang.waiting)} {verb} in `{hang.call}`{at}{lasts}"
        return f"{who} {hang.doing.partition(' ')[2]}{place}, but {others}"
    has = "has" if len(hang.ranks) == 1 else "have"
    waited = f"; {name_ranks(hang.waiting)} {'has' if len(hang.waiting) == 1 else 'have'} waited{lasts}"
    lasts = lasts if hang.since and hang.severity == "error" else ""
    return f"{who} {has} not reached `{hang.call}`{at}; {hang.doing}{place}{lasts or waited}"


def _at(location: Location | None, file: str) -> str:
    return f" at {places(file).describe(location)}" if location is not None else ""


def verdict_pieces(comparison: RanksCompared, file: str) -> Iterator[Piece]:
    """Yield the headline for the main screen: a badge, and the first difference or the hang in one sentence."""
    hang, divergence = comparison.hang, comparison.divergence
    if hang is not None and (divergence is None or hang.severity == "error" or divergence.severity == "warning"):
        name = " ✖ HANG " if hang.severity == "error" else " ◐ WAITING "
        yield piece(name, BADGES[hang.severity])
        yield piece(hang_sentence(hang, file), "strong")
    elif divergence is not None:
        mark = "✖" if divergence.severity == "error" else "≠"
        yield piece(f" {mark} {divergence.kind.upper()} ", BADGES[divergence.severity])
        yield piece(f"{divergence.subject}{_at(divergence.location, file)}", "strong")


def alert_links(comparison: RanksCompared, snapshot: Snapshot) -> tuple[Link, ...]:
    """Return the user's line of a hang, or of the first difference with the op of the graph in view that follows it."""
    hang, divergence = comparison.hang, comparison.divergence
    if hang is not None:
        return line_links(hang.place or hang.location)
    at = divergence.location if divergence is not None else None
    graph = next((known for known in snapshot.graphs if divergence and known.graph == divergence.compile_id), None)
    if graph is None or at is None:
        return line_links(at)
    following = [
        (node.location.line, node_link(graph.graph, node.name))
        for node in graph.nodes
        if node.location and node.location.file == at.file and node.location.line >= at.line
    ]
    return (line_link(at), *(link for _, link in sorted(following)[:1]))


def alert_row(session: Session) -> Row:
    """Return the cause and both sides of the first difference, or the stacks of a hang; empty for neither."""
    comparison = newest_comparison(session, session.shown)
    if comparison is None or session.shown is None:
        return Row(())
    file = session.shown.file
    hang, divergence = comparison.hang, comparison.divergence
    if hang is not None and (divergence is None or hang.severity == "error" or divergence.severity == "warning"):
        return Row(tuple(_stack_spans(hang, comparison.rows, file)))
    if divergence is None or (comparison.partial and divergence.severity == "warning"):
        return Row(())
    return Row(tuple(_cause_spans(divergence, file)), line_links(divergence.location))


def _cause_spans(divergence: Divergence, file: str) -> Iterator[Span]:
    yield Span(f"  {_sentence(divergence.detail)}", "")
    for side in divergence.sides[:MOST_SIDES]:
        yield Span(f"   {name_ranks(side.ranks)}: {_side_text(side, file)} ", "strong")


def _sentence(detail: str) -> str:
    """Return a cause as a sentence; a name such as `torch._dynamo.config` keeps its first letter."""
    named = set("._`") & set(detail.partition(" ")[0])
    return f"{detail[:1] if named else detail[:1].upper()}{detail[1:].rstrip('.')}."


def _side_text(side: DivergenceSide, file: str) -> str:
    at = places(file).describe(side.location)
    text = side.text if len(side.text) <= _MOST_CHARS else f"{side.text[: _MOST_CHARS - 1]}…"
    text = with_values(text, side.values)
    return f"{text}  {at}" if at else text


def with_values(text: str, values: Sequence[str]) -> str:
    """Return the text of a side of a divergence with what the condition read there."""
    return f"{text}, with {' and '.join(values)}" if values else text


_MOST_CHARS = 60
"""Characters of one side on the main screen; the ranks screen has all of them."""


def _stack_spans(hang: Hang, rows: Sequence[RankRow], file: str) -> Iterator[Span]:
    ranks = [*hang.ranks[:1], *hang.waiting[:1]][:MOST_SIDES]
    for row in (row for number in ranks for row in rows if row.rank == number):
        if row.stack:
            yield Span(f"   rank {row.rank}: {stack_text(row, file)} ", "strong")
    if not any(row.stack for row in rows):
        yield Span("   install py-spy (pip install py-spy) to see the Python stacks", "muted")


def stack_text(row: RankRow, file: str) -> str:
    """Return the innermost frames of the user's code, `average line 27 ← train line 56`, after the call that waits."""
    frames = [frame for frame in row.stack if frame.file == file]
    frames = frames or [frame for frame in row.stack if row.place is not None and frame.file == row.place.file]
    names = [f"{frame.function} line {frame.line}" for frame in frames[:_MOST_FRAMES]]
    head = row.stack[0]
    if head not in frames:
        names.insert(0, row.call or head.function)
    return " ← ".join(names)
