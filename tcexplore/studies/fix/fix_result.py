"""Graph breaks with the fixes that were tried for them, and the files that the fixes change."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, cast

from tcexplore.events import BranchTest, BreakFix, ChangeTimed, FixGain, GraphBreak, Job, Span
from tcexplore.events.fix_events import FixState
from tcexplore.fixes.fix import Change
from tcexplore.fixes.proposals import advice, installed, proposals
from tcexplore.fixes.verification import Verification
from tcexplore.session import Snapshot, summarize
from tcexplore.session.economics import DECIDED
from tcexplore.studies.study import StudyState
from tcexplore.watch import read_source


@dataclass(frozen=True, slots=True)
class FixTarget:
    """A break of a known run, for which the app tries fixes."""

    run: Snapshot
    broken: GraphBreak
    changes: tuple[Change, ...]
    advice: str
    first: int = 0
    """Index of the first change to try."""


@dataclass(frozen=True, slots=True)
class AttemptedFix:
    """One fix that was tried for a break, or a break that has no fix."""

    number: int
    """The break's number, from 1."""
    broken: GraphBreak
    """The break, on its line in the user's own file."""
    advice: str
    """What the user can do if no fix is verified."""
    verification: Verification | None = None


@dataclass(frozen=True, slots=True)
class BreakFixes:
    """A break with all fixes that were tried, of which the last may be verified."""

    number: int
    broken: GraphBreak
    advice: str
    verifications: tuple[Verification, ...]

    @property
    def verified(self) -> Verification | None:
        """Return the successful verification."""
        return next((one for one in self.verifications if one.verified), None)


def best_attempt(verifications: Sequence[Verification]) -> Verification | None:
    """Return the verified fix, else the first with an untested branch, else the last."""
    verified = (one for one in verifications if one.verified)
    untested = (one for one in verifications if one.branch_untested)
    return next(chain(verified, untested, verifications[-1:]), None)


def by_break(results: Iterable[AttemptedFix | Snapshot]) -> tuple[BreakFixes, ...]:
    """Group attempts by break."""
    breaks: dict[int, BreakFixes] = {}
    for attempt in results:
        if isinstance(attempt, AttemptedFix):
            known = breaks.get(attempt.number) or BreakFixes(attempt.number, attempt.broken, attempt.advice, ())
            new = (attempt.verification,) if attempt.verification else ()
            breaks[attempt.number] = replace(known, verifications=(*known.verifications, *new))
    return tuple(breaks.values())


def break_fix(run: Snapshot, target: FixTarget, state: StudyState[Any, Any] | None) -> BreakFix:
    """Return what is known of the fix of a break, from the study of this break if it has begun."""
    broken = target.broken
    verifications = by_break(state.results)[0].verifications if state and state.results else ()
    shown = best_attempt(verifications)
    verified = shown if shown is not None and shown.verified else None
    change = shown.change if shown else (target.changes or (None,))[0]
    state_name: FixState = "proposed" if state is None else "verifying"
    if verified is not None:
        state_name = "verified"
    elif change is None:
        state_name = "none"
    elif state is not None and state.over:
        state_name = "untested" if shown is not None and shown.branch_untested else "refused"
    objection = shown.objection if shown else ""
    note = {"none": target.advice, "refused": objection, "untested": objection}.get(state_name, "")
    timed = verified.after.change_timing if verified else None
    return BreakFix(
        run=run.run, location=broken.location, kind=broken.kind, state=state_name, note=note,
        name=change.fix.name if change else "", line=_first_line(change) if change else "",
        inputs=verified.inputs if verified else 0,
        kernels=(summarize(run).kernels, summarize(verified.after).kernels) if verified else None,
        speedup=timed.speedup if timed and timed.verdict in DECIDED else None,
        gain=fix_gain(timed) if timed else None,
    )  # fmt: skip


