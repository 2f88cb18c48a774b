"""The lines above the panes: title, verdict, history."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from tcexplore import events as ev
from tcexplore.documents.code.target_notes import count_kernels, format_progress
from tcexplore.documents.configurations import format_configurations, format_torch
from tcexplore.documents.document import Row, Span
from tcexplore.documents.empty_states import NOT_IN_PROFILE, PHASES, describe_phase, what_ran
from tcexplore.documents.locations import display_path, places
from tcexplore.documents.prose import Piece, fits, fitted, piece
from tcexplore.keymap import hint
from tcexplore.quantities import count, factor, factor_range
from tcexplore.session import RunSummary, Session, changes, summarize
from tcexplore.session.ranked_breaks import rank_breaks
from tcexplore.targets.target_names import NATIVE

if TYPE_CHECKING:
    from tcexplore.events.rank_events import RanksCompared
    from tcexplore.session import Snapshot
    from tcexplore.session.next_steps import NextStep  # not imported before the first frame


# ---- title: the file, the machine, the configuration, the run in progress or in view

SHOWN_FROM_S = 1.0
"""Seconds from which the time of a run or a phase is shown: most runs take less."""

NAMES_FOLDER, NAMES_STUDY = 60, 120
"""Columns from which the title has the folder of the file, too, without and with how far a study is."""

_LEAST_S = 0.1
"""Seconds below which the time of an earlier phase is left out."""

_AFTER_COMPILE = ("eager", "accuracy", "assembling", "comparing")
"""Phases after the compile that may take seconds and have an end."""


class Elapsed(NamedTuple):
    """Seconds since the newest run began, and since its phase did."""

    run: float
    phase: float


def title_row(session: Session, standby: ev.Standby | None, elapsed: Elapsed, width: int, study: str = "") -> Row:
    """Return the line, `width` columns wide; `study` is how far a study is that goes on without its screen."""
    newest = session.newest
    if newest is None:
        return fitted([piece(" tcexplore", "title"), piece("starting", "muted")], width)
    file = display_path(newest.file)
    name = f"{file}:{newest.entry.name}" if newest.entry and newest.entry.name else file
    whole = width >= (NAMES_STUDY if study else NAMES_FOLDER)
    left = [piece(" tcexplore", "muted", 5), piece(name if whole else name.rpartition("/")[2], "title")]
    left += [*_machine(standby, newest), *_configuration(session.shown or newest)]
    right = [] if study and _is_held(newest) else list(_run(session, newest, elapsed))
    if study:  # how far it is, is left out last
        right = [*_study(newest, study), *(item._replace(priority=max(item.priority, 1)) for item in right)]
    return fitted(left, width - 1, right)


def _study(newest: Snapshot, progress: str) -> Iterator[Piece]:
    """Yield how far a study is, and what waits for it."""
    yield piece(f"◐ {progress}", "running")
    if _is_held(newest):
        yield piece(f"run {newest.run} waits for it", "muted", 5)
    elif newest.timing_goes_on:
        yield piece("timing waits for it", "muted", 5)


def _is_held(newest: Snapshot) -> bool:
    """Return whether a run waits while a study goes on: a script does at its next call."""
    return newest.is_script and newest.status == "running" and newest.phase != "answering"


def _configuration(seen: Snapshot) -> Iterator[Piece]:
    yield piece(format_configurations(seen), "muted", 3)
    if seen.target != NATIVE:
        yield piece(f"code for {seen.target}", "title", 1)


def _machine(standby: ev.Standby | None, newest: Snapshot) -> Iterator[Piece]:
    if standby is None and newest.trace:
        return
    if standby is None:
        yield piece("loading torch", "running", 2)
        return
    device = newest.config.device or standby.device
    threads = newest.timing.threads if newest.timing else newest.config.threads
    yield piece(format_torch(standby), "muted", 4)
    yield piece(f"{device}, {count(threads, 'thread')}" if threads else device, "muted", 4)


def _run(session: Session, newest: Snapshot, elapsed: Elapsed) -> Iterator[Piece]:
    """Yield which run is in view, and the phase of the newest one."""
    seen = session.shown
    if session.pinned is not None and seen is not None and seen is not newest:
        place = f"{seen.label}{'' if seen.past else f' of {newest.run}'}, from history"
        yield piece(seen.trace or place, "warn")
    elif newest.failure is not None:
        yield piece(f"run {newest.run} ✖ {newest.failure.type}", "error")
    elif newest.phase in ("switching", "lowering", "assembling") and newest.target != NATIVE:
        yield piece(f"run {newest.run}", "muted", 2)
        yield piece(f"◐ {format_progress(newest)}{_seconds(elapsed.phase)}", "running")
    elif newest.complete and newest.trace:
        yield piece(newest.trace, "title")
        yield piece("● trace", "ok")
    elif newest.complete and not (newest.phase in _AFTER_COMPILE and elapsed.phase >= SHOWN_FROM_S):
        yield piece(f"run {newest.run}", "muted")
        if newest.timing_goes_on and newest.fix_under_way is not None:
            yield piece("◐ verifying a fix", "running")
            yield piece("timing waits for it", "muted", 5)
        else:
            yield piece("● live", "ok")
    elif newest.trace:
        yield piece(newest.trace, "title")
        phase = f"◐ {describe_phase(newest)}{_seconds(elapsed.phase)}" if newest.phase else "◉ following"
        yield piece(phase, "running")
    else:
        yield piece(newest.trace or f"run {newest.run}", "muted", 2)
        yield from _phases(session, newest, elapsed)


def _phases(session: Session, newest: Snapshot, elapsed: Elapsed) -> Iterator[Piece]:
    """Yield the phases of a run so far, the current one with its time in the last complete run.

    A script tells when it begins to compile something, not when it goes on with its steps.
    """
    if newest.is_script and newest.timing is not None and newest.phase not in _AFTER_COMPILE:
        yield piece("◐ timing steps", "running")
        return
    if elapsed.run < SHOWN_FROM_S:
        yield piece(f"◐ {describe_phase(newest)}", "running")
        return
    seconds: dict[str, float] = dict(newest.phase_seconds)
    for phase, spent in seconds.items():
        if phase != newest.phase and spent >= _LEAST_S:
            ahead = newest.imported_ahead if phase == "importing" else None
            more = f" (and {ahead.seconds:.1f} ahead)" if ahead is not None and ahead.seconds >= _LEAST_S else ""
            yield piece(f"{PHASES.get(phase, phase)} {spent:.1f}{more}", "muted", 6)
    earlier = session.last_complete_before(newest)
    expected: dict[str, float] = dict(earlier.phase_seconds) if earlier is not None else {}
    spent, estimate = seconds.get(newest.phase, 0.0) + elapsed.phase, expected.get(newest.phase, 0.0)
    of = f" of ~{estimate:.1f}" if estimate >= _LEAST_S else ""
    yield piece(f"◐ {describe_phase(newest)} {spent:.1f}{of} s", "running")


def _seconds(seconds: float) -> str:
    return f" {seconds:.1f} s" if seconds >= SHOWN_FROM_S else ""


# ---- verdict: breaks, graphs, kernels, speedup, and what changed since the last save

ROUNDED_FROM = 1.1
"""Gain from which one decimal is enough."""

NEXT, COUNTS, KEYS = 4, 5, 6
"""Priorities of the pieces about what to do next, about graphs and kernels, which the panes count too, and about keys.
"""

_SHORT_HINT = 100
"""Characters of a suggestion that fits the line."""

STYLES = {"faster": "faster", "slower": "slower", "no difference": "strong", "undecided": "muted"}


def verdict_row(session: Session, width: int = 160) -> Row:
    """Return the line, at most `width` columns wide; breaks and speedup are cut last."""
    shown = session.view(lambda snapshot: snapshot.compiled)
    if shown is None:
        return fitted([piece(" no run yet", "muted")], width)
    comparison = _rank_comparison(session, shown)
    before = [*_ranks(comparison, shown.file), *_old(session, shown), *_failure(shown)]
    since = list(_since(session, shown))
    if _differ(comparison):  # what was compiled is of the rank in view, as its panes say
        return fitted([*before, *since], width)
    pieces = [*before, *_results(session, shown, brief=False), *since]
    if not fits(pieces, width):
        pieces = [*before, *_results(session, shown, brief=True), *since]
    return fitted(pieces, width)


def _results(session: Session, shown: Snapshot, *, brief: bool) -> Iterator[Piece]:
    """Yield the results of a run; if the run in view is another one, without colored badges."""
    for item in _compiled(shown, brief=brief):
        spans = item.spans
        if shown is not session.shown:
            spans = tuple(Span(text, "badge.muted" if style.startswith("badge.") else style) for text, style in spans)
        yield Piece(spans, item.priority)


def run_verdict(snapshot: Snapshot) -> Row:
    """Return the verdict on one run for a report: every figure, no keys, and no next step, which has its section."""
    pieces = [item for item in (*_failure(snapshot), *_compiled(snapshot)) if item.priority not in (NEXT, KEYS)]
    return Row(tuple(span for item in pieces if item.width for span in (*item.spans, Span("  ")))[:-1])


def _old(session: Session, shown: Snapshot) -> Iterator[Piece]:
    """Yield that an older run is in view because the newest one is running or failed."""
    seen = session.shown
    if seen is not None and seen is not shown:
        yield from _failure(seen)
        yield piece(f" {shown.label}:", "old")


def _rank_comparison(session: Session, shown: Snapshot) -> RanksCompared | None:
    if not shown.trace:
        return None
    from tcexplore.documents.rank_alert import newest_comparison  # not imported before the first frame

    return newest_comparison(session, shown)


def _differ(comparison: RanksCompared | None) -> bool:
    return comparison is not None and (comparison.divergence is not None or comparison.hang is not None)


def _ranks(comparison: RanksCompared | None, file: str) -> Iterator[Piece]:
    """Yield whether the ranks of a trace compile the same."""
    if comparison is None or (len(comparison.rows) < 2 and not _differ(comparison)):
        return
    if _differ(comparison):
        from tcexplore.documents.rank_alert import verdict_pieces  # not imported before the first frame

        yield from verdict_pieces(comparison, file)
    elif comparison.unread:
        from tcexplore.documents.ranks_view import unread_sentence  # not imported before the first frame

        yield piece(" ● NO VERDICT ", "badge.muted")
        yield piece(unread_sentence(comparison), "", 1)
    else:
        so_far = " so far" if comparison.partial else ""
        style = "badge.muted" if so_far or comparison.ended_early else "badge.ok"
        yield piece(f" ✔ {len(comparison.rows)} ranks identical{so_far} ", style)
    yield piece(f"{hint('ranks')} shows the ranks", "muted", KEYS)


def _failure(shown: Snapshot) -> Iterator[Piece]:
    if shown.failure is not None:
        yield piece(f" ✖ {shown.failure.type} ", "badge.break")
        where = places(shown.file).describe(shown.failure.location)
        message = shown.failure.message.partition("\n")[0]
        yield piece(f"{where}: {message}" if where else message, "error")
        yield piece(shown.failure.hint if len(shown.failure.hint) <= _SHORT_HINT else "", "ok", 3)
        yield piece(f"{hint('output-pane')} shows more", "muted", KEYS)


def _compiled(shown: Snapshot, *, brief: bool = False) -> Iterator[Piece]:
    """Yield what was compiled and how fast it is; if `brief`, without words that a narrow line can do without."""
    if not shown.compiled:
        if shown.complete:
            yield piece(" ✖ NOTHING WAS COMPILED ", "badge.break")
            yield piece(what_ran(shown), "muted", 1)
        elif shown.status == "superseded":
            yield piece(f" {ENDED_EARLY} ", "badge.muted")
            yield piece("before anything was compiled", "muted", 1)
        elif shown.failure is None:
            yield piece(" … not compiled yet", "running")
        return
    figures = summarize(shown)
    if figures.wrong:
        yield piece(" ✖ WRONG RESULT ", "badge.break")
        yield piece(f"{hint('bisect')} finds the stage", "muted", KEYS)
    yield _breaks(shown)
    if figures.uncompiled:
        yield piece(f" ✖ {count(figures.uncompiled, 'function')} not compiled ", "badge.break")
    first = _first_step(shown)
    fix = () if first is not None and first.gain.helps and first.action != "fix_break" else tuple(_fix(shown))
    yield from fix
    graphs = "" if shown.profile_alone else f"{count(figures.graphs, 'graph')}, {count(figures.ops, 'op')}"
    yield piece(graphs, "", COUNTS)
    yield piece(count_kernels(shown) if shown.code.kernels else "", "", COUNTS)
    yield piece(f"↻ {count(figures.recompiles, 'recompile')}" if figures.recompiles else "", "recompile", 1)
    if figures.limit_reached:
        yield piece(" ✖ recompile limit reached ", "badge.break")
    now = "now " if fix and not brief else ""
    yield from _speed(shown, label="" if brief and not fix else f"{now}vs. eager: ")
    if first is not None and not fix:  # after the speed, which would read as its gain
        yield from _next(first, shown)


def _breaks(shown: Snapshot) -> Piece:
    if shown.status == "superseded":
        return piece(f" {ENDED_EARLY}: {count(len(shown.breaks), 'graph break')} until then ", "badge.muted")
    if shown.breaks:
        return piece(f" ✖ {count(len(shown.breaks), 'graph break')} ", "badge.break")
    if shown.failure is not None:
        return piece(" 0 graph breaks until the failure ", "badge.muted")
    if not shown.complete:
        return piece(" no break so far ", "badge.muted")
    if shown.profile_alone:
        return piece(f" graph breaks are {NOT_IN_PROFILE} ", "badge.muted")
    return piece(" ✔ 0 graph breaks ", "badge.ok")


def _speed(shown: Snapshot, label: str) -> Iterator[Piece]:
    from tcexplore.documents.verdicts import describe_noise, so_far  # not imported before the first frame

    timing = shown.timing
    if timing is not None and timing.verdict == "measuring":
        going = shown.status == "running"
        text = f"timing, {count(timing.pairs, 'pair')} so far" if going else "ended without a verdict"
        yield piece(text, "running" if going else "muted", 1)
    elif timing is not None:
        slower = timing.verdict == "slower"
        speedup = f"{factor(timing.speedup) if slower else f'{timing.speedup:.2f}×'} "
        interval = factor_range(timing.low, timing.high, slower=slower) + so_far(timing)
        differs = timing.verdict in ("faster", "slower")
        # The load itself is the first thing that a narrow line leaves out.
        verdict = f"{'≈' if timing.load else ''}{speedup}{timing.verdict}" if differs else timing.verdict
        label = label or ("speedup " if timing.verdict == "undecided" else "")
        yield Piece((Span(label, "muted"), Span(verdict, STYLES.get(timing.verdict, ""))))
        if shown.target != NATIVE:
            yield piece("on this machine", "muted", 1)
        yield piece(f"{speedup if timing.verdict == 'no difference' else ''}{interval}", "interval", 2)
        yield piece(f"within the noise of {timing.noise_floor:.0%}" if describe_noise(timing) else "", "muted", 2)
        yield piece(timing.load, "muted", 3)
    elif shown.timing_skipped:
        yield piece("not timed", "muted", 2)


def _first_step(shown: Snapshot) -> NextStep | None:
    """Return the first of the next steps, once what it rests on is measured."""
    from tcexplore.documents.timing.next_view import first_step  # not imported before the first frame

    measured = shown.complete and (shown.status != "running" or shown.call_account is not None)
    return first_step(shown) if measured else None


def _next(step: NextStep, shown: Snapshot) -> Iterator[Piece]:
    """Yield what to do next, with its gain if it is measured."""
    from tcexplore.documents.timing.next_view import short_gain, short_step

    style = "ok" if step.gain.helps else ""
    yield Piece(
        (Span("next", "strong"), Span(f" ({hint('next')})", "key"), Span(f": {short_step(step, shown)}", style)), NEXT
    )
    yield piece(short_gain(step), style or "muted", NEXT)


def _fix(shown: Snapshot) -> Iterator[Piece]:
    """Yield the verified fix of the most expensive break that has one, and its gain over the call without it."""
    fixes = (shown.fix_of(ranked.graph_break) for ranked in rank_breaks(shown))
    fix = next((fix for fix in fixes if fix is not None and fix.state == "verified"), None)
    if fix is None:
        return
    gain = ""
    if fix.speedup is not None:
        decimals = 1 if max(fix.speedup, 1 / fix.speedup) >= ROUNDED_FROM else 2
        speedup = factor(fix.speedup, decimals)
        gain = f": {speedup} {'faster' if fix.speedup >= 1 else 'slower'} than now"
        if speedup == "1.00×":
            gain = ": as fast as now"
        if fix.gain is not None and fix.gain.low_us <= 0 <= fix.gain.high_us:
            gain = ": no clear difference"
    yield Piece((Span("fix ready", "ok"), Span(f" ({hint('fix')})", "key"), Span(gain, "ok")))
    if fix.kernels and fix.kernels[0] != fix.kernels[1]:
        before, after = fix.kernels
        yield piece(f"{before} kernels → {after}", "ok" if after < before else "muted", 2)


def _since(session: Session, shown: Snapshot) -> Iterator[Piece]:
    before = session.baseline_of(shown)
    if before is None or not shown.complete:
        return
    base = "base, " if before.run == session.baseline else ""
    since = Span(f"since {base}{before.label}: ", "muted")
    changed = changes(before, summarize(shown))
    if not changed:
        yield Piece((since, Span("counts unchanged", "muted")), 4)
        return
    yield Piece((since, Span(changed[0], "changed")), 1)
    yield from (piece(text, "changed", 2) for text in changed[1:])


# ---- history: one cell per save, the newest on the right, the one in view in brackets

NAME = " history "
EARLIER = "‹ "
"""Mark for earlier saves that do not fit."""

ENDED_EARLY = "ended early"
"""Said of a run that the next one, or the end of the app, ended before its compile was over."""

_SPEED_MARKS = {"faster": "▲", "slower": "▼"}

_WORDS_FROM = 100
"""Width from which the save in view is described in words; the others are where there is room for all."""


def history_row(session: Session, width: int) -> Row:
    """Return the strip, at most `width` columns wide, always with the save in view."""
    if not session.runs:
        return fitted([piece(NAME, "muted", 1), piece("one entry per save", "dim")], width)
    name = NAME if width >= 60 else " "
    seen = session.shown
    number, saves = seen.run if seen is not None else 0, session.summaries
    at = next((index for index, save in enumerate(saves) if save.run == number), len(saves) - 1)
    room = width - len(name) - len(EARLIER)

    def cell(index: int, *, words: bool) -> Piece:
        save = saves[index]
        return _cell(save, seen=save.run == number, base=save.run == session.baseline, words=words)

    cells = [cell(index, words=True) for index in range(len(saves))]
    if sum(item.width for item in cells) > room:
        cells = [cell(index, words=index == at and width >= _WORDS_FROM) for index in range(len(saves))]
    first, last = _window([item.width for item in cells], at, room)
    spans = [Span(name, "muted"), Span(EARLIER if first else "", "muted")]
    spans += [span for item in cells[first:last] for span in item.spans]
    return fitted([Piece(tuple(spans))], width - 1, list(_page(session)))


def _page(session: Session) -> Iterator[Piece]:
    """Yield how to save the first run of a file as a page, once it is over; a second run takes the hint away."""
    newest = session.newest
    if len(session.summaries) == 1 and newest is not None and newest.complete and newest.compiled and not newest.trace:
        yield Piece(
            (Span(f"{hint('export-html')}", "key"), Span(" export HTML: this run as a page to share", "muted")), 1
        )


def run_of(session: Session, text: str) -> int | None:
    """Return the run whose entry begins with this text."""
    if text[:1] not in (" ", "["):
        return None
    name = text[1:].strip().removesuffix(":")
    return next((save.run for save in session.summaries if _name(save) == name), None)


def _name(save: RunSummary) -> str:
    return save.past or str(save.run)


def _window(widths: list[int], at: int, room: int) -> tuple[int, int]:
    """Return the range of cells to show: the newest ones that fit, or those that end with cell `at`."""
    last = len(widths)
    while last - 1 > at and sum(widths[at:last]) > room:
        last -= 1
    first = last
    while first and (first > at or sum(widths[first - 1 : last]) <= room):
        first -= 1
    return first, last


def _cell(save: RunSummary, *, seen: bool, base: bool, words: bool) -> Piece:
    """Return `7 ✖1 3k 1.31×▲`, in `words` `7: 1 break, 3 kernels, 1.31× faster`.

    It is in brackets if it is in view, and marked if it is the base of comparisons.
    """
    left, right = ("[", "]") if seen else (" ", " ")
    style = "strong" if seen else "muted"
    based = (Span("base ", "key"),) if base else ()
    figures = _in_words(save) if words else _figures(save)
    return Piece((Span(f"{left}{_name(save)}{':' if words else ''} ", style), *based, *figures, Span(right, style)))


def _without_figures(save: RunSummary) -> Span | None:
    """Return the state of a run without figures to compare; None for others."""
    if save.error:
        return Span("error", "error")
    if save.status == "superseded":
        return Span(ENDED_EARLY, "dim")
    if save.status == "running" and not save.graphs:
        return Span("…", "running")
    if not save.graphs and save.kernels:
        return Span("profile", "muted")
    return None if save.graphs else Span("nothing compiled", "break")


def _in_words(save: RunSummary) -> tuple[Span, ...]:
    if (state := _without_figures(save)) is not None:
        return (state,)
    broken = Span(count(save.breaks, "break"), "break") if save.breaks else Span("✔ no break", "ok")
    graphs = Span(f", {count(save.graphs, 'graph')}" if save.graphs > 1 and not save.breaks else "", "muted")
    target = f" for {save.target}" if save.target != NATIVE else ""
    kernels = Span(f", {count(save.kernels, 'kernel')}{target}" if save.kernels else "", "muted")
    if save.wrong:
        return broken, graphs, kernels, Span(", "), Span("wrong result", "error")
    if not save.speedup or save.verdict == "measuring":
        return broken, graphs, kernels
    differs = save.verdict in ("faster", "slower")
    speed = f"{factor(save.speedup)} {save.verdict}" if differs else "as fast as eager"
    if save.verdict == "undecided":
        return broken, graphs, kernels, Span(", speed undecided", "muted")
    return broken, graphs, kernels, Span(", ", "muted"), Span(speed, save.verdict if differs else "")


def _figures(save: RunSummary) -> tuple[Span, ...]:
    if (state := _without_figures(save)) is not None:
        return (state,)
    broken = Span(f"✖{save.breaks}", "break") if save.breaks else Span("✔", "ok")
    graphs = Span(f" {save.graphs}g", "muted") if save.graphs > 1 and not save.breaks else Span("")
    target = f" {save.target}" if save.target != NATIVE else ""
    kernels = Span(f" {save.kernels}k{target}", "muted") if save.kernels else Span("")
    return broken, graphs, kernels, Span(" wrong", "error") if save.wrong else _cell_speed(save)


def _cell_speed(save: RunSummary) -> Span:
    if not save.speedup or save.verdict == "measuring":
        return Span("")
    if save.verdict == "undecided":
        return Span(" ?×", "muted")
    mark = _SPEED_MARKS.get(save.verdict, "")
    return Span(f" {factor(save.speedup)}{mark}", save.verdict if mark else "")
