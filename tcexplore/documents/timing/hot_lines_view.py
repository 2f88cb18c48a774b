"""The lines view of the timing pane: the lines of the user's files by their time in one call."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from tcexplore import events as ev
from tcexplore.documents.document import Parts, Row, fixed
from tcexplore.documents.empty_states import empty_part, missing_reason
from tcexplore.documents.line_facts import lines_by_definition, read_lines, times_of_lines, times_outside_call
from tcexplore.documents.locations import places
from tcexplore.documents.module_folds import module_folds
from tcexplore.documents.prose import BLANK, heading, row, shortened, wrapped
from tcexplore.documents.timing.captured_rows import call_title, passes_and_inputs
from tcexplore.events import Location
from tcexplore.quantities import count, duration
from tcexplore.session import Snapshot
from tcexplore.session.line_times import LineTime, LineTimes
from tcexplore.session.links import line_link, line_links

EMPTY_TEXT = (
    "The lines of your files appear here after the first timing, sorted by their share of a call: each op of an eager "
    "call is timed, and each kernel of a compiled one."
)

NO_TIMES = "The lines of a call were not measured."

SHARED = "≈ kernels of several lines are split by the bytes or FLOPs of each line's ops."

ESTIMATED = (
    "Estimates: the machine ran over 10% faster or slower than in the timing while the lines were measured. The times "
    "are scaled to the timing."
)

OPS_ONLY = "The time of a line is that of its ops: their Python, as that of an optimizer, is on no line."

HOTTEST = 5
"""Lines in the printed report."""


def hot_lines_document(snapshot: Snapshot, toggled: frozenset[str] = frozenset(), width: int = 78) -> Parts:
    """Return the document of the view."""
    times = times_of_lines(snapshot)
    if times is None and snapshot.trace:
        return Parts("", [empty_part(snapshot, width, EMPTY_TEXT, ev.RunFact.LINE_TIMES)])
    if times is None:
        reason = missing_reason(snapshot, ev.RunFact.LINE_TIMES)
        if not reason and not snapshot.timing_skipped:
            if snapshot.complete and snapshot.status == "running":
                return Parts("", [fixed([row((" … timing", "running")), BLANK, *wrapped(EMPTY_TEXT, width, "muted")])])
            return Parts("", [empty_part(snapshot, width, EMPTY_TEXT)])
        return Parts("", [fixed(wrapped(f"{NO_TIMES} {reason}".strip(), width, "muted"))])
    outside = times_outside_call(snapshot)
    rows = hot_line_rows(snapshot, times, toggled, width)
    if outside is None:
        return Parts(count(len(times.lines), "line"), [fixed(rows)])
    others = _outside_rows(snapshot, outside, width)
    return Parts(count(len(times.lines) + len(outside.lines), "line"), [fixed(rows), fixed(others)])


def hottest_line_rows(snapshot: Snapshot, width: int) -> Iterator[Row]:
    """Yield the hottest lines of a run for the printed report, without the rest."""
    times = times_of_lines(snapshot)
    if times is not None and times.lines:
        yield from _doubt(times.lines[:HOTTEST], width)
        yield _columns(times)
        yield from _whole_rows(times)
        yield from (_line_row(snapshot, time, times, width) for time in times.lines[:HOTTEST])
        yield from _notes(times.lines[:HOTTEST], width)


def hot_line_rows(snapshot: Snapshot, times: LineTimes, toggled: frozenset[str], width: int) -> Iterator[Row]:
    """Yield the whole call and what of it is on no line, the lines, longest first, then the parts of the rest.

    Those of a model with repeated layers are grouped by the class or function that contains them.
    """
    yield heading(f"Lines of one {times.of}", f"share of the {times.side} {times.of}")
    if times.lines:
        yield from wrapped(_name_slowest(snapshot, times), width, "strong")
    if times.of == "call" and (call := next(iter(snapshot.captured_calls), None)):
        of = f"These are times of {call_title(snapshot, call)} in the script, {passes_and_inputs(call)}"
        yield from wrapped(f"{of}. A step has also what is outside of it, such as the optimizer.", width, "muted")
    if text := _describe_load(snapshot, times):
        yield from wrapped(text, width, "warn", lead="! ")
    yield from _doubt(times.lines, width)
    yield _columns(times)
    yield from _whole_rows(times)
    if module_folds(snapshot).repeats:
        yield from _rows_by_class(snapshot, times, toggled, width)
    else:
        yield from (_line_row(snapshot, time, times, width) for time in times.lines)
    if len(times.rest) > 1:
        yield BLANK
        yield heading("On no line")
        for rest in times.rest:
            yield row((_figures(times, rest.eager_us, rest.compiled_us), "muted"), rest.name)
    yield BLANK
    if times.compiled_us is not None and (text := _name_gaps(snapshot, times)):
        yield from wrapped(text, width, "muted")
    yield from _notes(times.lines, width)


def _name_gaps(snapshot: Snapshot, times: LineTimes) -> str:
    """Return that lines with a graph break have the time of their kernels only; empty without such lines."""
    timed = {(time.file, time.line) for time in times.lines}
    broken = [at for known in snapshot.breaks if (at := known.location) and (at.file, at.line) in timed]
    if not broken:
        return ""
    lines = ", ".join(dict.fromkeys(map(places(snapshot.file).describe, broken)))
    return f"Graph break in {lines}: its time is without the gap between the graphs, which counts as on no line."


def _outside_rows(snapshot: Snapshot, outside: LineTimes, width: int) -> Iterator[Row]:
    """Yield the lines of a script's step that are not in the captured call."""
    yield heading("Other lines of a step", "share of the eager step")
    yield from _doubt(outside.lines, width)
    yield _columns(outside)
    yield row((_figures(outside, outside.eager_us, None), "strong"), ("the step", "strong"))
    yield from (_line_row(snapshot, time, outside, width) for time in outside.lines)
    yield BLANK
    yield from wrapped(_note_on_python(snapshot), width, "muted")
    yield from _notes(outside.lines, width)