def fix_gain(timed: ChangeTimed, earlier: ChangeTimed | None = None) -> FixGain | None:
    """Return what a fix saves of the call before the change; None as long as its time is not known.

    `earlier` is the timing of the fixes that the changed file already had.
    """
    if timed.verdict == "measuring" or (earlier is not None and earlier.verdict == "measuring"):
        return None
    before = timed.before_us
    us, low, high = (1 - 1 / speedup for speedup in (timed.speedup, timed.low, timed.high))
    if earlier is not None:
        us -= 1 - 1 / earlier.speedup
        low -= 1 - 1 / earlier.high
        high -= 1 - 1 / earlier.low
    return FixGain(us=before * us, low_us=before * low, high_us=before * high, call_us=before)


def _first_line(change: Change) -> str:
    added = (line[1:].strip() for line in change.diff() if line.startswith("+") and not line.startswith("+++"))
    return next(filter(None, added), "")


@dataclass(slots=True)
class FixedFiles:
    """The texts of a program's files with the fixes adopted so far."""

    job: Job
    texts: dict[str, str] = field(default_factory=dict)
    adopted: list[Change] = field(default_factory=list)

    def text(self, file: str) -> str:
        """Return the text of a file with its fixes. Raises `UnreadableError`."""
        if file not in self.texts:
            self.texts[file] = self.job.source if file == self.job.file else read_source(file)
        return self.texts[file]

    def changes(self, broken: GraphBreak) -> tuple[Change, ...]:
        """Return the changes that could remove a break. Raises `UnreadableError`."""
        at = broken.location
        return proposals(at.file, self.text(at.file), at.line, broken.kind) if at and not installed(at.file) else ()

    def advice(self, broken: GraphBreak) -> str:
        """Return what the user can do if no change is verified. Raises `UnreadableError`."""
        at = broken.location
        text = self.text(at.file) if at and not installed(at.file) else ""
        return advice(at.file, text, at.line, broken.kind) if at else ""

    def job_with(self, change: Change) -> Job:
        """Return the job that runs a change on top of the adopted ones, and compares it with the original source."""
        texts = {**self.texts, change.file: change.after}
        overlay = tuple((file, text) for file, text in texts.items() if file != self.job.file)
        source = texts.get(self.job.file, self.job.source)
        return replace(
            self.job, source=source, overlay=overlay, baseline=self.job.source, examine=True,
            baseline_tests=tuple(self._tests(change)),
        )  # fmt: skip

    def _tests(self, change: Change) -> Iterator[BranchTest]:
        """Yield the tests that a change replaces, at their lines in the user's own file."""
        for node in change.fix.tests:
            first, last = (node.body[0], node.body[-1]) if isinstance(node.body, list) else (node.body, node.body)
            spans = [
                tuple(
                    self._original_line(change.file, value) if index % 2 == 0 else value
                    for index, value in enumerate((a.lineno, a.col_offset, b.end_lineno or 0, b.end_col_offset or 0))
                )
                for a, b in ((node.test, node.test), (first, last))
            ]
            yield BranchTest(
                file=change.file, test=cast(Span, spans[0]), body=cast(Span, spans[1]), text=ast.unparse(node.test)
            )

    def _original_line(self, file: str, line: int) -> int:
        """Return the line in the user's own file; 0, which no call reaches, for a line that an adopted fix touched."""
        original: int | None = line
        for change in reversed(self.adopted):
            if original is not None and change.file == file:
                original = change.line_before(original)
        return original or 0

    def adopt(self, change: Change) -> None:
        """Continue from the changed file."""
        self.texts[change.file] = change.after
        self.adopted.append(change)

    def in_original(self, broken: GraphBreak) -> GraphBreak:
        """Return a break of the changed files on its line in the user's own file."""
        at = broken.location
        line = self._original_line(at.file, at.line) if at else 0
        return broken if at is None or not line else replace(broken, location=replace(at, line=line))
