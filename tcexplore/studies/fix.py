"""The fix study: for each graph break, the changes that could remove it, each verified in a separate process."""

from __future__ import annotations

import argparse
import ast
import math
from collections.abc import AsyncGenerator, Hashable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from typing import Any, cast

from tcexplore import events as ev
from tcexplore.argument_types import at_least_one
from tcexplore.documents.document import Document, Row, StaticDocument
from tcexplore.documents.locations import display_path, places
from tcexplore.documents.prose import BLANK, heading, row, wrapped
from tcexplore.documents.text_diff import Numbered, text_rows
from tcexplore.events import BranchTest, BreakFix, ChangeTimed, FixGain, GraphBreak, Job, Location, Span, StepSide
from tcexplore.events.result_events import FixState
from tcexplore.files import NotWrittenError
from tcexplore.fixes.fix import Change, write_change
from tcexplore.fixes.proposals import NO_FIX, advice, installed, proposals
from tcexplore.fixes.syntax_source import lines_of
from tcexplore.fixes.verification import Fact, FactState, ScriptSteps, Verification, facts, speed_text, summary_fact
from tcexplore.keymap import hint
from tcexplore.quantities import count
from tcexplore.report.json_report import break_fields, failure
from tcexplore.session import Snapshot, summarize
from tcexplore.session.economics import DECIDED
from tcexplore.session.links import region_of_graph
from tcexplore.session.run_diff import align
from tcexplore.session.stable_ids import stable_ids
from tcexplore.studies.runs import Runs, failure_status
from tcexplore.studies.step_comparison import EAGER_RANDOM, compare_scripts
from tcexplore.studies.study import Announce, Study, StudyState
from tcexplore.studies.study_json import Fields
from tcexplore.watch import UnreadableError, read_source


@dataclass(frozen=True, slots=True)
class FixTarget:
    """A break of a known run, for which the app tries fixes."""

    run: Snapshot
    graph_break: GraphBreak
    changes: tuple[Change, ...]
    advice: str
    first: int = 0
    """Index of the first change to try."""
    region_run: Snapshot | None = None
    """Run of the break's region alone, with a captured call as its inputs; None if the run is not of a script."""

    @property
    def before(self) -> Snapshot:
        """The run to compare runs of the changed file with."""
        return self.region_run or self.run


@dataclass(frozen=True, slots=True)
class AttemptedFix:
    """One fix that was tried for a break, or a break that has no fix."""

    number: int
    """The break's number, from 1."""
    graph_break: GraphBreak
    """The break, on its line in the user's own file."""
    advice: str
    """What the user can do if no change is known."""
    verification: Verification | None = None


@dataclass(frozen=True, slots=True)
class BreakFixes:
    """A break with all fixes that were tried, of which the last may be verified."""

    number: int
    graph_break: GraphBreak
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
            known = breaks.get(attempt.number) or BreakFixes(attempt.number, attempt.graph_break, attempt.advice, ())
            new = (attempt.verification,) if attempt.verification else ()
            breaks[attempt.number] = replace(known, verifications=(*known.verifications, *new))
    return tuple(breaks.values())


def break_fix(run: Snapshot, target: FixTarget, state: StudyState[Any, Any] | None) -> BreakFix:
    """Return what is known of the fix of a break, from the study of this break if it has begun."""
    graph_break, tried = target.graph_break, _tried(state) if state is not None else ()
    shown = best_attempt(tried)
    verified = shown if shown is not None and shown.verified else None
    change = shown.change if shown else (target.changes or (None,))[0]
    state_name: FixState = "proposed" if state is None else "verifying"
    note = f"{shown.change.fix.name}: {shown.objection}" if shown else ""
    following = next(iter(target.changes[target.first + len(tried) :]), None)
    if verified is not None:
        state_name, note = "verified", verified.not_timed
    elif change is None:
        state_name, note = "none", target.advice
    elif state is not None and (state.over or following is None):
        state_name = "untested" if shown is not None and shown.branch_untested else "refused"
        note = shown.objection if shown else next((one.advice for one in by_break(state.results)), "")
    elif following is not None:
        change = following
    timed = verified.timed if verified else None
    return BreakFix(
        run=run.run, location=graph_break.location, kind=graph_break.kind, state=state_name, note=note,
        name=change.fix.name if change else "", code=change.code if change else "",
        inputs=verified.inputs if verified else 0,
        kernels=(summarize(verified.before).kernels, summarize(verified.after).kernels) if verified else None,
        speedup=timed.speedup if timed and timed.verdict in DECIDED else None,
        gain=fix_gain(timed) if timed else None,
    )  # fmt: skip


