"""The second line of the screen: breaks, graphs, kernels, speedup, and what changed since the last save."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tcexplore.documents.code.target_notes import count_kernels
from tcexplore.documents.document import Row, Span
from tcexplore.documents.locations import places
from tcexplore.documents.prose import Piece, fits, fitted, piece
from tcexplore.keymap import hint
from tcexplore.quantities import count
from tcexplore.session import Session, changes, summarize
from tcexplore.session.ranked_breaks import rank_breaks
from tcexplore.targets.target_names import NATIVE

if TYPE_CHECKING:
    from tcexplore.session import Snapshot

ROUNDED_FROM = 1.1
"""Gain from which one decimal is enough."""

KEYS = 5
"""Rank of the pieces about keys."""

STYLES = {"faster": "faster", "slower": "slower", "no difference": "strong", "undecided": "muted"}


def verdict_row(session: Session, width: int = 160) -> Row:
    """Return the line, at most `width` columns wide; breaks and speedup are cut last."""
    shown = session.view(lambda snapshot: snapshot.compiled)
    if shown is None:
        return fitted([piece(" no run yet", "muted")], width)
    before = [*_ranks(session, shown), *_old(session, shown), *_failure(shown)]
    since = list(_since(session, shown))
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
        yield Piece(spans, item.rank)


def run_verdict(snapshot: Snapshot) -> Row:
    """Return the verdict on one run for a report: every figure, and no keys."""
    pieces = [item for item in (*_failure(snapshot), *_compiled(snapshot)) if item.rank != KEYS]
    return Row(tuple(span for item in pieces if item.width for span in (*item.spans, Span("  ")))[:-1])


def _old(session: Session, shown: Snapshot) -> Iterator[Piece]:
    """Yield that an older run is in view because the newest one is running or failed."""
    seen = session.shown
    if seen is not None and seen is not shown:
        yield from _failure(seen)
        yield piece(f" {shown.label}:", "old")


def _ranks(session: Session, shown: Snapshot) -> Iterator[Piece]:
    """Yield whether the ranks of a trace compile the same."""
    comparisons = (run.rank_comparison for run in reversed(session.runs))
    comparison = next(filter(None, comparisons), None) if shown.trace else None
    if comparison is None or len(comparison.rows) < 2:
        return
    divergence = comparison.divergence
    if divergence is not None:
        yield piece(f" ✖ {divergence.kind.upper()} ", "badge.break")
        yield piece(divergence.subject, "", 1)
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
        yield piece("7 shows more", "muted", KEYS)


def _compiled(shown: Snapshot, *, brief: bool = False) -> Iterator[Piece]:
    """Yield what was compiled and how fast it is; if `brief`, without words that a narrow line can do without."""
    if not shown.compiled:
        if shown.complete:
            yield piece(" ✖ NOTHING WAS COMPILED ", "badge.break")
            yield piece("the whole program ran eagerly", "muted", 1)
        elif shown.status == "superseded":
            yield piece(" superseded by the next run", "muted")
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
    fix = list(_fix(shown))
    yield from fix
    yield piece(f"{count(figures.graphs, 'graph')}, {count(figures.ops, 'op')}", "", 3)
    yield piece(count_kernels(shown) if shown.code.kernels else "", "", 3)
    yield piece(f"↻ {count(figures.recompiles, 'recompile')}" if figures.recompiles else "", "recompile", 1)
    now = "now " if fix and not brief else ""
    yield from _speed(shown, label="" if brief and not fix else f"{now}vs. eager: ")


def _breaks(shown: Snapshot) -> Piece:
    if shown.breaks:
        return piece(f" ✖ {count(len(shown.breaks), 'graph break')} ", "badge.break")
    if shown.failure is not None:
        return piece(" 0 graph breaks until the failure ", "badge.muted")
    if not shown.complete:
        return piece(" no break so far ", "badge.muted")
    return piece(" ✔ 0 graph breaks ", "badge.ok")


def _speed(shown: Snapshot, label: str) -> Iterator[Piece]:
    timing = shown.timing
    if timing is not None and timing.verdict == "measuring":
        going = shown.status == "running"
        text = f"timing, {count(timing.pairs, 'pair')} so far" if going else "ended without a verdict"
        yield piece(text, "running" if going else "muted", 1)
    elif timing is not None:
        speedup, interval = f"{timing.speedup:.2f}× ", f"[{timing.low:.2f}, {timing.high:.2f}]"
        differs = timing.verdict in ("faster", "slower")
        verdict = f"{speedup if differs else ''}{timing.verdict}"
        label = label or ("speedup " if timing.verdict == "undecided" else "")
        yield Piece((Span(label, "muted"), Span(verdict, STYLES.get(timing.verdict, ""))))
        if shown.target != NATIVE:
            yield piece("on this machine", "muted", 1)
        yield piece(f"{speedup if timing.verdict == 'no difference' else ''}{interval}", "interval", 2)
        yield piece(timing.load, "muted", 3)
    elif shown.timing_skipped:
        yield piece("not timed", "muted", 2)


def _fix(shown: Snapshot) -> Iterator[Piece]:
    """Yield the verified fix of the most expensive break that has one, and its gain over the call without it."""
    fixes = (shown.fix_of(ranked.graph_break) for ranked in rank_breaks(shown))
    fix = next((fix for fix in fixes if fix is not None and fix.state == "verified"), None)
    if fix is None:
        return
    gain = ""
    if fix.speedup is not None:
        decimals = 1 if max(fix.speedup, 1 / fix.speedup) >= ROUNDED_FROM else 2
        speedup = f"{fix.speedup:.{decimals}f}×"
        gain = f": {speedup} {'faster' if fix.speedup >= 1 else 'slower'} than now"
        if speedup == "1.00×":
            gain = ": as fast as now"
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
    changed = changes(summarize(before), summarize(shown))
    if not changed:
        yield Piece((since, Span("counts unchanged", "muted")), 4)
        return
    yield Piece((since, Span(changed[0], "changed")), 1)
    yield from (piece(text, "changed", 2) for text in changed[1:])
