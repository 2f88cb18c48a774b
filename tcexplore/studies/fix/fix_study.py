"""The fix study: for each graph break, the changes that could remove it, each verified in a separate process."""

from __future__ import annotations

import argparse
from collections.abc import AsyncGenerator, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from tcexplore import events as ev
from tcexplore.argument_types import at_least_one
from tcexplore.documents.document import Document
from tcexplore.documents.locations import display_path
from tcexplore.files import NotWrittenError
from tcexplore.fixes.fix import write_change
from tcexplore.fixes.verification import Verification, facts
from tcexplore.report.json_report import failure, graph_break
from tcexplore.session import Snapshot
from tcexplore.studies.fix.fix_document import BreakView, break_document, fix_document
from tcexplore.studies.fix.fix_result import AttemptedFix, BreakFixes, FixedFiles, FixTarget, by_break, fix_gain
from tcexplore.studies.study import Announce, Study, StudyState
from tcexplore.studies.study_json import Fields
from tcexplore.studies.study_runs import Runs, failure_status
from tcexplore.watch import UnreadableError

UNFIXED = 1
"""Exit status if a break has no verified fix, or the study ended before it was tried."""

UNMODIFIED = "unmodified file"
"""The first step."""


@dataclass(frozen=True, slots=True)
class FixOptions:
    """Breaks to fix."""

    number: int | None = None
    """The number of the only break to fix; None for all."""
    write: bool = False
    """Whether to write verified fixes to the user's files."""
    target: FixTarget | None = None
    """The break that the app fixes; None on the command line."""


FixState = StudyState[FixOptions, AttemptedFix | Snapshot]


class FixStudy(Study[FixOptions, AttemptedFix | Snapshot]):
    """Results are the run of the unmodified file, unless it is known, and the fixes that were tried."""

    name = "fix"
    title = "fix"
    examples = ("model.py", "model.py --break 1 --write")
    description = (
        "For each graph break, try a change to your lines that removes it, and verify in a separate process that the "
        "break is gone and the results are the same. Nothing is written without --write."
    )
    exit_note = "1 a break has no verified fix, or the budget was spent before all were tried"
    timed = True
    live = True

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        group = parser.add_argument_group("what to fix")
        group.add_argument("--break", type=at_least_one, metavar="N", dest="number", help="only the Nth break")
        group.add_argument("--write", action="store_true", help="write verified fixes to your files")

    def options(self, given: argparse.Namespace) -> FixOptions:
        return FixOptions(given.number, given.write)

    def options_from(self, answers: Sequence[str]) -> FixOptions:  # noqa: ARG002
        return FixOptions()

    async def plan(
        self, state: FixState, runs: Runs, announce: Announce
    ) -> AsyncGenerator[AttemptedFix | Snapshot, None]:
        """Try the fixes of each break until one is verified; it stays in place for the breaks after it."""
        files, target = FixedFiles(state.job), state.options.target
        if target is not None:
            async for attempt in _attempts(state, 1, target, files, runs, announce):
                yield attempt
            return
        runs.steps.plan((UNMODIFIED,))
        announce(UNMODIFIED)
        run = (await runs.run(replace(state.job, time_for=0.0), state.timeout)).snapshot
        yield run
        number, seen = 0, set[_BreakKey]()
        steps = _steps(run)
        runs.steps.plan(step for index, step in enumerate(steps.values(), 1) if self._chosen(state, index))
        while (broken := _next_break(run, seen)) is not None:
            number += 1
            if not self._chosen(state, number):
                continue
            async for attempt in _attempts(state, number, fix_target(files, run, broken), files, runs, announce):
                yield attempt
                if attempt.verification is not None and attempt.verification.verified:
                    files.adopt(attempt.verification.change)
                    run = attempt.verification.after
            runs.steps.finish(steps.get(_break_key(broken), ""))

    def _chosen(self, state: FixState, number: int) -> bool:
        return state.options.number in (None, number)

    def document(
        self,
        state: FixState,
        width: int = 78,
        toggled: frozenset[str] = frozenset(),  # noqa: ARG002
    ) -> Document:
        target = state.options.target
        if target is None:
            breaks = by_break(state.results)
            untried = () if _original(state) is None else state.skipped
            return fix_document(_original(state), breaks, untried, state.written, over=state.over, width=width)
        done = by_break(state.results)
        verifications = done[0].verifications if done else ()
        current = None if state.over else under_way(state)
        view = BreakView(target.broken, state.job.file, verifications, current, advice=target.advice,
                         waiting=not state.over and bool(target.changes), written=", ".join(state.written))  # fmt: skip
        return break_document(view, width)

    def fields(self, state: FixState) -> Fields:
        """Return the fixes; times are microseconds of one compiled call.

        Each run has the verified fixes of the breaks before it, so `cost` is what a fix saves beyond those.
        """
        run = _original(state)
        return {
            "error": failure(run.failure) if run else None,
            "breaks": list(_fields_of_breaks(by_break(state.results))),
            "written": [display_path(file) for file in state.written],
        }

    def write(self, state: FixState) -> str:
        """Write the verified fixes if the options ask for it."""
        if not state.options.write or state.stopped:
            return ""
        verified = [fixes.verified.change for fixes in by_break(state.results) if fixes.verified]
        errors = []
        for file in dict.fromkeys(change.file for change in verified):
            changes = [change for change in verified if change.file == file]
            try:
                write_change(file, changes[0].before, changes[-1].after)
            except NotWrittenError as error:
                errors.append(str(error))
            else:
                state.written = (*state.written, file)
        return "\n".join(errors)

    def exit_status(self, state: FixState) -> int:
        run = _original(state)
        if run is not None and run.failure is not None:
            return failure_status(run)
        all_fixes = by_break(state.results)
        unwritten = {fixes.verified.change.file for fixes in all_fixes if fixes.verified} - set(state.written)
        if state.options.write and unwritten:
            return UNFIXED
        tried = all(fixes.verified for fixes in all_fixes)
        return 0 if tried and run is not None and not state.skipped else UNFIXED