def _tried(state: StudyState[Any, Any]) -> tuple[Verification, ...]:
    """Return the verifications of one break, with the one under way if it has already failed."""
    verifications = by_break(state.results)[0].verifications if state.results else ()
    current = under_way(state)
    return (*verifications, current) if current is not None and current.objection else verifications


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


@dataclass(slots=True)
class FixedFiles:
    """The texts of a program's files with the fixes adopted so far."""

    job: Job
    texts: dict[str, str] = field(default_factory=dict)
    adopted: list[Change] = field(default_factory=list)
    script_runs: dict[StepSide, Snapshot] = field(default_factory=dict)
    """Recorded steps of the unmodified script."""

    def text(self, file: str) -> str:
        """Return the text of a file with its fixes. Raises `UnreadableError`."""
        if file not in self.texts:
            self.texts[file] = self.job.source if file == self.job.file else read_source(file)
        return self.texts[file]

    def changes(self, graph_break: GraphBreak) -> tuple[Change, ...]:
        """Return the changes that could remove a break. Raises `UnreadableError`."""
        at = graph_break.location
        if at is None or installed(at.file):
            return ()
        return proposals(at.file, self.text(at.file), at.line, graph_break.kind)

    def advice(self, graph_break: GraphBreak) -> str:
        """Return what the user can do if no change is known. Raises `UnreadableError`."""
        at = graph_break.location
        text = self.text(at.file) if at and not installed(at.file) else ""
        return advice(at.file, text, at.line, graph_break.kind) if at else ""

    def fixed_job(self) -> Job:
        """Return the job that runs the files with the adopted fixes."""
        source = self.texts.get(self.job.file, self.job.source)
        return replace(self.job, source=source, overlay=self.overlay(self.texts))

    def job_to_list_breaks(self) -> Job:
        """Return the job that runs the files with the adopted fixes, to see the breaks that are left."""
        # A script's region is compared alone.
        config = replace(self.job.config, no_captured_calls=True, no_eager_steps=True)
        return replace(self.fixed_job(), time_for=0.0, profile=False, config=config)

    def job_with(self, change: Change) -> Job:
        """Return the job that runs a change on top of the adopted ones, and compares it with the original source."""
        texts = {**self.texts, change.file: change.after}
        overlay = self.overlay(texts)
        source = texts.get(self.job.file, self.job.source)
        return replace(
            self.job, source=source, overlay=overlay, baseline=self.job.source, examine=True,
            baseline_tests=tuple(self._tests(change)),
        )  # fmt: skip

    def job_of_steps(self, change: Change | None, side: StepSide, steps: int) -> Job:
        """Return the job that records the steps of the script: with a change and the adopted ones, or unmodified."""
        texts = {} if change is None else {**self.texts, change.file: change.after}
        config = replace(self.job.config, region=None, settings=(*self.job.config.settings, EAGER_RANDOM))
        return replace(
            self.job, source=texts.get(self.job.file, self.job.source), overlay=self.overlay(texts), config=config,
            time_for=0.0, examine=False, step_side=side, steps=steps, steps_for=STEPS_FOR_S,
        )  # fmt: skip

    def overlay(self, texts: dict[str, str]) -> tuple[tuple[str, str], ...]:
        """Return the texts of the local modules among these."""
        return tuple((file, text) for file, text in texts.items() if file != self.job.file)

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

    def in_original(self, graph_break: GraphBreak) -> GraphBreak:
        """Return a break of the changed files on its line in the user's own file."""
        at = graph_break.location
        line = self._original_line(at.file, at.line) if at else 0
        return graph_break if at is None or not line else replace(graph_break, location=replace(at, line=line))


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

    graph_break: GraphBreak
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
    proposed: Change | None = None
    """The change that is verified next."""
    step: str = ""
    """What is done until its verification begins; empty while a worker starts."""

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
    write: bool = False,
    width: int = 78,
) -> StaticDocument:
    """Return the document of all breaks; `run` is the run of the unmodified file, `untried` names breaks left out."""
    if run is None:
        return StaticDocument("", tuple(wrapped("Waiting for the run of the unmodified file.", width, "muted")))
    rows: list[Row] = []
    if run.failure is not None:
        rows += wrapped(f"{run.failure.type}: {run.failure.message}", width, "error", lead="✖ ")
        if not breaks:
            return StaticDocument("", tuple(rows))
        rows.append(BLANK)  # the time limit ended it after its breaks were known
    for fixes in breaks:
        view = BreakView(fixes.graph_break, run.file, fixes.verifications, number=fixes.number, advice=fixes.advice)
        rows += [*_break(view, width), *_body(view, width), BLANK]
    fixed = sum(fixes.verified is not None for fixes in breaks)
    if untried:
        rows += wrapped(f"{count(fixed, 'break')} with a verified fix; not all breaks were tried", width, "strong")
    else:
        rows += wrapped(f"{fixed} of {count(len(breaks), 'break')} with a verified fix", width, "strong")
    for step in untried:
        rows += wrapped(step, width, "warn", indent=1, lead="not tried to the end: ")
    if timed := timed_together(run, breaks):
        rows += wrapped(speed_text(timed), width, lead="all fixes together: ")
    if written:
        rows += wrapped(f"written: {', '.join(map(display_path, written))}", width, "ok")
    elif fixed and over and write:
        rows += wrapped(f"verified and not written: {', '.join(_verified_names(breaks, run.file))}", width, "warn")
    elif fixed and over:
        rows += wrapped("nothing is written without --write", width, "muted")
    return StaticDocument("", tuple(rows))


