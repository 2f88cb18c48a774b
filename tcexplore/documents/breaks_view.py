"""The breaks pane: graph breaks by cost, their reasons and hints, eager ops, skipped frames."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from rich.cells import cell_len

from tcexplore.documents.bytecode_view import break_step_rows, known_steps, rewritten_at
from tcexplore.documents.document import Parts, Row, fixed
from tcexplore.documents.empty_states import empty_part, not_in_profile_rows, nothing_compiled_rows
from tcexplore.documents.line_facts import (
    broken_expression,
    format_cost_briefly,
    format_share,
    is_share_of_forward,
    lines_of_fix,
)
from tcexplore.documents.locations import places
from tcexplore.documents.prose import BLANK, fold, row, shortened, wrapped
from tcexplore.events import BreakFix, FrameSkipped, GraphBreak
from tcexplore.keymap import hint
from tcexplore.quantities import count, duration, first_of
from tcexplore.session import Snapshot
from tcexplore.session.cache_entries import constants_after, value_recompiles
from tcexplore.session.call_account import eager_ops, lines_of_eager_ops
from tcexplore.session.links import break_link, line_link, line_links
from tcexplore.session.ranked_breaks import RankedBreak, rank_breaks, uncompiled_functions
from tcexplore.session.stable_ids import stable_ids

EMPTY_TEXT = (
    "A graph break is where Dynamo leaves the graph and runs your Python. Each one appears here with its line, torch's "
    "reason and hints. The goal is zero breaks."
)

_BLANK = re.compile(r"\{[^}]*\}")
"""A blank in a text of the registry: `{}`, `{fn.__name__}`."""

WIDE = 66
"""Columns from which the line of a break has the whole line of code, if that is short."""

CODE_WIDTH = 28
"""Most columns of the code."""

_NOTES = {"verified": "Verified, ", "verifying": "Tried: ", "refused": "Refused: ", "untested": "Not verified: "}
"""Starts of the note on a fix, by its state."""

REPORT_ISSUE = "Please report an issue to PyTorch"
"""Start of a hint that suggests no change."""


def breaks_document(snapshot: Snapshot, toggled: frozenset[str] = frozenset(), width: int = 78) -> Parts:
    """Return the document of the pane."""
    if not snapshot.compiled and not snapshot.breaks:
        return Parts("", [empty_part(snapshot, width, EMPTY_TEXT)])
    parts = [fixed(_verdict(snapshot, width))]
    parts += [fixed(_break(snapshot, costed, toggled, width)) for costed in rank_breaks(snapshot)]
    parts += [
        fixed(_shared_cost(snapshot, width)),
        fixed(_uncompiled(snapshot, toggled, width)),
        fixed(_eager_ops(snapshot, toggled)),
        fixed(_skipped(snapshot, toggled, width)),
        fixed(_restarts(snapshot, toggled, width)),
    ]
    return Parts(_title(snapshot), parts)


def _title(snapshot: Snapshot) -> str:
    known = snapshot.breaks or (snapshot.complete and not snapshot.profile_alone)
    breaks = str(len(snapshot.breaks)) if known else ""
    uncompiled = len(uncompiled_functions(snapshot)) if snapshot.compiled else 0
    return ", ".join(filter(None, (breaks, f"{count(uncompiled, 'function')} not compiled" if uncompiled else "")))


def _verdict(snapshot: Snapshot, width: int) -> Iterator[Row]:
    """Yield a badge if there are no breaks, or if nothing was compiled."""
    if snapshot.complete and not snapshot.compiled:
        yield from nothing_compiled_rows(snapshot, width)
        yield BLANK
    elif snapshot.profile_alone:
        yield from not_in_profile_rows(width)
        yield BLANK
    elif snapshot.complete and not snapshot.breaks:
        graphs = len(snapshot.graphs)
        ranks = snapshot.rank_comparison.rows if snapshot.rank_comparison is not None else ()
        where = f", in {snapshot.trace}" if len(ranks) > 1 else ""
        yield row((" ✔ 0 graph breaks ", "badge.ok"), (f" {count(graphs, 'graph')}{where}", "ok"))
        why = "" if graphs == 1 else " The graphs come from separate frames or recompiles."
        yield from wrapped(f"No breaks: every traced function is one graph.{why}", width, "muted")
    for note in snapshot.entry.notes if snapshot.complete and snapshot.entry is not None else ():
        yield from wrapped(note, width, "muted")


def _break(snapshot: Snapshot, costed: RankedBreak, toggled: frozenset[str], width: int) -> Iterator[Row]:
    """Yield one line with place, cost, code, reason and fix, and the details if it is open.

    In a narrow pane, the parts that do not fit follow on one or two more lines.
    """
    graph_break, fix = costed.graph_break, snapshot.fix_of(costed.graph_break)
    link, at = break_link(graph_break), graph_break.location
    links = (link, line_link(at)) if at else (link,)
    name = f"break {link.where} {link.name}"
    opened = name in toggled
    place = places(snapshot.file).describe(at) or "unknown line"
    lost, times = format_cost_briefly(costed, snapshot), f" ×{graph_break.count}" if graph_break.count > 1 else ""
    whole = width >= WIDE and cell_len(graph_break.code) <= CODE_WIDTH
    code = graph_break.code if whole else shortened(broken_expression(graph_break), CODE_WIDTH)
    reason = "" if opened else graph_break.reason or graph_break.kind
    used = cell_len(f"▸ ✖ {place}{times}  {lost}  {code}")
    same_line, next_lines = _reason_and_fix(
        reason, _fix_label(fix, "not verified" if snapshot.trace else "not verified yet"), width - used, width
    )
    if next_lines and not whole:  # the reason is not on this line: there may be room for more of the code
        room = width - used - sum(cell_len(text) for text, _ in same_line) + cell_len(code)
        code = shortened(graph_break.code, room) if room > CODE_WIDTH else code
    yield fold(name, opened, ("✖ ", "break"), (place, "break"), (times, "muted"),
               (f"  {lost}" if lost else "", "number"), (f"  {code}", "strong"), *same_line,
               links=links, location=at, indent=0, meaning=_meaning(snapshot, costed))  # fmt: skip
    for line in next_lines:
        yield row(" ", *line, links=links, location=at)
    if opened:
        yield from (Row(r.spans, links, at) for r in _details(snapshot, costed, fix, width))
        yield from _bytecode(snapshot, graph_break, f"{name} bytecode", toggled, width)
        yield from _torch_notes(snapshot, graph_break, name, name + " more" in toggled, width)
        yield BLANK


def _meaning(snapshot: Snapshot, costed: RankedBreak) -> str:
    """Return the figures of the line of a break in words."""
    times = f"in {costed.graph_break.count} compiles" if costed.graph_break.count > 1 else ""
    cost = f"costs {lost}" if (lost := format_cost(costed, snapshot)) else ""
    unclear = f"cost unclear: {costed.contradicted}" if costed.contradicted else ""
    return ", ".join(filter(None, (times, cost or unclear)))


def _reason_and_fix(
    reason: str, fix: tuple[str, str], room: int, width: int
) -> tuple[list[tuple[str, str]], list[list[tuple[str, str]]]]:
    """Return the parts of reason and fix that fit on the line of the code, and those for the next lines."""
    same_line: list[tuple[str, str]] = []
    next_line: list[tuple[str, str]] = []
    label, style = fix
    if label:
        fits = cell_len(label) + 2 <= room
        (same_line if fits else next_line).append((f"  {label}", style))
        room -= cell_len(label) + 2 if fits else 0
    if reason and room - 2 >= cell_len(reason):
        same_line.insert(0, (f"  {reason}", ""))
    elif reason:
        room = width - 5 - sum(cell_len(text) for text, _ in next_line)
        if not next_line or room < cell_len(reason):
            return same_line, [*_reason_lines(reason, width), *([next_line] if next_line else [])]
        next_line.insert(0, (f"  {reason}", "muted"))
    return same_line, [next_line] if next_line else []


def _reason_lines(reason: str, width: int) -> list[list[tuple[str, str]]]:
    """Return the whole reason in as many lines as it needs."""
    return [[(each.text, "muted")] for each in wrapped(reason, width - 1, indent=2)]


def _fix_label(fix: BreakFix | None, verification: str) -> tuple[str, str]:
    """Return what is known of a fix in a few words, and their style; `verification` is of a proposed one."""
    match fix:
        case None:
            return "", ""
        case BreakFix(state="verified"):
            return f"fix: {fix.name} ✔ {hint('fix')}", "ok"
        case BreakFix(state="untested"):
            return f"fix: {fix.name}, a branch is untested {hint('fix')}", "warn"
        case BreakFix(state="refused"):
            return "no safe fix found", "muted"
        case BreakFix(state="none"):
            return "no automatic fix", "muted"
        case BreakFix(state="verifying", note=refused) if refused:
            return f"fix: {fix.name}, not verified yet; another was tried", "muted"
    return f"fix: {fix.name}, {verification}", "muted"


def _details(snapshot: Snapshot, costed: RankedBreak, fix: BreakFix | None, width: int) -> Iterator[Row]:
    """Yield code, reason, fix, explanation and cost."""
    graph_break = costed.graph_break
    yield row(f"   {shortened(graph_break.code, width - 4)}")
    yield from wrapped(graph_break.reason or graph_break.kind, width, "strong", indent=3)
    if fix is not None and fix.code and fix.state != "refused":
        inputs = f"  verified on {count(fix.inputs, 'input')}" if fix.state == "verified" else ""
        style = "ok" if fix.state == "verified" else ""
        for number, line in enumerate(lines_of_fix(fix)):
            lead, end = ("   fix ", inputs) if number == 0 else ("       ", "")
            yield row((lead, "muted"), (shortened(line, width - 7), style), (end, "muted"))
    if fix is not None and fix.note:
        yield from wrapped(fix.note, width, indent=3, lead=_NOTES.get(fix.state, "Instead: "))
    if lost := format_cost(costed, snapshot):
        yield from wrapped(f"{lost}{explain_cost(costed)}", width, "muted", indent=3, lead="Cost: ")
    if text := describe_constants(snapshot, graph_break):
        yield from wrapped(text, width, "muted", indent=3)
    if costed.gain_of_fix is not None:
        low, high = (duration(end / 1e6) for end in costed.gain_of_fix)
        text = f"What the fix gains is within the noise: between {low} and {high} {_unit(snapshot)}."
        yield from wrapped(text, width, "muted", indent=3)
    if costed.contradicted:
        yield from wrapped(f"The cost is unclear: {costed.contradicted}.", width, "warn", indent=3)
    in_registry = f" · {graph_break.registry_id} in torch's registry" if graph_break.registry_id else ""
    own_id = f"id {stable_ids(snapshot).graph_break(graph_break)} (tcexplore ask, allow-lists)"
    yield from wrapped(f"{own_id}{in_registry}", width, "muted", indent=3)


def _bytecode(
    snapshot: Snapshot, graph_break: GraphBreak, name: str, toggled: frozenset[str], width: int
) -> Iterator[Row]:
    """Yield a fold with the steps that Dynamo put in place of the function that breaks."""
    function = next(iter(rewritten_at(snapshot, graph_break)), None)
    if function is None:
        return
    links, opened = (break_link(graph_break),), name in toggled
    text = f"what runs in place of {function.name}, in {count(len(known_steps(function)), 'step')}"
    yield fold(name, opened, (text, "muted"), indent=3, links=links, location=graph_break.location, keys_only=True)
    if opened:
        yield from break_step_rows(snapshot, graph_break, width)


def _torch_notes(snapshot: Snapshot, graph_break: GraphBreak, name: str, opened: bool, width: int) -> Iterator[Row]:
    """Yield a fold with the user stack, the notes of torch's registry, torch's context and the link to its page."""
    links, where = (break_link(graph_break),), places(snapshot.file)
    notes = _registry_notes(graph_break)
    hints = [text for text in graph_break.hints if not text.startswith(REPORT_ISSUE)]
    explained = bool(graph_break.explanation) and graph_break.explanation != graph_break.reason
    parts = ["torch's explanation"] if explained else []
    parts += [f"torch's {'hint' if len(hints) == 1 else 'hints'}"] if hints else []
    parts += [count(len(graph_break.stack), "frame")] if graph_break.stack else []
    parts += [f"registry notes on {graph_break.registry_id}"] if notes else []
    parts += ["torch's context"] if graph_break.context else []
    parts += ["link"] if graph_break.url else []
    if not parts:
        return
    yield fold(
        f"{name} more",
        opened,
        (", ".join(parts), "muted"),
        indent=3,
        links=links,
        location=graph_break.location,
        keys_only=True,
    )
    if not opened:
        return
    for text in (*([graph_break.explanation] if explained else []), *hints):
        yield from wrapped(text, width, indent=5, lead="torch: ", links=links)
    for frame in graph_break.stack:
        function = f" in {frame.function}" if frame.function else ""
        yield row((f"     {where.describe(frame)}", "location"), (function, "muted"), links=links, location=frame)
    for text in notes:
        yield from wrapped(text, width, indent=5, lead="registry: ", links=links)
    if graph_break.context:
        yield from wrapped(graph_break.context, width, "dim", indent=5, lead="context: ", links=links, keys_only=True)
    if graph_break.url:
        yield row("     ", (graph_break.url, "location"), links=links, copy=graph_break.url)


def _shared_cost(snapshot: Snapshot, width: int) -> Iterator[Row]:
    """Yield the shared cost of the breaks and the key for a fix."""
    if text := format_shared_cost(snapshot):
        yield from wrapped(text, width, "muted")
    if snapshot.breaks and snapshot.complete:
        tried = any(fix.state in ("verified", "untested") for fix in snapshot.fixes)
        fix = f"{hint('fix')}: {'see the fix' if tried else 'look for a fix'} · " if not snapshot.trace else ""
        yield from wrapped(f"{fix}{hint('open')}: details", width, "muted", keys_only=True)
        yield BLANK


def _registry_notes(graph_break: GraphBreak) -> list[str]:
    """Return the registry's texts that the break itself does not have; the break fills in their blanks."""
    known = f"{graph_break.explanation} {' '.join(graph_break.hints)}"
    texts = (graph_break.registry_explanation, *graph_break.registry_hints)
    own = (text for text in texts if text and not text.startswith(REPORT_ISSUE))
    return [text for text in own if not all(piece.strip() in known for piece in _BLANK.split(text))]


