"""Facts about a verification so far, as sentences for the screen and the report."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

from tcexplore.documents.timing.accuracy_rows import FAITHFUL_VERDICTS, describe_accuracy, format_errors
from tcexplore.events import ChangeChecked, ChangeTimed
from tcexplore.fixes.verification import NOT_COMPARED, SAME_VERDICTS, Verification
from tcexplore.quantities import count, duration
from tcexplore.session.economics import UNDECIDED

CONFIGURED = "as configured"
"""The first of `ChangeChecked.modes`."""

FactState = Literal["ok", "bad", "wait", "note"]


class Fact(NamedTuple):
    """A sentence, and whether it is in favor of the fix, against it, not known yet, or only informative."""

    state: FactState
    text: str


def facts(verification: Verification) -> Iterator[Fact]:
    """Yield everything that is known, in the order in which it becomes known."""
    failed = verification.after.failure
    if failed is not None and failed.type != "stopped":
        yield Fact("bad", verification.objection)
        return
    yield from _breaks(verification)
    yield from _compiled(verification)
    yield _results(verification)
    judged = verification.after.change_check
    if judged is not None and judged.verdict in SAME_VERDICTS:
        yield from (Fact("note", f"Also different: {difference}") for difference in judged.differences[:3])
    yield _speed(verification)
    yield from _output(verification)


def summary_fact(verification: Verification) -> Fact:
    """Return all of it in one line: `verified on 4 inputs: breaks 2 → 1, outputs equal, 1.20× faster than before`."""
    if verification.objection:
        return Fact("bad", f"not verified: {verification.objection}")
    before, after = verification.before, verification.after
    known = [f"breaks {len(before.breaks)} → {len(after.breaks)}"] if verification.traced else []
    judged, timed = after.change_check, after.change_timing
    if judged is not None:
        known.append("outputs bit-identical" if judged.verdict == "identical" else "outputs equal up to rounding")
    if timed is not None:
        known.append(_gain(timed))
    elif not verification.over:
        known += [fact.text for fact in facts(verification) if fact.state == "wait"][:1]
    text = ", ".join(known)
    if not verification.verified:
        return Fact("wait", f"verifying: {text}")
    return Fact("ok", f"verified on {count(verification.inputs, 'input')}: {text}")


def _gain(timed: ChangeTimed) -> str:
    """Return the speed of the compiled call with the fix, relative to that without it."""
    if timed.verdict in ("faster", "slower"):
        return f"{timed.speedup:.2f}× {timed.verdict} than before"
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
        yield Fact("ok", f"The break is gone: {numbers}")
    for new in verification.new:
        yield Fact("bad", f"New break: {new.code or new.kind}: {new.reason}")
    for other in verification.uncovered:
        yield Fact("note", f"Another break after it: {other.code or other.kind}")


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
            return Fact("wait", "comparing the results")
        return Fact("bad", verification.objection or NOT_COMPARED)
    if judged.verdict == "not judged":
        return Fact("bad", f"The results could not be compared: {judged.reason}")
    if judged.verdict in SAME_VERDICTS:
        return Fact("bad", verification.objection) if judged.unreached else Fact("ok", _same(judged))
    differences = (*judged.differences, f"The results differ from the original by up to {judged.max_abs}")
    return Fact("bad", verification.objection or differences[0])


def _same(judged: ChangeChecked) -> str:
    modes = [mode for mode in judged.modes if mode != CONFIGURED]
    results = "Outputs, gradients and state" if judged.train or modes else "Outputs and state"
    others = f", also on {count(judged.varied, 'other input')}" if judged.varied else ""
    others += f"; also in {' and '.join(modes)}" if modes else ""
    if judged.verdict == "identical":
        return f"{results}, eager and compiled, bit-identical to the original in eager mode{others}"
    difference = f" (largest difference {judged.max_abs:.2g})" if judged.max_abs else ""
    return f"{results}, eager and compiled, equal to the original in eager mode up to rounding{difference}{others}"


def _speed(verification: Verification) -> Fact:
    timed = verification.after.change_timing
    if timed is None:
        return Fact("note", "not timed") if verification.over else Fact("wait", "timing both")
    return Fact("note" if verification.over else "wait", speed_text(timed))


def speed_text(timed: ChangeTimed) -> str:
    """Return `Compiled call: 142 µs before, 96 µs now: 1.48× [1.40, 1.55], faster`."""
    before, after = duration(timed.before_us / 1e6), duration(timed.after_us / 1e6)
    speedup = "" if timed.verdict in UNDECIDED else f"{timed.speedup:.2f}× "
    return f"Compiled call: {before} before, {after} now: {speedup}[{timed.low:.2f}, {timed.high:.2f}], {timed.verdict}"


def _output(verification: Verification) -> Iterator[Fact]:
    before, now = verification.printed
    if verification.traced and before != now:
        state: FactState = "bad" if verification.change.fix.prints else "note"
        yield Fact(state, f"One eager and one compiled run print {count(now, 'line')} instead of {before}")