def timed_together(run: Snapshot, breaks: Sequence[BreakFixes]) -> ev.ChangeTimed | None:
    """Return the timing of all verified fixes together, if there are several: that of the last one has all of them.

    In a script, each is timed on its region alone.
    """
    verified = [fixes.verified for fixes in breaks if fixes.verified is not None]
    return verified[-1].after.change_timing if len(verified) > 1 and not run.is_script else None


def _verified_names(breaks: Sequence[BreakFixes], file: str) -> Iterator[str]:
    """Yield the verified fixes with the lines of their breaks."""
    for fixes in breaks:
        if fixes.verified is not None:
            place = places(file).describe(fixes.graph_break.location) or "unknown line"
            yield f"{place} ({fixes.verified.change.fix.name})"


def _break(view: BreakView, width: int) -> Iterator[Row]:
    graph_break, at = view.graph_break, view.graph_break.location
    place = places(view.file).describe(at) or "unknown line"
    number = (f" {view.number}", "muted") if view.number else ""
    yield row(number, (" ✖ ", "break"), (place, "break"), f"  {graph_break.code}", location=at)
    yield from wrapped(graph_break.reason or graph_break.kind, width, "muted", indent=3, location=at)
    yield BLANK


def _body(view: BreakView, width: int) -> Iterator[Row]:
    verification = view.shown
    if verification is None:
        if view.waiting:
            if view.proposed is not None:
                yield from _change(view.proposed, width)
                yield BLANK
            text = f"Not verified yet. {f'Under way: {view.step}' if view.step else 'Waiting for a worker'}."
            yield from wrapped(text, width, "running")
        else:
            yield from wrapped(view.advice or NO_FIX, width, "strong")
            yield from wrapped("torch's own hints are in the breaks pane.", width, "muted", keys_only=True)
        return
    yield from _summary(verification, view, width)
    yield from _change(verification.change, width)
    yield BLANK
    yield heading("Verification", "in a separate process")
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


def _change(change: Change, width: int) -> Iterator[Row]:
    yield row(" ", (change.fix.name, "heading"))
    yield from wrapped(change.fix.description, width, "strong", indent=3)
    for effect in change.fix.side_effects:
        yield from wrapped(effect, width, "warn", indent=3, lead="Side effect: ")
    yield BLANK
    before, after = ([line.rstrip("\r\n") for line in lines_of(text)] for text in (change.before, change.after))

    def at(line: Numbered) -> Row:
        return Row((), location=Location(change.file, line.before or line.after))

    yield from text_rows(align(before, after, str), width, at, uncut=True)


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
        yield from wrapped(ADD_AN_INPUT, width, "strong") if verification.branch_untested else ()


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