def _eager_ops(snapshot: Snapshot, toggled: frozenset[str]) -> Iterable[Row]:
    """Yield the ops that one call runs eagerly although the program is compiled.

    On a GPU, ops without a kernel are left out, as `aten.detach` that torch calls for each parameter.
    """
    account = snapshot.call_account
    known = eager_ops(account)
    if known is None or account is None:
        return
    ops = [op for op in known if op[2] > 0]
    if not ops:
        if snapshot.breaks:
            yield row((f" no op runs {'a kernel ' if known else ''}outside the graphs", "muted"))
        return
    opened = "outside" not in toggled
    total = duration(account.us("eager op") / 1e6)
    many = count(sum(times for _, times, _ in ops), "op")
    yield fold("outside", opened, ("eager ops", "heading"), (f"  {many}, {total} per call", "muted"), indent=0)
    lines, where = lines_of_eager_ops(account), places(snapshot.file)
    for name, times, us in ops if opened else ():
        own = lines.get(name, ())
        place = where.describe(own[0]) if len(own) == 1 else count(len(own), "line") if own else ""
        more = f"{f'  ×{times}' if times > 1 else ''}{f'  {place}' if place else ''}"
        first = own[0] if own else None
        yield row(
            (f"   {duration(us / 1e6):>8}  ", "number"), name, (more, "muted"), links=line_links(first), location=first
        )
    if opened:
        who = "each call also enters" if account.calls == 1 else f"{account.calls} calls also enter"
        yield row((f"   {who} compiled code {count(account.profile.region_entries, 'time')}", "muted"))
    yield BLANK


