"""The fix study as a document: the change as a diff, and its verification so far."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tcexplore.documents.diff.text_diff import Numbered, text_rows
from tcexplore.documents.document import Row, StaticDocument
from tcexplore.documents.locations import display_path, places
from tcexplore.documents.prose import BLANK, heading, row, wrapped
from tcexplore.events import GraphBreak, Location
from tcexplore.fixes.proposals import NO_FIX
from tcexplore.fixes.text_edit import lines_of
from tcexplore.fixes.verification import Fact, FactState, Verification, facts, summary_fact
from tcexplore.keymap import hint
from tcexplore.quantities import count
from tcexplore.session import Snapshot
from tcexplore.session.run_diff import align
from tcexplore.studies.fix.fix_result import BreakFixes, best_attempt

MARKS: dict[FactState, tuple[str, str]] = {
    "ok": ("✔", "ok"), "bad": ("✖", "error"), "wait": ("◐", "running"), "note": ("·", "muted"),
}  # fmt: skip


ADD_AN_INPUT = (
    "Add a call to `inputs` that takes this branch: then the fix can be verified. If no input can, the branch is not "
    "needed."
)


@dataclass(frozen=True, slots=True)
class BreakView:
    """All that is known of the fixes of one break."""

    broken: GraphBreak
    file: str
    verifications: tuple[Verification, ...] = ()
    """The finished ones."""
    current: Verification | None = None
    """The one under way."""
    number: int = 0
    """The break's number in a report on all breaks; 0 for a break by itself."""
    waiting: bool = False
    """Whether more is to come."""
    written: str = ""
    """The name of the file that was written."""
    advice: str = ""

    @property
    def shown(self) -> Verification | None:
        """Return the verification to show: the successful one, else the one under way, else the best."""
        best = best_attempt(self.verifications)
        return self.current if self.current and not (best and best.verified) else best


def break_document(view: BreakView, width: int = 78) -> StaticDocument:
    """Return the document of one break."""
    return StaticDocument("", (*_break(view, width), *_body(view, width)))


def fix_document(
    run: Snapshot | None,
    breaks: Sequence[BreakFixes],
    untried: Sequence[str],
    written: Sequence[str],
    *,
    over: bool,
    width: int = 78,
) -> StaticDocument:
    """Return the document of all breaks; `run` is the run of the unmodified file, `untried` names breaks left out."""
    if run is None:
        return StaticDocument("", tuple(wrapped("Waiting for the run of the unmodified file.", width, "muted")))
    if run.failure is not None:
        return StaticDocument(
            "", tuple(wrapped(f"{run.failure.type}: {run.failure.message}", width, "error", lead="✖ "))
        )
    rows: list[Row] = []
    for fixes in breaks:
        view = BreakView(fixes.broken, run.file, fixes.verifications, number=fixes.number, advice=fixes.advice)
        rows += [*_break(view, width), *_body(view, width), BLANK]
    fixed = sum(fixes.verified is not None for fixes in breaks)
    if untried:
        rows += wrapped(f"{count(fixed, 'break')} with a verified fix; not all breaks were tried", width, "strong")
    else:
        rows += wrapped(f"{fixed} of {count(len(breaks), 'break')} with a verified fix", width, "strong")
    for step in untried:
        rows += wrapped(step, width, "warn", indent=1, lead="not tried to the end: ")
    if written:
        rows += wrapped(f"written: {', '.join(map(display_path, written))}", width, "ok")
    elif fixed and over:
        rows += wrapped("nothing is written without --write", width, "muted")
    return StaticDocument("", tuple(rows))


def _break(view: BreakView, width: int) -> Iterator[Row]:
    broken, at = view.broken, view.broken.location
    place = places(view.file).describe(at) or "unknown line"
    number = (f" {view.number}", "muted") if view.number else ""
    yield row(number, (" ✖ ", "break"), (place, "break"), f"  {broken.code}", location=at)
    yield from wrapped(broken.reason or broken.kind, width, "muted", indent=3, location=at)
    yield BLANK


def _body(view: BreakView, width: int) -> Iterator[Row]:
    verification = view.shown
    if verification is None:
        if view.waiting:
            yield from wrapped("Waiting for a worker.", width, "muted")
        else:
            yield from wrapped(view.advice or NO_FIX, width, "strong")
            yield from wrapped("torch's own hints are in the breaks pane.", width, "muted", keys_only=True)
        return
    yield from _summary(verification, view, width)
    yield from _change(verification, width)
    yield BLANK
    yield heading("Verification", "separate process; file unchanged")
    for fact in facts(verification):
        yield from _fact_rows(fact, width, 3, "" if fact.state != "note" else "muted")
    for other in view.verifications:
        if other is not verification and not other.verified:
            text = f"{other.change.fix.name}: {other.objection}"
            yield from wrapped(text, width, "muted", indent=5, lead="also tried: ")
    yield BLANK
    yield from _end(view, verification, width)


def _summary(verification: Verification, view: BreakView, width: int) -> Iterator[Row]:
    """Yield one line above the diff: the verification may be below the visible rows."""
    fact = summary_fact(verification)
    yield from _fact_rows(fact, width, 1, MARKS[fact.state][1])
    if verification.verified:
        text = f"{hint('fix-undo')} undoes it" if view.written else f"{hint('fix-write')} writes it"
        yield row((f"   {text}", "muted"), keys_only=True)


def _fact_rows(fact: Fact, width: int, indent: int, style: str) -> Iterator[Row]:
    mark, mark_style = MARKS[fact.state]
    first, *rest = wrapped(fact.text, width, style, indent=indent + 2)
    yield Row((*row((f"{' ' * indent}{mark} ", mark_style)).spans, *first.spans[1:]))
    yield from rest


def _change(verification: Verification, width: int) -> Iterator[Row]:
    change = verification.change
    yield row(" ", (change.fix.name, "heading"))
    yield from wrapped(change.fix.description, width, "strong", indent=3)
    for effect in change.fix.side_effects:
        yield from wrapped(effect, width, "warn", indent=3, lead="Side effect: ")
    yield BLANK
    before, after = ([line.rstrip("\r\n") for line in lines_of(text)] for text in (change.before, change.after))

    def at(line: Numbered) -> Row:
        return Row((), location=Location(change.file, line.before or line.after))

    yield from text_rows(align(before, after, str), width, at)


def _end(view: BreakView, verification: Verification, width: int) -> Iterator[Row]:
    name = places(view.file).path(verification.change.file)
    if view.written:
        undo = (f"  {hint('fix-undo')} undoes it", "muted")
        yield row((" written ", "badge.ok"), (f" to {view.written}", "strong"), undo)
    elif verification.verified:
        key, writes = (f" {hint('fix-write')} ", "badge.ok"), (f" writes it to {name}", "strong")
        yield row(key, writes, ("  nothing is written until then", "muted"), keys_only=True)
    elif view.waiting:
        yield from wrapped(f"Nothing is written until you press {hint('fix-write')}.", width, "muted", keys_only=True)
    else:
        yield row((" not verified ", "badge.break"), (f" {verification.objection}", "strong"))
        advice = ADD_AN_INPUT if verification.branch_untested else view.advice
        yield from wrapped(advice, width, "strong") if advice else ()