FixResult = AttemptedFix | Snapshot
State = StudyState[FixOptions, FixResult]


class FixStudy(Study[FixOptions, FixResult]):
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
    studies_scripts = True
    default_options = FixOptions()

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        group = parser.add_argument_group("what to fix")
        group.add_argument("--break", type=at_least_one, metavar="N", dest="number", help="only the Nth break")
        group.add_argument("--write", action="store_true", help="write verified fixes to your files")

    def options(self, given: argparse.Namespace) -> FixOptions:
        return FixOptions(given.number, given.write)

    async def plan(self, state: State, runs: Runs, announce: Announce) -> AsyncGenerator[FixResult, None]:
        """Try the fixes of each break until one is verified; it stays in place for the breaks after it."""
        files, target = FixedFiles(state.job), state.options.target
        if target is not None:
            async for attempt in _attempts(state, 1, target, files, runs, announce):
                yield attempt
            return
        runs.steps.plan((UNMODIFIED,))
        announce(UNMODIFIED)
        run = (await runs.run(files.job_to_list_breaks(), state.timeout)).snapshot
        yield run
        names = _steps(run).values()
        runs.steps.plan(name for number, name in enumerate(names, 1) if state.options.number in (None, number))
        async for attempt in fix_each(state, files, run, runs, announce):
            yield attempt

    def result_key(self, result: FixResult) -> Hashable:
        """Return what a result is about: a fix of a script is yielded again, with its steps."""
        if isinstance(result, AttemptedFix) and result.verification is not None:
            return result.number, result.verification.change.fix.name, result.verification.change.after
        return id(result)

    def document(self, state: State, width: int = 78) -> Document:
        target = state.options.target
        if target is None:
            breaks = by_break(state.results)
            untried = () if _original(state) is None else state.skipped
            return fix_document(
                _original(state),
                breaks,
                untried,
                state.written,
                over=state.over,
                write=state.options.write,
                width=width,
            )
        done = by_break(state.results)
        verifications = done[0].verifications if done else ()
        current = None if state.over else under_way(state)
        view = BreakView(
            target.graph_break, state.job.file, verifications, current,
            advice=done[0].advice if done else target.advice,
            waiting=not state.over and bool(target.changes), written=", ".join(state.written),
            proposed=next(iter(target.changes[target.first :]), None), step=state.step,
        )  # fmt: skip
        return break_document(view, width)

    def result_line(self, result: FixResult) -> str:
        if not isinstance(result, AttemptedFix) or result.verification is None or not result.verification.verified:
            return ""
        location, name = result.graph_break.location, result.verification.change.fix.name
        at = f" at line {location.line}" if location is not None else ""
        return f"break {result.number}{at}: {name}: verified"

    def fields(self, state: State) -> Fields:
        """Return the fixes; times are microseconds of one compiled call.

        Each run has the verified fixes of the breaks before it, so `cost` is what a fix saves beyond those; `together`
        is the timing of all of them.
        """
        run, breaks = _original(state), by_break(state.results)
        return {
            "error": failure(run.failure) if run else None,
            "breaks": list(_fields_of_breaks(run, breaks)) if run else [],
            "together": _event_fields(timed_together(run, breaks)) if run else None,
            "written": [display_path(file) for file in state.written],
        }

    def write(self, state: State) -> str:
        """Write the verified fixes if the options ask for it."""
        all_fixes = [fixes for fixes in by_break(state.results) if fixes.verified]
        if not state.options.write:
            return ""
        if state.stopped:
            again = ", ".join(f"--break {fixes.number} --write" for fixes in all_fixes)
            return f"stopped before a file was written; to write a verified fix: {again}" if again else ""
        verified = [fixes.verified.change for fixes in all_fixes if fixes.verified]
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

    def exit_status(self, state: State) -> int:
        run = _original(state)
        if run is not None and run.failure is not None:
            return failure_status(run)
        all_fixes = by_break(state.results)
        unwritten = {fixes.verified.change.file for fixes in all_fixes if fixes.verified} - set(state.written)
        if state.options.write and unwritten:
            return UNFIXED
        tried = all(fixes.verified for fixes in all_fixes)
        return 0 if tried and run is not None and not state.skipped else UNFIXED


