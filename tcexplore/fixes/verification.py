"""What a run of the changed file says of a cure: is the break gone, is there no new one, are the results the same?"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from tcexplore.events import Failed, GraphBreak
from tcexplore.fixes.fix import Change
from tcexplore.session import Snapshot

FAITHFUL = ("identical", "as accurate as eager", "close to eager")
"""Verdicts on compiled against eager that a cure may have; another one only if it was there before."""

SAME = ("identical", "close to eager")
"""Verdicts on the changed file against the original, both run eagerly."""


@dataclass(frozen=True)
class Proof:
    """`change` should remove `found`, a break of the run `before`; `after` is the run of the changed file so far."""

    change: Change
    found: GraphBreak
    before: Snapshot
    after: Snapshot

    @property
    def over(self) -> bool:
        """Whether all that can be said is known."""
        return self.after.status != "running"

    @property
    def proven(self) -> bool:
        """Whether the break is gone, none is new, and the results are the same. Timing, the last thing that a run
        does, is not waited for."""
        return self.compared and not self.why

    @property
    def compared(self) -> bool:
        """Whether all that a proof rests on is known."""
        return self.over or self.after.change_check is not None

    @property
    def traced(self) -> bool:
        """Whether all breaks that are left are known; what is compiled later is the original."""
        compared = self.after.accuracy is not None or self.after.change_check is not None
        return compared or self.after.complete or self.over

    @cached_property
    def remaining(self) -> tuple[GraphBreak, ...]:
        """The same break, still there."""
        return tuple(other for other in self.after.breaks if self._is_found(other))

    @cached_property
    def new(self) -> tuple[GraphBreak, ...]:
        """Breaks that there were none of before, but for those that only came into view."""
        return () if self._hid_others else self._unknown

    @cached_property
    def uncovered(self) -> tuple[GraphBreak, ...]:
        """Breaks that came into view: the function had been given up at the break that is gone."""
        return self._unknown if self._hid_others else ()

    @property
    def why(self) -> str:
        """Why the cure is not proven; empty as long as nothing speaks against it."""
        return next((said for said in self._objections() if said), "")

    def _objections(self) -> Iterable[str]:
        after, judged, accuracy = self.after, self.after.change_check, self.after.accuracy
        yield failed(after.failure)
        yield "the break is still there" if self.remaining else ""
        yield f"it breaks somewhere else: {_place(self.new[0])}{self.new[0].reason}" if self.new else ""
        if not self.compared:
            return
        yield "nothing is compiled any more" if not after.graphs else ""
        if after.entry is not None and after.entry.kind == "script":
            yield "the file is a script: its results cannot be compared"
        if self.change.cure.prints and self.printed[0] != self.printed[1]:
            yield "what it should print is not all printed"
        if accuracy is not None and accuracy.verdict not in (*FAITHFUL, _verdict(self.before)):
            yield f"compiled is {accuracy.verdict} now"
        if judged is None or judged.verdict == "not judged":
            yield f"the results could not be compared: {judged.reason if judged else 'no comparison was made'}"
        elif judged.verdict not in SAME:
            yield f"the results differ from before: {(*judged.differences, _apart(judged.max_abs))[0]}"

    @property
    def printed(self) -> tuple[int, int]:
        """Lines that one eager and one compiled run printed before, and print now."""
        return _lines(self.before), _lines(self.after)

    @cached_property
    def _unknown(self) -> tuple[GraphBreak, ...]:
        known = {_key(other) for other in self.before.breaks}
        return tuple(b for b in self.after.breaks if not self._is_found(b) and self._key_before(b) not in known)

    @property
    def _hid_others(self) -> bool:
        """Whether the function that broke was not compiled at all, so that what else breaks in it was never seen."""
        at = self.found.location
        frames = (skipped.frame for skipped in self.before.skipped_frames)
        return at is not None and any((f.file, f.function) == (at.file, at.function) for f in frames)

    def _is_found(self, other: GraphBreak) -> bool:
        """The same break; on a line that the change touched, one of the same kind is."""
        key = self._key_before(other)
        return key == _key(self.found) or (key[1] is None and other.kind == self.found.kind and self._in_file(other))

    def _key_before(self, other: GraphBreak) -> tuple[str, int | None, str]:
        file, line, kind = _key(other)
        return (file, self.change.line_before(line), kind) if line and self._in_file(other) else (file, line, kind)

    def _in_file(self, other: GraphBreak) -> bool:
        return other.location is not None and other.location.file == self.change.file


def failed(failure: Failed | None) -> str:
    """Why a run of a changed file failed, in one line; empty where it did not."""
    if failure is None:
        return ""
    return f"the changed file does not run: {failure.type}: {failure.message.strip().partition(chr(10))[0]}"


def _key(found: GraphBreak) -> tuple[str, int | None, str]:
    at = found.location
    return (at.file, at.line, found.kind) if at else ("", None, found.kind)


def _place(found: GraphBreak) -> str:
    return f"line {found.location.line}, " if found.location else ""


def _lines(snapshot: Snapshot) -> int:
    return sum(output.text.count("\n") for output in snapshot.output if output.stream == "stdout")


def _verdict(snapshot: Snapshot) -> str:
    return snapshot.accuracy.verdict if snapshot.accuracy else ""


def _apart(most: float | None) -> str:
    return "by NaN or infinity" if most is None else f"by up to {most:.3g}"