def _uncompiled(snapshot: Snapshot, toggled: frozenset[str], width: int) -> Iterator[Row]:
    """Yield the functions that are not compiled at all."""
    functions = uncompiled_functions(snapshot)
    if functions and snapshot.compiled:
        heading = (f"✖ {count(len(functions), 'function')} not compiled", "break")
        yield from _frames(snapshot, "uncompiled", heading, functions, toggled, width)
        yield BLANK


def _skipped(snapshot: Snapshot, toggled: frozenset[str], width: int) -> Iterator[Row]:
    """Yield the other frames that Dynamo skipped."""
    functions = uncompiled_functions(snapshot)
    others = [frame for frame in snapshot.skipped_frames if frame not in functions]
    if others and snapshot.compiled:
        yield from _frames(snapshot, "skipped", ("skipped frames", "heading"), others, toggled, width)


def _restarts(snapshot: Snapshot, toggled: frozenset[str], width: int) -> Iterator[Row]:
    """Yield a fold with the attempts that torch gave up, each with its reason: every break causes one."""
    if not snapshot.restarts:
        return
    opened, where = "restarts" in toggled, places(snapshot.file)
    total = count(sum(restart.count for restart in snapshot.restarts), "attempt")
    yield fold("restarts", opened, ("restarts", "heading"), (f"  torch gave up {total} to trace", "muted"), indent=0)
    for restart in snapshot.restarts if opened else ():
        links = line_links(restart.location)
        times = f"  ×{restart.count}" if restart.count > 1 else ""
        place = where.describe(restart.location)
        yield row(f"   {restart.graph}  {place}", (times, "muted"), links=links, location=restart.location)
        yield from wrapped(restart.reason, width, "muted", indent=5, links=links, location=restart.location)


