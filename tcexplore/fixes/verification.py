"""Verification of a fix by running the changed file: the break is gone, no break is new, the results are the same.

Its facts are stated for the screen and the report.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

from tcexplore.documents.timing.accuracy_rows import FAITHFUL_VERDICTS, describe_accuracy, format_errors
from tcexplore.events import AS_CONFIGURED, TIMEOUT, ChangeChecked, ChangeCompared, ChangeTimed, Failed, GraphBreak
from tcexplore.fixes.fix import Change
from tcexplore.quantities import count, duration, factor_range
from tcexplore.session import Snapshot
from tcexplore.session.economics import UNDECIDED

SAME_VERDICTS = ("identical", "close to eager")
"""Good verdicts on the changed file against the original, both in eager mode."""

NOT_COMPARED = "no comparison was made"


@dataclass(frozen=True, slots=True)
class ScriptSteps:
    """The first steps of a script before and after a change, both compiled, from one seed."""

    steps: int = 0
    losses: int = 0
    """Losses that were compared."""
    loss_difference: float = 0.0
    """Largest relative difference of a loss."""
    identical: bool = False
    """Whether losses, parameters and random numbers are equal bit by bit."""
    same_random: bool = True
    """Whether all random generators have the same state after each step."""
    judged: bool = False
    """Whether it is known that rounding explains each difference."""
    before_us: float | None = None
    """Median time of a step, in a run of its own; None if there are too few."""
    after_us: float | None = None
    objection: str = ""
    """Why the steps are not the same; empty if they are."""
    reason: str = ""
    """Why no step was compared; empty if some were."""

    @property
    def text(self) -> str:
        """The result in a sentence."""
        if self.reason:
            return f"Steps of both scripts could not be compared: {self.reason}"
        made = f"{count(self.steps, 'step')} of both scripts from one seed"
        if self.objection:
            return f"{made}: {self.objection}"
        if self.identical:
            return f"{made}: losses, parameters and random numbers bit-identical"
        losses = f"losses equal within {self.loss_difference:.1e}" if self.losses else "no loss was seen"
        if not self.judged:
            return f"{made}: {losses}, and random numbers equal; parameters were not compared with rounding"
        return f"{made}: {losses}, parameters equal up to rounding, random numbers equal"

    @property
    def time(self) -> str:
        """The time of a step before and after in a sentence; empty if it is not known."""
        if self.before_us is None or self.after_us is None:
            return ""
        before, after = duration(self.before_us / 1e6), duration(self.after_us / 1e6)
        return f"Median step {before} before, {after} now, in separate runs of few steps: not comparable"


@dataclass(frozen=True)
class Verification:
    """A change tried in a run."""

    change: Change
    graph_break: GraphBreak
    """The break that it should remove."""
    before: Snapshot
    """The run that has the break."""
    after: Snapshot
    """The run of the changed file so far."""
    steps: ScriptSteps | None = None
    """Of a script: its steps before and after the change; None for other programs, and before they are compared."""

    @property
    def over(self) -> bool:
        """Return whether the run is finished."""
        return self.after.status != "running"

    @property
    def verified(self) -> bool:
        """Return whether the break is gone, no break is new, and the results are the same.

        Timing, the last step of a run, is not waited for.
        """
        return self.compared and not self.objection

    @property
    def compared(self) -> bool:
        """Return whether everything is known that decides on the fix."""
        return self.over or self.after.change_check is not None

    @property
    def traced(self) -> bool:
        """Return whether all remaining breaks are known. What is compiled after that is the original."""
        compared = self.after.accuracy is not None or self.after.change_check is not None
        return compared or self.after.complete or self.over

    @property
    def inputs(self) -> int:
        """Return the number of inputs whose results were compared, varied ones included."""
        judged = self.after.change_check
        return judged.calls + judged.varied if judged else 0

    @cached_property
    def remaining(self) -> tuple[GraphBreak, ...]:
        """This break in the changed file."""
        return tuple(other for other in self.after.breaks if self._is_same(other))

    @cached_property
    def new(self) -> tuple[GraphBreak, ...]:
        """Breaks that the original does not have, without those that only became visible."""
        return () if self._skipped_function else self._unknown

    @cached_property
    def uncovered(self) -> tuple[GraphBreak, ...]:
        """Breaks that became visible: Dynamo skipped the rest of the function because of the break that is gone."""
        return self._unknown if self._skipped_function else ()

    @property
    def branch_untested(self) -> bool:
        """Return whether the only objection is that no input takes a branch that the fix changes."""
        judged = self.after.change_check
        if judged is None or judged.verdict not in SAME_VERDICTS or not judged.unreached:
            return False
        return sum(map(bool, self._objections())) == 1

    @property
    def objection(self) -> str:
        """Return why the fix is not verified; empty as long as nothing is wrong."""
        return next((objection for objection in self._objections() if objection), "")

    def _objections(self) -> Iterable[str]:
        after, judged, accuracy = self.after, self.after.change_check, self.after.accuracy
        yield "" if self._ended_while_timed else _failure(after.failure)
        yield self.still_broken
        if self.new:
            place = f" at {self._place(self.new[0])}" if self.new[0].location else ""
            yield f"it causes another break{place}: {self.new[0].reason}"
        if not self.compared:
            return
        yield "nothing is compiled anymore" if not after.graphs else ""
        if self.change.fix.prints and self.printed[0] != self.printed[1]:
            yield "it does not print everything that it should"
        if accuracy is not None and accuracy.verdict not in (*FAITHFUL_VERDICTS, _verdict(self.before)):
            yield f"compiled is {accuracy.verdict} now"
        if judged is None or judged.verdict == "not judged":
            yield f"the results could not be compared: {judged.reason if judged else NOT_COMPARED}"
        elif judged.verdict not in SAME_VERDICTS:
            yield f"the results differ from the original: {(*judged.differences, _difference(judged))[0]}"
        elif judged.unreached:
            yield f"a branch could not be tried: {judged.unreached[0]}"
        if self.steps is not None and self.steps.objection:
            yield f"the script's steps differ: {self.steps.objection}"

    @property
    def _ended_while_timed(self) -> bool:
        """Return whether the time limit ended the run after the results were compared."""
        failed = self.after.failure
        return failed is not None and failed.type == TIMEOUT and self.after.change_check is not None

    @property
    def timed(self) -> ChangeTimed | None:
        """The timing of both programs; None if there is none, or if the run ended before its first verdict."""
        timed = self.after.change_timing
        return None if timed is not None and timed.verdict == "measuring" and self.over else timed

    @property
    def not_timed(self) -> str:
        """Return why both programs were not timed, once the run is over; empty if they were."""
        failed = self.after.failure
        if not self.over or self.timed is not None:
            return ""
        return f"not timed: {failed.message}" if failed is not None and self._ended_while_timed else "not timed"

    @property
    def still_broken(self) -> str:
        """Return what is left of the break; empty if nothing is."""
        if not self.remaining:
            return ""
        other = self.remaining[0]
        if other.kind == self.graph_break.kind:
            return "the break is still there"
        return f"{self._place(other)} still breaks: {other.reason}"

    def _place(self, graph_break: GraphBreak) -> str:
        """Return the line of a break in the original file; in the changed one if the change wrote the line."""
        if graph_break.location is None:
            return "the file"
        if before := self._key_before(graph_break)[1]:
            return f"line {before}"
        return f"line {graph_break.location.line} of the changed file"

    @property
    def printed(self) -> tuple[int, int]:
        """Return the number of lines that one eager and one compiled run print, before and after the change."""
        return _lines(self.before), _lines(self.after)

    @cached_property
    def _unknown(self) -> tuple[GraphBreak, ...]:
        return tuple(b for b in self.after.breaks if not self._is_same(b) and self._key_before(b) not in self._known)

    @cached_property
    def _known(self) -> frozenset[tuple[str, int | None, str]]:
        """The breaks of the original."""
        return frozenset(map(_key, self.before.breaks))

    @property
    def _skipped_function(self) -> bool:
        """Return whether the function with the break was not compiled at all, which hides other breaks in it."""
        at = self.graph_break.location
        frames = (skipped.frame for skipped in self.before.skipped_frames)
        return at is not None and any((f.file, f.function) == (at.file, at.function) for f in frames)

    def _is_same(self, other: GraphBreak) -> bool:
        """Return whether this is the same break; on a line that the change touched, one of the same kind is.

        A break of another kind on the same line counts too, if the original does not have it: the line still breaks,
        for its next reason.
        """
        key, own = self._key_before(other), _key(self.graph_break)
        if key == own:
            return True
        if key[1] is None:
            return other.kind == self.graph_break.kind and self._in_file(other)
        return key[:2] == own[:2] and key not in self._known

    def _key_before(self, other: GraphBreak) -> tuple[str, int | None, str]:
        file, line, kind = _key(other)
        return (file, self.change.line_before(line), kind) if line and self._in_file(other) else (file, line, kind)

    def _in_file(self, other: GraphBreak) -> bool:
        return other.location is not None and other.location.file == self.change.file


def _failure(failure: Failed | None) -> str:
    if failure is None:
        return ""
    if failure.type == TIMEOUT:
        return f"{failure.message}, so it is not known whether it helps"
    return f"the changed file fails: {failure.type}: {failure.message.strip().partition(chr(10))[0]}"


def _key(graph_break: GraphBreak) -> tuple[str, int | None, str]:
    at = graph_break.location
    return (at.file, at.line, graph_break.kind) if at else ("", None, graph_break.kind)


def _lines(snapshot: Snapshot) -> int:
    return sum(output.text.count("\n") for output in snapshot.output if output.stream == "stdout")


def _verdict(snapshot: Snapshot) -> str:
    return snapshot.accuracy.verdict if snapshot.accuracy else ""


def _difference(judged: ChangeChecked) -> str:
    """Return `gradient of fc1.weight by up to 0.014, 3.2e-07 of its largest value`."""
    relative = "" if judged.max_rel is None else f", {judged.max_rel:.2g} of its largest value"
    by = "by NaN or infinity" if judged.max_abs is None else f"by up to {judged.max_abs:.2g}{relative}"
    return f"{judged.tensor} {by}" if judged.tensor else by


FactState = Literal["ok", "bad", "wait", "note"]


class Fact(NamedTuple):
    """A sentence, and whether it is in favor of the fix, against it, not known yet, or only informative."""

    state: FactState
    text: str


def facts(verification: Verification) -> Iterator[Fact]:
    """Yield everything that is known, in the order in which it becomes known.

    What is not known yet is left out once there is an objection: the run ends there.
    """
    return (fact for fact in _facts(verification) if fact.state != "wait" or not verification.objection)


def _facts(verification: Verification) -> Iterator[Fact]:
    failed = verification.after.failure
    if failed is not None and failed.type != "stopped" and verification.objection:
        yield Fact("bad", verification.objection)
        return
    yield from _breaks(verification)
    yield from _compiled(verification)
    yield _results(verification)
    judged = verification.after.change_check
    if judged is not None and judged.verdict in SAME_VERDICTS:
        if verification.change.fix.tests and not judged.unreached:
            yield Fact("ok", "Of these inputs, some meet each replaced condition and some do not: all branches ran")
        if _is_large(judged):
            why = "a rounding grows to this there, with the fix or without: with other roundings, the original differs"
            yield Fact("note", f"Sensitive: {_difference(judged)}; {why} about as much from itself")
        yield from (Fact("note", f"Also different: {difference}") for difference in judged.differences[:3])
        yield from (Fact("note", f"Not compared: {text}") for text in judged.not_compared)
    yield _speed(verification)
    if (steps := verification.steps) is not None:
        yield Fact("bad" if steps.objection else "note" if steps.reason or not steps.judged else "ok", steps.text)
        if steps.time and not steps.objection and not steps.reason:
            yield Fact("note", steps.time)
    yield from _output(verification)


def summary_fact(verification: Verification) -> Fact:
    """Return all of it in one line: `verified on 4 inputs: breaks 2 → 1, outputs equal, 1.20× faster than before`."""
    if verification.objection:
        return Fact("bad", f"not verified: {verification.objection}")
    before, after = verification.before, verification.after
    known = [f"breaks {len(before.breaks)} → {len(after.breaks)}"] if verification.traced else []
    judged, timed = after.change_check, verification.timed
    if judged is not None:
        known.append("outputs bit-identical" if judged.verdict == "identical" else "outputs equal up to rounding")
    if timed is not None:
        known.append(_gain(timed))
    elif not verification.over:
        known += [fact.text for fact in facts(verification) if fact.state == "wait"][:1]
    if verification.steps is not None and verification.steps.steps:
        known.append(f"{count(verification.steps.steps, 'step')} of both scripts equal")
    text = ", ".join(known)
    if not verification.verified:
        return Fact("wait", f"verifying: {text}")
    return Fact("ok", f"verified on {count(verification.inputs, 'input')}: {text}")


def _gain(timed: ChangeTimed) -> str:
    """Return the speed of the compiled call with the fix, relative to that without it."""
    if timed.verdict in ("faster", "slower"):
        return f"{timed.speedup:.2f}× {timed.verdict} than before {timed.load}".rstrip()
    return "as fast as before" if timed.verdict == "no difference" else f"speed {timed.verdict}"


def _breaks(verification: Verification) -> Iterator[Fact]:
    if not verification.traced:
        yield Fact("wait", "running the changed file")
        return
    before, after = verification.before.breaks, verification.after.breaks
    numbers = f"{count(len(before), 'graph break')} before, {len(after)} now"
    if verification.remaining:
        yield Fact("bad", f"{numbers}: {verification.still_broken}")
    else:
        yield Fact("ok", f"The break is gone{', another is new' if verification.new else ''}: {numbers}")
    for new in verification.new:
        yield Fact("bad", f"New break: {(new.code or new.kind).rstrip(':')}: {new.reason}")
    for other in verification.uncovered:
        yield Fact("note", f"Another break after it: {(other.code or other.kind).rstrip(':')}")


def _compiled(verification: Verification) -> Iterator[Fact]:
    accuracy, original = verification.after.accuracy, verification.before.accuracy
    if accuracy is not None:
        unchanged = original is not None and original.verdict == accuracy.verdict
        text = describe_accuracy(accuracy) + (f" ({format_errors(accuracy)})" if format_errors(accuracy) else "")
        yield Fact("ok" if accuracy.verdict in FAITHFUL_VERDICTS else "note" if unchanged else "bad", text)


def _results(verification: Verification) -> Fact:
    judged = verification.after.change_check
    if judged is None:
        if not verification.over:
            return Fact("wait", f"comparing the results{_progress(verification.after.change_progress)}")
        return Fact("bad", verification.objection or NOT_COMPARED)
    if judged.verdict == "not judged":
        return Fact("bad", f"The results could not be compared: {judged.reason}")
    if judged.verdict in SAME_VERDICTS:
        return Fact("bad", verification.objection) if judged.unreached else Fact("ok", _same(judged))
    return Fact("bad", verification.objection)


def _progress(compared: ChangeCompared | None) -> str:
    """Return `: equal on 3 of 5 inputs so far, now in training mode`."""
    if compared is None:
        return ""
    mode = "" if compared.mode == AS_CONFIGURED else f", now {_in_mode(compared.mode)}"
    return f": equal on {compared.inputs} of {count(compared.planned, 'input')} so far{mode}"


def _in_mode(mode: str) -> str:
    return mode if mode.startswith("with") else f"in {mode}"


def _same(judged: ChangeChecked) -> str:
    modes = [_in_mode(mode) for mode in judged.modes if mode != AS_CONFIGURED]
    results = "Outputs, gradients and state" if judged.train or judged.gradients else "Outputs and state"
    others = f", also on {count(judged.varied, 'other input')}" if judged.varied else ""
    others += f"; also {' and '.join(modes)}" if modes else ""
    if judged.verdict == "identical":
        return f"{results}, eager and compiled, bit-identical to the original in eager mode{others}"
    difference = f" ({_difference(judged)})" if judged.max_abs and not _is_large(judged) else ""
    return f"{results}, eager and compiled, equal to the original in eager mode up to rounding{difference}{others}"


LARGE_REL = 0.1
"""Difference, relative to the largest value, above what a dtype explains: a rounding grew to it."""


def _is_large(judged: ChangeChecked) -> bool:
    return judged.max_rel is not None and judged.max_rel >= LARGE_REL


def _speed(verification: Verification) -> Fact:
    timed = verification.timed
    if timed is None:
        return Fact("note", verification.not_timed) if verification.over else Fact("wait", "timing both")
    return Fact("note" if verification.over else "wait", speed_text(timed))


def speed_text(timed: ChangeTimed) -> str:
    """Return `Compiled call: 142 µs before, 96 µs now: 1.48× [1.40, 1.55], faster`, with the load, if there is any."""
    before, after = duration(timed.before_us / 1e6), duration(timed.after_us / 1e6)
    speedup = "" if timed.verdict in UNDECIDED else f"{timed.speedup:.2f}× "
    interval = factor_range(timed.low, timed.high)
    verdict = f"{timed.verdict} {timed.load}".rstrip()
    return f"Compiled call: {before} before, {after} now: {speedup}{interval}, {verdict}"


def _output(verification: Verification) -> Iterator[Fact]:
    before, now = verification.printed
    if verification.traced and before != now:
        state: FactState = "bad" if verification.change.fix.prints else "note"
        yield Fact(state, f"One eager and one compiled run print {count(now, 'line')} instead of {before}")