def fix_target(files: FixedFiles, run: Snapshot, broken: ev.GraphBreak) -> FixTarget:
    """Return a break of a run with the changes that could remove it."""
    try:
        return FixTarget(run, broken, files.changes(broken), files.advice(broken))
    except UnreadableError:
        return FixTarget(run, broken, (), "")


def under_way(state: FixState) -> Verification | None:
    """Return the verification of the run under way, for a known target."""
    target = state.options.target
    if target is None or state.run is None:
        return None
    index = target.first + len(state.results)
    # Until the next run begins, the finished one is still there.
    if state.run.run != len(state.results) + 1 or index >= len(target.changes):
        return None
    return Verification(target.changes[index], target.broken, target.run, state.run)


async def _attempts(
    state: FixState, number: int, target: FixTarget, files: FixedFiles, runs: Runs, announce: Announce
) -> AsyncGenerator[AttemptedFix, None]:
    broken = files.in_original(target.broken)
    if not target.changes:
        yield AttemptedFix(number, broken, target.advice)
    for index, change in enumerate(target.changes[target.first :], target.first + 1):
        announce(f"break {number}, fix {index} of {len(target.changes)}: {change.fix.name}")
        run = (await runs.run(files.job_with(change), state.timeout)).snapshot
        verification = Verification(change, target.broken, target.run, run)
        yield AttemptedFix(number, broken, target.advice, verification)
        if verification.verified:
            return


_BreakKey = tuple[str, str, str]


def _break_key(broken: ev.GraphBreak) -> _BreakKey:
    """Return the identity of a break: its code, since lines move."""
    return broken.location.file if broken.location else "", broken.code, broken.kind


def _next_break(run: Snapshot, seen: set[_BreakKey]) -> ev.GraphBreak | None:
    """Return the first break that is not in `seen`."""
    for broken in run.breaks:
        if _break_key(broken) not in seen:
            seen.add(_break_key(broken))
            return broken
    return None


def _steps(run: Snapshot) -> dict[_BreakKey, str]:
    """Return a name for each break of the unmodified file, such as `break 1, line 5: print("mean", y.mean())`."""
    steps: dict[_BreakKey, str] = {}
    for broken in run.breaks:
        place = f", line {broken.location.line}" if broken.location else ""
        steps.setdefault(_break_key(broken), f"break {len(steps) + 1}{place}: {broken.code or broken.kind}")
    return steps


def _original(state: FixState) -> Snapshot | None:
    return next((result for result in state.results if isinstance(result, Snapshot)), None)


def _fields_of_breaks(breaks: Sequence[BreakFixes]) -> Iterator[Fields]:
    earlier: ev.ChangeTimed | None = None
    for fixes in breaks:
        timed = fixes.verified.after.change_timing if fixes.verified else None
        gain = fix_gain(timed, earlier) if timed else None
        cost = (
            {"us": gain.us, "low_us": gain.low_us, "high_us": gain.high_us, "basis": "verified fix"} if gain else None
        )
        yield _break_fields(fixes, cost)
        earlier = timed or earlier


def _break_fields(fixes: BreakFixes, cost: Fields | None) -> Fields:
    return {
        "number": fixes.number,
        "break": graph_break(fixes.broken),
        "fixed": fixes.verified is not None,
        "cost": cost,
        "advice": None if fixes.verified else fixes.advice or None,
        "fixes": [_fix_fields(verification) for verification in fixes.verifications],
    }


def _fix_fields(verification: Verification) -> Fields:
    change, after = verification.change, verification.after
    return {
        "fix": change.fix.name,
        "description": change.fix.description,
        "side_effects": list(change.fix.side_effects),
        "verified": verification.verified,
        "inputs": verification.inputs,
        "objection": verification.objection or None,
        "file": display_path(change.file),
        "diff": list(change.diff(display_path(change.file))),
        "breaks_before": len(verification.before.breaks),
        "breaks_after": len(after.breaks),
        "uncovered": [graph_break(other) for other in verification.uncovered],
        "results": _event_fields(after.change_check),
        "speed": _event_fields(after.change_timing),
        "facts": [{"state": fact.state, "text": fact.text} for fact in facts(verification)],
    }


def _event_fields(event: ev.ChangeChecked | ev.ChangeTimed | None) -> dict[str, Any] | None:
    if event is None:
        return None
    return {name: value for name, value in asdict(event).items() if name not in ("run", "rank")}


STUDY = FixStudy()
