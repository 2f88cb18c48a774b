"""The accuracy check of one run, call by call within a time budget."""

from __future__ import annotations

import time
from collections.abc import Iterator

import torch

from tcexplore.accuracy.compared_calls import Function, Subject
from tcexplore.accuracy.float64_reference import MEMORY_DIVISOR, Float64Reference, free_memory
from tcexplore.accuracy.observation import (
    Observation,
    ObservationDiff,
    comparable,
    compare_as_tensors,
    diff_observations,
    fill_rewritten,
    observe,
)
from tcexplore.accuracy.tensor_comparison import WRONG, ComparedValue, compare_value, rms
from tcexplore.capture.entry.entry import Call
from tcexplore.events import ACCURACY_VERDICTS, Accuracy, AccuracyVerdict, Deviation
from tcexplore.quantities import size

BUDGET_S = 4.0
"""No further call is compared after this many seconds."""

COPIES = 6
"""Number of live float64 tensors during the comparison of two values."""

MIN_ERROR = torch.finfo(torch.float64).eps
"""Smallest meaningful error against float64."""

KINDS = ("outputs", "gradients", "changed")


def check_accuracy(subject: Subject) -> Accuracy:
    """Compare eager and compiled on the subject's calls. Raises the exceptions of user code."""
    return _AccuracyCheck(subject).run()


class _AccuracyCheck:
    """The values and differences so far."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._began = time.perf_counter()
        self._compiled = subject.compiled
        self._reference = Float64Reference(subject)
        self._too_large = ""
        self._random = self._fallback_random = False
        self._values: list[Deviation] = []
        self._differences: dict[ObservationDiff, None] = {}

    def run(self) -> Accuracy:
        compared = 0
        for call in self._subject.calls:
            if not self._compare_call(call, f"call {compared + 1}: " if len(self._subject.calls) > 1 else ""):
                break
            compared += 1
            if time.perf_counter() - self._began > BUDGET_S:
                break
        return self._accuracy(compared)

    def _compare_call(self, call: Call, prefix: str) -> bool:
        """Compare one call; return False if its results are too large."""
        started = time.perf_counter()
        eager = self._observe(self._subject.eager, call)
        seconds = time.perf_counter() - started
        if too_large := _too_large(eager):
            self._too_large = too_large
            return False
        if eager.random:
            self._use_fallback_random()
        compiled = self._observe(self._compiled, call)
        compare_as_tensors(eager, compiled)
        fill_rewritten(eager, compiled)
        exact = self._reference.run(call, seconds, eager)
        self._differences |= dict.fromkeys(
            ObservationDiff(prefix + difference.text, difference.wrong)
            for difference in diff_observations(eager, compiled)
        )
        values = common_values(eager, compiled, exact)
        self._values += [compare_value(value._replace(name=prefix + value.name)) for value in values]
        return True

    def _observe(self, function: Function, call: Call) -> Observation:
        return observe(self._subject, function, call, self._subject.module)

    def _use_fallback_random(self) -> None:
        self._random = True
        if self._subject.unrandomized is not None and not self._fallback_random:
            self._compiled, self._fallback_random = self._subject.unrandomized(self._warm_up), True

    def _warm_up(self, function: Function) -> None:
        """Make every call once to compile it, without side effects on the model."""
        for call in self._subject.calls:
            self._observe(function, call)

    def _accuracy(self, compared: int) -> Accuracy:
        values = self._values
        worst = max(values, key=severity, default=None)
        verdict: AccuracyVerdict = worst.verdict if worst else ("identical" if compared else "not judged")
        if any(difference.wrong for difference in self._differences):
            verdict = WRONG
        return Accuracy(
            verdict=verdict,
            max_abs=_largest(value.max_abs for value in values),
            max_rel=_largest(value.max_rel for value in values),
            eager_vs_fp64=worst.eager_vs_fp64 if worst else None,
            compiled_vs_fp64=worst.compiled_vs_fp64 if worst else None,
            worst=worst.name if worst else "",
            values=tuple(sorted(values, key=severity, reverse=True)),
            differences=tuple(difference.text for difference in self._differences),
            random=self._random,
            fallback_random=self._fallback_random,
            calls=compared,
            total_calls=len(self._subject.calls),
            train=self._subject.train,
            reason=self._too_large or self._reference.reason,
            seconds=time.perf_counter() - self._began,
        )


def _too_large(eager: Observation) -> str:
    """Return the reason if a call's results are too large to compare, else an empty string."""
    tensors = [tensor for kind in KINDS for tensor in getattr(eager, kind).values()]
    needed = COPIES * 8 * max((tensor.numel() for tensor in tensors), default=0)
    free = free_memory(tensors[0].device) if tensors else None
    if free is None or needed <= free // MEMORY_DIVISOR:
        return ""
    budget = size(free // MEMORY_DIVISOR)
    return f"comparing the largest result takes {size(needed)}; a {MEMORY_DIVISOR}th of the free memory is {budget}"


def common_values(eager: Observation, compiled: Observation, exact: Observation | None) -> Iterator[ComparedValue]:
    """Yield each value that both sides have, with its float64 value if available."""
    for kind in KINDS:
        sides: tuple[dict[str, torch.Tensor], ...] = tuple(getattr(side, kind) for side in (eager, compiled))
        exacts: dict[str, torch.Tensor] = getattr(exact, kind) if exact else {}
        scale = max((rms(tensor) for tensor in exacts.values() if tensor.is_floating_point()), default=0.0)
        for name, tensor in sides[0].items():
            if comparable(tensor, sides[1].get(name)):
                precision = torch.float32 if name in eager.python_floats else tensor.dtype
                exact_value = _usable_exact(exacts.get(name), tensor)
                yield ComparedValue(name, tensor, sides[1][name], exact_value, scale, precision)


def _usable_exact(exact: torch.Tensor | None, value: torch.Tensor) -> torch.Tensor | None:
    """Return the float64 value if it has a wider dtype and the same shape as `value`."""
    if exact is None or exact.dtype not in (torch.float64, torch.complex128):
        return None
    return exact if exact.dtype != value.dtype and exact.shape == value.shape else None


def severity(value: Deviation) -> tuple[int, float]:
    """Return a sort key: the verdict, then the ratio of the errors of compiled and eager against float64."""
    eager, compiled = value.eager_vs_fp64, value.compiled_vs_fp64
    if eager is None or compiled is None:
        return ACCURACY_VERDICTS.index(value.verdict), value.max_rel or 0.0
    return ACCURACY_VERDICTS.index(value.verdict), compiled / max(eager, MIN_ERROR)


def _largest(values: Iterator[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)