async def fix_each(
    state: State, files: FixedFiles, run: Snapshot, runs: Runs, announce: Announce
) -> AsyncGenerator[AttemptedFix, None]:
    """Try the fixes of each break of a run until one is verified; it stays in `files` for the breaks after it."""
    number, seen, steps = 0, set[_BreakKey](), _steps(run)
    while (graph_break := _next_break(run, seen)) is not None:
        number += 1
        if state.options.number not in (None, number):
            continue
        last: Verification | None = None
        async for attempt in _attempts(state, number, fix_target(files, run, graph_break), files, runs, announce):
            yield attempt
            last = attempt.verification
        if last is not None and last.verified:
            files.adopt(last.change)
            # That of a script was on one of its regions alone.
            listing = await runs.run(files.job_to_list_breaks(), state.timeout) if run.is_script else None
            run = listing.snapshot if listing is not None else last.after
        runs.steps.finish(steps.get(_break_key(graph_break), ""))


def fix_target(files: FixedFiles, run: Snapshot, graph_break: ev.GraphBreak) -> FixTarget:
    """Return a break of a run with the changes that could remove it, or with advice if none is known."""
    try:
        changes = files.changes(graph_break)
        return FixTarget(run, graph_break, changes, "" if changes else files.advice(graph_break))
    except UnreadableError:
        return FixTarget(run, graph_break, (), "")


def under_way(state: State) -> Verification | None:
    """Return the verification of the run under way, for a known target."""
    target = state.options.target
    if target is None or state.run is None:
        return None
    index = target.first + len(state.results)
    # Until the next run begins, the finished one is still there.
    runs_before = 1 if target.run.is_script else 0
    if state.run.run != len(state.results) + 1 + runs_before or index >= len(target.changes):
        return None
    return Verification(target.changes[index], target.graph_break, target.before, state.run)


async def _attempts(
    state: State, number: int, target: FixTarget, files: FixedFiles, runs: Runs, announce: Announce
) -> AsyncGenerator[AttemptedFix, None]:
    graph_break = files.in_original(target.graph_break)
    if not target.changes:
        yield AttemptedFix(number, graph_break, target.advice)
    elif target.run.is_script:
        target, files = await _in_region(state, number, target, files, runs, announce)
        if state.options.target is not None:
            state.options = replace(state.options, target=target)
        if target.region_run is None or target.region_run.failure is not None:
            yield AttemptedFix(number, graph_break, _no_region(target))
            return
    for index, change in enumerate(target.changes[target.first :], target.first + 1):
        announce(f"break {number}, fix {index} of {len(target.changes)}: {change.fix.name}")
        run = (await runs.run(files.job_with(change), state.timeout)).snapshot
        verification = Verification(change, target.graph_break, target.before, run)
        yield AttemptedFix(number, graph_break, target.advice, verification)
        if verification.verified and target.run.is_script:
            announce(f"break {number}: steps of both scripts")
            verification = replace(verification, steps=await _compare_steps(files, change, runs, state.timeout))
            yield AttemptedFix(number, graph_break, target.advice, verification)
        if verification.verified:
            return


MOST_STEPS, STEPS_FOR_S = 20, 10.0
"""Steps of both scripts that are compared, as many as fit into these seconds."""


async def _compare_steps(files: FixedFiles, change: Change, runs: Runs, limit_s: float) -> ScriptSteps:
    """Run a script before and after a change from one seed, compiled; if they differ, also with rounding noise."""

    async def run(change: Change | None, side: StepSide, steps: int) -> Snapshot:
        return (await runs.run(files.job_of_steps(change, side, steps), limit_s)).snapshot

    known = files.script_runs
    if "compiled" not in known:
        known["compiled"] = await run(None, "compiled", MOST_STEPS)
    before = known["compiled"]
    if before.failure is not None:
        return ScriptSteps(reason=f"the script fails: {before.failure.message.strip().partition(chr(10))[0]}")
    after = await run(change, "compiled", max(1, len(before.step_parameters)))
    if after.failure is not None:
        return ScriptSteps(reason=f"the changed script fails: {after.failure.message.strip().partition(chr(10))[0]}")
    compared = compare_scripts(before.step_parameters, after.step_parameters, ())
    if compared.identical or compared.reason or compared.objection:
        return compared
    if "perturbed" not in known:
        known["perturbed"] = await run(None, "perturbed", compared.steps)
    return compare_scripts(before.step_parameters, after.step_parameters, known["perturbed"].step_parameters)