def _frames(
    snapshot: Snapshot,
    name: str,
    title: tuple[str, str],
    frames: Sequence[FrameSkipped],
    toggled: frozenset[str],
    width: int,
) -> Iterator[Row]:
    """Yield a fold with frames that Dynamo skipped, each with torch's reason."""
    opened, where = name not in toggled, places(snapshot.file)
    yield fold(name, opened, title, (f"  {len(frames)}" if name == "skipped" else "", "muted"), indent=0)
    for skipped in frames if opened else ():
        links = line_links(skipped.frame)
        function = f"{skipped.frame.function}, " if skipped.frame.function else ""
        yield row(f"   {function}{where.describe(skipped.frame)}", links=links, location=skipped.frame)
        yield from wrapped(skipped.reason, width, "muted", indent=5, links=links, location=skipped.frame)


def format_cost(costed: RankedBreak, snapshot: Snapshot) -> str:
    """Return `at least 64 µs per call (16% of the profiled call, 400 µs)`.

    With a timed fix, it is `164 µs [150 µs, 178 µs] per call (40% of the call without the fix, 410 µs)`. The share is
    that of the call in which it was measured, which takes another time than those of the timing.
    """
    if costed.us is None or costed.share is None or costed.contradicted:
        return ""
    of = f" of {_measured_in(costed, snapshot)}, {duration(costed.us / costed.share / 1e6)}" if costed.share else ""
    if costed.high_us is None or costed.low_us is None:
        if costed.is_too_short:
            return f"nothing certain {_unit(snapshot)}"
        return f"at least {duration(costed.us / 1e6)} {_unit(snapshot)} ({format_share(costed.share)}{of})"
    low, high = (duration(end / 1e6) for end in (costed.low_us, costed.high_us))
    if costed.is_undecided:
        return f"undecided, between {low} and {high} {_unit(snapshot)}"
    return f"{duration(costed.us / 1e6)} [{low}, {high}] {_unit(snapshot)} ({format_share(costed.share)}{of})"


