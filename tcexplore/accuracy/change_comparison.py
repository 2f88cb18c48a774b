"""Comparison of a changed program with the original, both in eager mode."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext

import torch
from torch.utils import _pytree as pytree

from tcexplore.accuracy.accuracy_check import common_values, severity
from tcexplore.accuracy.compared_calls import Subject
from tcexplore.accuracy.observation import Observation, observe
from tcexplore.accuracy.observation_diff import diff_observations
from tcexplore.accuracy.tensor_comparison import WRONG, compare_value
from tcexplore.capture.entry.entry import Call
from tcexplore.events import AccuracyVerdict, ChangeChecked, Deviation

VARIATIONS: tuple[Callable[[torch.Tensor], torch.Tensor], ...] = (torch.neg, torch.zeros_like, lambda t: t + 1)
"""Variations of floating-point inputs, to reach branches that the program's own inputs do not take."""

TIME_LIMIT_S = 3.0
"""Time limit of a call with varied inputs, which may cause an endless loop."""


def compare_change(before: Subject, after: Subject) -> ChangeChecked:
    """Compare both programs on the calls of `after` and on variations of them.

    Raises the exceptions that the original program raises on its own inputs.
    """
    if reason := _incomparable(before, after):
        return ChangeChecked(verdict="not judged", reason=reason)
    comparison = _ChangeComparison(before, after)
    for number, call in enumerate(after.calls, 1):
        prefix = f"call {number}: " if len(after.calls) > 1 else ""
        comparison.compare(call, prefix)
        for variation in VARIATIONS:
            comparison.compare(_vary(call, variation), f"{prefix}with other inputs: ", varied=True)
    return comparison.result()


class _ChangeComparison:
    """The differences so far."""

    def __init__(self, before: Subject, after: Subject) -> None:
        self._before = before
        self._after = after
        self._values: list[Deviation] = []
        self._differences: dict[str, None] = {}
        self._wrong = False
        self._varied = 0

    def compare(self, call: Call, prefix: str, *, varied: bool = False) -> None:
        """Compare one call. A varied call may run endlessly or fail if it does so in both programs."""
        before = _try_call(self._before, call, varied=varied)
        if isinstance(before, Exception) and not varied:
            raise before
        if isinstance(before, CallTimeoutError):
            return
        after = _try_call(self._after, call, varied=varied)
        if isinstance(after, CallTimeoutError):
            self._add(f"{prefix}it no longer ends", wrong=True)
        elif isinstance(before, Observation) and isinstance(after, Observation):
            self._varied += varied
            self._compare_observations(before, after, prefix)
        elif isinstance(before, Observation):
            self._add(f"{prefix}{type(after).__name__} is raised only after the change", wrong=True)
        elif isinstance(after, Observation):
            self._add(f"{prefix}{type(before).__name__} is raised only before the change", wrong=True)

    def result(self) -> ChangeChecked:
        worst = max(self._values, key=severity, default=None)
        verdict: AccuracyVerdict = worst.verdict if worst else "identical"
        return ChangeChecked(
            verdict=WRONG if self._wrong else verdict,
            max_abs=worst.max_abs if worst else None,
            max_rel=worst.max_rel if worst else None,
            differences=tuple(self._differences),
            calls=len(self._after.calls),
            varied=self._varied,
            train=self._after.train,
        )

    def _compare_observations(self, before: Observation, after: Observation, prefix: str) -> None:
        for difference in diff_observations(before, after, ("before", "now")):
            self._add(prefix + difference.text, wrong=difference.wrong)
        if before.random != after.random:
            self._add(f"{prefix}only one version draws random numbers", wrong=True)
        values = common_values(before, after, None)
        self._values += [compare_value(value._replace(name=prefix + value.name)) for value in values]

    def _add(self, difference: str, *, wrong: bool) -> None:
        self._differences[difference] = None
        self._wrong = self._wrong or wrong


class CallTimeoutError(BaseException):
    """A call exceeded its time limit. A `BaseException`, so that user code does not catch it."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise `CallTimeoutError` inside the context after `seconds`. Threads other than the main thread have no limit."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(*_: object) -> None:
        raise CallTimeoutError

    previous = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)


def _try_call(subject: Subject, call: Call, *, varied: bool) -> Observation | Exception | CallTimeoutError:
    try:
        with time_limit(TIME_LIMIT_S) if varied else nullcontext():
            return observe(subject, subject.eager, call, subject.module)
    except (Exception, CallTimeoutError) as error:  # noqa: BLE001  user code may raise anything; the caller compares exceptions
        subject.restore()
        return error


def _vary(call: Call, variation: Callable[[torch.Tensor], torch.Tensor]) -> Call:
    def vary(leaf: object) -> object:
        if not isinstance(leaf, torch.Tensor) or not leaf.is_floating_point():
            return leaf
        return variation(leaf.detach()).requires_grad_(leaf.requires_grad)

    return Call(pytree.tree_map(vary, call.args), pytree.tree_map(vary, dict(call.kwargs)))


def _incomparable(before: Subject, after: Subject) -> str:
    """Return the reason why two programs cannot be compared; empty if they have the same weights.

    Copy the buffers, since earlier calls of either program may have changed them.
    """
    if before.module is None or after.module is None:
        return "" if before.module is after.module else "only one version is a module"
    sides = [dict(subject.module.named_parameters()) for subject in (before, after) if subject.module]
    if sides[0].keys() != sides[1].keys():
        return "the module's parameters have different names than before"
    if not all(torch.equal(sides[0][name], sides[1][name]) for name in sides[0]):
        return "the initial parameters differ from before: importing the file draws different random numbers"
    buffers = dict(after.module.named_buffers())
    with torch.no_grad():
        for name, buffer in before.module.named_buffers():
            if name in buffers:
                buffer.copy_(buffers[name])
    return ""