def _note_on_python(snapshot: Snapshot) -> str:
    """Return that Python is on no line, and what the optimizer takes with its own."""
    parts = {part.name: part.us for part in snapshot.steps.rest} if snapshot.steps is not None else {}
    if (us := parts.get("optimizer")) is None:
        return OPS_ONLY
    return f"{OPS_ONLY} With its Python, the optimizer takes {_duration(us)} of a compiled step."


def _whole_rows(times: LineTimes) -> Iterator[Row]:
    """Yield the call and the sum of what is on no line: the lines alone do not give the speedup of the call."""
    yield row((_figures(times, times.eager_us, times.compiled_us), "strong"), (f"the {times.of}", "strong"))
    if times.rest:
        sums = (sum(rest.eager_us or 0.0 for rest in times.rest), sum(rest.compiled_us or 0.0 for rest in times.rest))
        name = f": {times.rest[0].name}" * (len(times.rest) == 1)
        yield row((_figures(times, *sums), "muted"), f"on no line{name}")


def _rows_by_class(snapshot: Snapshot, times: LineTimes, toggled: frozenset[str], width: int) -> Iterator[Row]:
    """Yield a fold for each class or function, that with the most time first, and its lines."""
    groups: dict[tuple[str, str], list[LineTime]] = {}
    for file in dict.fromkeys(time.file for time in times.lines):
        text = "\n".join(read_lines(snapshot, file).values())
        numbers = dict.fromkeys(time.line for time in times.lines if time.file == file)
        names = {line: name for name, lines in lines_by_definition(text, numbers).items() for line in lines}
        for time in times.lines:
            if time.file == file:
                groups.setdefault((file, names.get(time.line, "")), []).append(time)
    ordered = sorted(groups.items(), key=lambda group: -sum(time.share for time in group[1]))
    for number, ((file, name), own) in enumerate(ordered):
        key = f"lines of {name} {file}"
        opened = (key in toggled) != (number == 0)  # the one with the most time is open at first
        sums = (sum(time.eager_us or 0.0 for time in own), sum(time.compiled_us or 0.0 for time in own))
        figures = _figures(times, *sums)
        links = () if opened else tuple(line_link(Location(time.file, time.line)) for time in own)
        title = name or places(snapshot.file).path(file)
        yield row(
            (figures, "number"), ("▾ " if opened else "▸ ", "key"), (title, "heading"),
            (f"  {count(len(own), 'line')}", "muted"), fold=key, hides=links, location=Location(file, own[0].line),
        )  # fmt: skip
        yield from (_line_row(snapshot, time, times, width) for time in own if opened)