def _measured_in(costed: RankedBreak, snapshot: Snapshot) -> str:
    """Return in what the cost of a break was measured."""
    several = "s" * (snapshot.entry is not None and len(snapshot.entry.calls) > 1)
    if costed.basis == "verified fix":
        return f"the call{several} without the fix"
    return f"the profiled {'forward' if is_share_of_forward(costed, snapshot) else 'call'}{several}"


def describe_constants(snapshot: Snapshot, graph_break: GraphBreak) -> str:
    """Return that the code after a break is compiled for a value of it; empty if it guards none."""
    values = tuple(dict.fromkeys(guard.summary for guard in constants_after(snapshot, graph_break)))
    if not values:
        return ""
    known = f"The code after it is compiled for its value ({first_of(values, 2)})"
    tried = snapshot.other_values
    if tried is None:
        return f"{known}: another value compiles it again."
    again = value_recompiles(tried, graph_break)
    calls = {recompile.call for recompile in again}
    others = f"{count(tried.calls, 'call')} with other inputs of these sizes"
    if not calls:
        return f"{known}: another value compiles it again; in {others} the value stayed the same."
    longest = duration(max(recompile.seconds for recompile in again))
    if tried.calls == 1:
        return f"{known}: a call with other inputs of these sizes compiled it again, in {longest}."
    if calls == {1}:
        return f"{known}: the first of {others} compiled it again, in {longest}; the next did not."
    which = "each" if len(calls) == tried.calls else str(len(calls))
    return f"{known}: {which} of {others} compiled it again, in up to {longest}."


