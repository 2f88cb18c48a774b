"""What a proof shows so far, in words: the same for the screen and the report."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tcexplore.documents.timing.accuracy_rows import describe_accuracy, format_errors
from tcexplore.events import ChangeChecked, ChangeTimed
from tcexplore.fixes.verification import FAITHFUL, SAME, Proof
from tcexplore.quantities import count, duration

OK, BAD, WAIT, NOTE = "ok", "bad", "wait", "note"


class Fact(NamedTuple):
    """A sentence, and whether it speaks for the cure, against it, is not known yet, or is only worth knowing."""

    state: str
    text: str


def facts(proof: Proof) -> Iterator[Fact]:
    """Everything that is known, in the order in which it becomes known."""
    if proof.after.failure is not None and proof.after.failure.type != "stopped":
        yield Fact(BAD, proof.why)
        return
    yield from _breaks(proof)
    yield from _compiled(proof)
    yield _results(proof)
    yield _speed(proof)
    yield from _output(proof)


def brief(proof: Proof) -> Fact:
    """All of it in one line: `proven: breaks 2 → 1, outputs identical, 1.20×`."""
    if proof.why:
        return Fact(BAD, f"not proven: {proof.why}")
    known = [f"breaks {len(proof.before.breaks)} → {len(proof.after.breaks)}"] if proof.traced else []
    judged, timed = proof.after.change_check, proof.after.change_timing
    if judged is not None:
        known.append("outputs identical" if judged.verdict == "identical" else "outputs equal but for rounding")
    if timed is not None:
        known.append(f"{timed.speedup:.2f}×, {timed.verdict}")
    next_ = "" if proof.over else next((fact.text for fact in facts(proof) if fact.state == WAIT and not timed), "")
    said = ", ".join(filter(None, (*known, next_)))
    return Fact(OK, f"proven: {said}") if proof.proven else Fact(WAIT, f"proving: {said}")


def _breaks(proof: Proof) -> Iterator[Fact]:
    if not proof.traced:
        yield Fact(WAIT, "running the changed file")
        return
    numbers = f"{count(len(proof.before.breaks), 'graph break')} before, {len(proof.after.breaks)} now"
    if proof.remaining:
        yield Fact(BAD, f"the break is still there: {numbers}")
    else:
        yield Fact(OK, f"the break is gone: {numbers}")
    for new in proof.new:
        yield Fact(BAD, f"a break that was not there before: {new.code or new.kind}: {new.reason}")
    for other in proof.uncovered:
        yield Fact(NOTE, f"behind it there is one more: {other.code or other.kind}")


def _compiled(proof: Proof) -> Iterator[Fact]:
    accuracy = proof.after.accuracy
    if accuracy is not None:
        as_before = proof.before.accuracy is not None and proof.before.accuracy.verdict == accuracy.verdict
        said = describe_accuracy(accuracy) + (f" ({format_errors(accuracy)})" if format_errors(accuracy) else "")
        yield Fact(OK if accuracy.verdict in FAITHFUL else NOTE if as_before else BAD, said)


def _results(proof: Proof) -> Fact:
    judged = proof.after.change_check
    if judged is None:
        return Fact(BAD, proof.why or "no comparison was made") if proof.over else Fact(WAIT, "comparing the results")
    if judged.verdict == "not judged":
        return Fact(BAD, f"the results could not be compared: {judged.reason}")
    return Fact(OK, _same(judged)) if judged.verdict in SAME else Fact(BAD, proof.why or _differs(judged))


def _same(judged: ChangeChecked) -> str:
    what = "outputs and gradients" if judged.train else "outputs"
    others = f", also with {count(judged.varied, 'other input')}" if judged.varied else ""
    if judged.verdict == "identical":
        return f"{what} are those of the file as it was, run eagerly, to the last bit{others}"
    apart = f" (largest difference {judged.max_abs:.2g})" if judged.max_abs else ""
    return f"{what} are those of the file as it was, run eagerly, but for rounding{apart}{others}"


def _differs(judged: ChangeChecked) -> str:
    return (*judged.differences, f"the results differ from before by up to {judged.max_abs}")[0]


def _speed(proof: Proof) -> Fact:
    timed = proof.after.change_timing
    if timed is None:
        return Fact(NOTE, "not timed") if proof.over else Fact(WAIT, "timing both")
    return Fact(NOTE if proof.over else WAIT, speed(timed))


def speed(timed: ChangeTimed) -> str:
    """`a compiled call took 142 µs before, 96 µs now: 1.48× [1.40, 1.55], faster`."""
    before, after = duration(timed.before_us / 1e6), duration(timed.after_us / 1e6)
    interval = f"{timed.speedup:.2f}× [{timed.low:.2f}, {timed.high:.2f}]"
    return f"a compiled call took {before} before, {after} now: {interval}, {timed.verdict}"


def _output(proof: Proof) -> Iterator[Fact]:
    before, now = proof.printed
    if proof.traced and before != now:
        state = BAD if proof.change.cure.prints else NOTE
        yield Fact(state, f"one eager and one compiled run print {count(now, 'line')} instead of {before}")