async def _in_region(
    state: State, number: int, target: FixTarget, files: FixedFiles, runs: Runs, announce: Announce
) -> tuple[FixTarget, FixedFiles]:
    """Run the region of a script that has a break alone, and return the target and the files to verify fixes with.

    The fixes are verified on a captured call of the region, which the script makes in the same way in both versions.
    """
    region = region_of_graph(target.run, target.graph_break.graph)
    if region is None:
        return target, files
    announce(f"break {number}: {region.name} alone")
    config = replace(state.job.config, region=str(region.region))
    files = replace(files, job=replace(files.job, config=config))
    run = (await runs.run(files.job_to_list_breaks(), state.timeout)).snapshot
    return replace(target, region_run=run), files


def _no_region(target: FixTarget) -> str:
    """Return why no fix of a break in a script can be verified."""
    failed = target.region_run.failure if target.region_run is not None else None
    reason = f": {failed.message}" if failed is not None else ""
    return f"No call of its region could be captured, so that no fix can be verified{reason}"


_BreakKey = tuple[str, str, str]


def _break_key(graph_break: ev.GraphBreak) -> _BreakKey:
    """Return the identity of a break: its code, since lines move."""
    return graph_break.location.file if graph_break.location else "", graph_break.code, graph_break.kind


def _next_break(run: Snapshot, seen: set[_BreakKey]) -> ev.GraphBreak | None:
    """Return the first break that is not in `seen`."""
    for graph_break in run.breaks:
        if _break_key(graph_break) not in seen:
            seen.add(_break_key(graph_break))
            return graph_break
    return None


def _steps(run: Snapshot) -> dict[_BreakKey, str]:
    """Return a name for each break of the unmodified file, such as `break 1, line 5: print("mean", y.mean())`."""
    steps: dict[_BreakKey, str] = {}
    for graph_break in run.breaks:
        place = f", line {graph_break.location.line}" if graph_break.location else ""
        code = graph_break.code or graph_break.kind
        steps.setdefault(_break_key(graph_break), f"break {len(steps) + 1}{place}: {code}")
    return steps


def _original(state: State) -> Snapshot | None:
    return next((result for result in state.results if isinstance(result, Snapshot)), None)


def _fields_of_breaks(run: Snapshot, breaks: Sequence[BreakFixes]) -> Iterator[Fields]:
    earlier: ev.ChangeTimed | None = None
    for fixes in breaks:
        timed = fixes.verified.after.change_timing if fixes.verified else None
        gain = fix_gain(timed, earlier) if timed else None
        cost = (
            {"us": gain.us, "low_us": gain.low_us, "high_us": gain.high_us, "basis": "verified fix"} if gain else None
        )
        yield _break_fields(fixes, cost, run)
        earlier = timed or earlier


def _break_fields(fixes: BreakFixes, cost: Fields | None, run: Snapshot) -> Fields:
    return {
        "number": fixes.number,
        "break": break_fields(fixes.graph_break, run),
        "fixed": fixes.verified is not None,
        "cost": cost,
        "advice": fixes.advice or None,
        "fixes": [_fix_fields(fixes, verification, run) for verification in fixes.verifications],
    }


def _fix_fields(fixes: BreakFixes, verification: Verification, run: Snapshot) -> Fields:
    change, after = verification.change, verification.after
    return {
        "id": stable_ids(run).fix(fixes.graph_break, change.fix.name),
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
        "uncovered": [break_fields(other, after) for other in verification.uncovered],
        "results": _event_fields(after.change_check),
        "speed": _event_fields(after.change_timing),
        "steps": None if verification.steps is None else _step_fields(verification.steps),
        "facts": [{"state": fact.state, "text": fact.text} for fact in facts(verification)],
    }


def _step_fields(steps: ScriptSteps) -> Fields:
    values = asdict(steps)
    if not math.isfinite(steps.loss_difference):
        values["loss_difference"] = None
    return {**values, "objection": steps.objection or None, "reason": steps.reason or None}


def _event_fields(event: ev.ChangeChecked | ev.ChangeTimed | None) -> dict[str, Any] | None:
    if event is None:
        return None
    return {name: value for name, value in asdict(event).items() if name not in ("run", "rank")}


STUDY = FixStudy()