def explain_cost(costed: RankedBreak) -> str:
    """Return what the time is spent on, as the rest of the sentence; empty if unknown."""
    gap = None if costed.gap_us is None else duration(costed.gap_us / 1e6)
    if costed.us is None:
        return ""
    start = ": the call now minus the call with the fix" if costed.basis == "verified fix" else ""
    if gap is None:
        return start
    if costed.whole_function:
        return f"{start}; {gap} outside the graphs: the function runs as plain Python"
    times = "" if costed.gaps == 1 else f" ({costed.gaps} times)"
    ops = sum(n for _, n, _ in costed.ops)
    eager = f"in which {count(ops, 'op')} {'runs' if ops == 1 else 'run'} eagerly: {_names(costed)}"
    eager = eager if ops else "in which no op runs"
    fusion = "" if costed.basis == "verified fix" else ". What fusion across the break would save is not in it"
    return f"{start}; {gap} from the end of this graph to the start of the next{times}, {eager}{fusion}"


def format_shared_cost(snapshot: Snapshot) -> str:
    """Return the cost of the breaks that no single break accounts for, empty if there is none."""
    costs = snapshot.break_costs
    if costs is None or not costs.elsewhere_us or not costs.costs or costs.contradicted:
        return ""
    spent = duration(costs.elsewhere_us / 1e6)
    return f"Another {spent} {_unit(snapshot)} is spent between functions that are split by breaks."


def _unit(snapshot: Snapshot) -> str:
    calls = len(snapshot.entry.calls) if snapshot.entry else 1
    return "per call" if calls <= 1 else f"over all {calls} calls"


def _names(costed: RankedBreak) -> str:
    return first_of([name for name, _, _ in costed.ops], 3)
