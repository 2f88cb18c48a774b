"""A changed program beside what it was, both run eagerly: does it still give the same?"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext

import torch
from torch.utils import _pytree as pytree

from tcexplore.accuracy.accuracy_check import badness, values_of
from tcexplore.accuracy.call_limit import TooLongError, within
from tcexplore.accuracy.compared_calls import Subject
from tcexplore.accuracy.observation import Observed, observe
from tcexplore.accuracy.observation_diff import differences
from tcexplore.accuracy.tensor_comparison import WRONG, judge
from tcexplore.capture.entry.entry import Call
from tcexplore.events import AccuracyVerdict, ChangeChecked, Deviation

VARIATIONS: tuple[Callable[[torch.Tensor], torch.Tensor], ...] = (torch.neg, torch.zeros_like, lambda t: t + 1)
"""Other values for the floating-point inputs: the ways through the program that its own inputs do not take."""

PATIENCE_S = 3.0
"""Seconds that a call with other values may take: a loop may never end with them."""

WORDS = ((" eagerly", " before"), (" compiled", " now"))
"""What `differences` calls the two sides, and what they are here."""


def judge_change(before: Subject, now: Subject) -> ChangeChecked:
    """Compare both on the calls of `now`, and on those with other values. Raises what a call raised before as well."""
    if reason := _other_weights(before, now):
        return ChangeChecked(verdict="not judged", reason=reason)
    judging = _Judging(before, now)
    for number, call in enumerate(now.calls, 1):
        where = f"call {number}: " if len(now.calls) > 1 else ""
        judging.compare(call, where)
        for variation in VARIATIONS:
            judging.compare(_varied(call, variation), f"{where}with other inputs: ", varied=True)
    return judging.judged()


class _Judging:
    """What has been found so far."""

    def __init__(self, before: Subject, now: Subject) -> None:
        self._before = before
        self._now = now
        self._values: list[Deviation] = []
        self._said: dict[str, None] = {}
        self._broken = False
        self._varied = 0

    def compare(self, call: Call, where: str, *, varied: bool = False) -> None:
        """One call of both; a call with varied inputs may fail, if it fails on both sides, and need not end."""
        one = _tried(self._before, call, varied=varied)
        if isinstance(one, Exception) and not varied:
            raise one
        if isinstance(one, TooLongError):
            return
        other = _tried(self._now, call, varied=varied)
        if isinstance(other, TooLongError):
            self._differ(f"{where}it does not end now", breaks=True)
        elif isinstance(one, Observed) and isinstance(other, Observed):
            self._varied += varied
            self._take(one, other, where)
        elif isinstance(one, Observed) or isinstance(other, Observed):
            raised, when = (other, "now") if isinstance(one, Observed) else (one, "before")
            self._differ(f"{where}{type(raised).__name__} is raised {when} alone", breaks=True)

    def judged(self) -> ChangeChecked:
        worst = max(self._values, key=badness, default=None)
        verdict: AccuracyVerdict = worst.verdict if worst else "identical"
        return ChangeChecked(
            verdict=WRONG if self._broken else verdict,
            max_abs=worst.max_abs if worst else None,
            max_rel=worst.max_rel if worst else None,
            differences=tuple(self._said),
            calls=len(self._now.calls),
            varied=self._varied,
            train=self._now.train,
        )

    def _take(self, one: Observed, other: Observed, where: str) -> None:
        for found in differences(one, other):
            said = found.said
            for old, new in WORDS:
                said = said.replace(old, new)
            self._differ(where + said, breaks=found.breaks)
        if one.drew != other.drew:
            self._differ(f"{where}random numbers are drawn on one side alone", breaks=True)
        self._values += [judge(value._replace(name=where + value.name)) for value in values_of(one, other, None)]

    def _differ(self, said: str, *, breaks: bool) -> None:
        self._said[said] = None
        self._broken = self._broken or breaks


def _tried(subject: Subject, call: Call, *, varied: bool) -> Observed | Exception | TooLongError:
    try:
        with within(PATIENCE_S) if varied else nullcontext():
            return observe(subject, subject.eager, call, subject.module)
    except (Exception, TooLongError) as error:
        subject.restore()
        return error


def _varied(call: Call, variation: Callable[[torch.Tensor], torch.Tensor]) -> Call:
    def other(leaf: object) -> object:
        if not isinstance(leaf, torch.Tensor) or not leaf.is_floating_point():
            return leaf
        return variation(leaf.detach()).requires_grad_(leaf.requires_grad)

    return Call(pytree.tree_map(other, call.args), pytree.tree_map(other, dict(call.kwargs)))


def _other_weights(before: Subject, now: Subject) -> str:
    """Why the two cannot be compared; empty where they have the same weights. Buffers are made the same: calls that
    were made before may have written to those of one side."""
    if before.module is None or now.module is None:
        return "" if before.module is now.module else "one of them is a module, the other is none"
    sides = [dict(subject.module.named_parameters()) for subject in (before, now) if subject.module]
    if sides[0].keys() != sides[1].keys():
        return "the module has other parameters than before"
    if not all(torch.equal(sides[0][name], sides[1][name]) for name in sides[0]):
        return "its parameters start with other values than before: the file draws them otherwise when it is imported"
    buffers = dict(now.module.named_buffers())
    with torch.no_grad():
        for name, buffer in before.module.named_buffers():
            if name in buffers:
                buffer.copy_(buffers[name])
    return ""