def _name_slowest(snapshot: Snapshot, times: LineTimes) -> str:
    """Return `Most time: eager line 56 (81.3 ms), compiled line 58 (33.0 ms)`, forward and backward together."""
    describe = places(snapshot.file).describe
    parts = []
    for side, whole in (("eager", times.eager_us), ("compiled", times.compiled_us)):
        if whole is not None:
            sums: defaultdict[Location, float] = defaultdict(float)
            for time in times.lines:
                own = time.eager_us if side == "eager" else time.compiled_us
                sums[Location(time.file, time.line)] += own or 0.0
            slowest, us = max(sums.items(), key=lambda each: each[1])
            parts.append(f"{side} {describe(slowest)} ({_duration(us)})")
    both = ", forward and backward (↩) together" if any(time.phase == "backward" for time in times.lines) else ""
    return f"Most time: {', '.join(parts)}{both}"


def _describe_load(snapshot: Snapshot, times: LineTimes) -> str:
    """Return that the lines of a CPU were timed beside other programs, if they were."""
    timing, account = snapshot.timing if times.of == "step" else snapshot.call_timing, snapshot.call_account
    if timing is None or not timing.load or (account is not None and account.on_device):
        return ""
    return f"Measured {timing.load}: the time of a line includes waiting for a core."


def _notes(lines: tuple[LineTime, ...], width: int) -> Iterator[Row]:
    if any(time.shared for time in lines):
        yield from wrapped(SHARED, width, "muted")


def _doubt(lines: tuple[LineTime, ...], width: int) -> Iterator[Row]:
    """Yield, before the times, that they are estimates."""
    if any(time.estimated for time in lines):
        yield from wrapped(ESTIMATED, width, "warn", lead="! ")


def _columns(times: LineTimes) -> Row:
    return (
        row((f" {'share':>5} {'eager':>9} {'compiled':>9}   line", "dim"))
        if _both(times)
        else row((f" {'share':>5} {times.side:>9}   line", "dim"))
    )


def _both(times: LineTimes) -> bool:
    return times.eager_us is not None and times.compiled_us is not None


def _figures(times: LineTimes, eager_us: float | None, compiled_us: float | None) -> str:
    """Return a share of the call on the side of `times`, and the time on each side."""
    shown, whole = (eager_us, times.eager_us) if times.compiled_us is None else (compiled_us, times.compiled_us)
    share = (shown or 0.0) / whole if whole else 0.0
    sides = [us for us, total in ((eager_us, times.eager_us), (compiled_us, times.compiled_us)) if total is not None]
    return f" {share:>5.0%} " + " ".join(f"{_duration(us or 0.0):>9}" for us in sides) + "  "


def _duration(us: float) -> str:
    return duration(us / 1e6) if us else "0"


def _line_row(snapshot: Snapshot, time: LineTime, times: LineTimes, width: int) -> Row:
    at = Location(time.file, time.line)
    figures = _figures(times, time.eager_us, time.compiled_us)
    where = places(snapshot.file).abbreviate(at)
    code = read_lines(snapshot, time.file).get(time.line, "").strip()
    phase = "↩ " if time.phase == "backward" else ""
    lead = f"{'≈' if time.shared else ' '}{where:>4} {phase}"
    room = max(width - len(figures) - len(lead) - 2, 8)
    return row((figures, "number"), (lead, "muted"), shortened(code, room), links=line_links(at), location=at)
