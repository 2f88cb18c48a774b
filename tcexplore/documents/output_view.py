"""The output pane: what the program printed, why it failed, and which facts are unavailable."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from tcexplore import events as ev
from tcexplore.documents.document import Part, Parts, Row, Span, by_identity, fixed
from tcexplore.documents.empty_states import describe_phase, not_in_trace_rows
from tcexplore.documents.locations import places
from tcexplore.documents.prose import BLANK, fold, row, wrapped
from tcexplore.events import Failed, Output
from tcexplore.keymap import hint
from tcexplore.quantities import count
from tcexplore.session import Snapshot
from tcexplore.session.links import line_links

EMPTY_TEXT = "The output of your program appears here, stderr marked with ▎. If it fails, its traceback comes first."

BLAME = {"user": "error in your file or its arguments", "compiler": "error in torch or the worker, not in your file"}

BISECT = "Press {} to find the compiler stage that fails."

STDERR = "▎"
"""Mark in front of each line of stderr."""


def output_document(snapshot: Snapshot, toggled: frozenset[str] = frozenset(), width: int = 78) -> Parts:
    """Return the document of the pane."""
    parts = [fixed(failure_rows(snapshot, snapshot.failure, width))] if snapshot.failure else []
    if snapshot.output_dropped:
        text = f" … {count(snapshot.output_dropped, 'earlier character')} dropped"
        parts.append(fixed([row((text, "warn"))]))
    parts += [_printed(written) for written in snapshot.output]
    if not snapshot.output and not snapshot.failure:
        parts.append(fixed(_silent(snapshot, width)))
    parts.append(fixed(missing_fact_rows(snapshot, toggled, width)))
    return Parts(_title(snapshot), parts)


def last_output_rows(snapshot: Snapshot, most: int) -> Iterator[Row]:
    """Yield the last `most` lines that the program printed."""
    rows = [part.build(n) for part in map(_printed, snapshot.output) for n in range(part.count)]
    if len(rows) > most:
        yield row((f" … {count(len(rows) - most, 'earlier line')} (--json has all of them)", "muted"))
    yield from rows[-most:]


def _title(snapshot: Snapshot) -> str:
    if snapshot.failure is not None:
        return f"✖ {snapshot.failure.type}"
    lines = sum(len(_lines(written)) for written in snapshot.output)
    return count(lines, "line") if lines else ""


def failure_rows(snapshot: Snapshot, failed: Failed, width: int) -> Iterator[Row]:
    """Yield the error, its line, the values there, a hint and the traceback."""
    at = failed.location
    links = line_links(at)
    where = places(snapshot.file).describe(at) or failed.stage
    yield row((f"✖ {failed.type}", "error"), (f"  {where}", "location" if at else "muted"),
              (f"  {BLAME.get(failed.blame, failed.blame)}", "muted"), location=at, links=links)  # fmt: skip
    yield from wrapped(failed.message, width, "strong", indent=2, location=at, links=links)
    for value in failed.values:
        yield from wrapped(value, width, "", indent=4, location=at, links=links)
    if failed.hint:
        yield from wrapped(failed.hint, width, "ok", indent=2, lead="→ ", location=at, links=links)
    if failed.blame == "compiler":
        yield from wrapped(BISECT.format(hint("bisect")), width, "ok", indent=2, keys_only=True)
    yield BLANK
    for line in failed.traceback.splitlines():
        yield row((f"  {line}", "muted"), location=at, links=links, copy=line)
    if failed.traceback:
        yield BLANK


@by_identity(256)
def _lines(written: Output) -> list[str]:
    return written.text.removesuffix("\n").split("\n")


def _printed(written: Output) -> Part:
    lines = _lines(written)
    return Part(len(lines), partial(_line, lines, written.stream == "stderr"))


def _line(lines: list[str], stderr: bool, index: int) -> Row:
    text = lines[index]
    mark = Span(STDERR, "warn") if stderr else Span(" ")
    return Row((mark, Span(text, "warn" if stderr else "")), copy=text)


def _silent(snapshot: Snapshot, width: int) -> Iterator[Row]:
    if snapshot.trace:
        yield from not_in_trace_rows(snapshot, ev.RunFact.OUTPUT, width)
        return
    if snapshot.status == "running" and not snapshot.complete:
        yield row((f" … {describe_phase(snapshot)}", "running"))
    yield row((" no output", "muted"))
    yield BLANK
    yield from wrapped(EMPTY_TEXT, width, "muted")


def missing_fact_rows(snapshot: Snapshot, toggled: frozenset[str], width: int) -> Iterator[Row]:
    """Yield the facts that are not known, with the reasons."""
    if not snapshot.missing_facts:
        return
    opened = "missing" not in toggled
    yield BLANK
    source = " in a trace" if snapshot.trace else ""
    label = f"{count(len(snapshot.missing_facts), 'fact')} unavailable{source}"
    yield fold("missing", opened, (label, "warn"), indent=0)
    for missing in snapshot.missing_facts if opened else ():
        yield from wrapped(f"{missing.fact}: {missing.reason}", width, indent=3)
        if not snapshot.trace:
            yield row((f"     {missing.symbol}", "dim"))
