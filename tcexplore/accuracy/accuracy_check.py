"""The comparison of one run, call by call, as long as its time lasts."""

from __future__ import annotations

import time
from collections.abc import Iterator

import torch

from tcexplore.accuracy.compared_calls import Function, Subject
from tcexplore.accuracy.float64_copy import SHARE, free_memory
from tcexplore.accuracy.float64_reference import Reference
from tcexplore.accuracy.observation import Observed, observe
from tcexplore.accuracy.observation_diff import ObservationDiff, comparable, differences
from tcexplore.accuracy.tensor_comparison import WRONG, Value, judge, rms
from tcexplore.capture.entry.entry import Call
from tcexplore.events import ACCURACY_VERDICTS, Accuracy, AccuracyVerdict, Deviation
from tcexplore.quantities import size

BUDGET_S = 4.0
"""No further call is compared after this many seconds."""

COPIES = 6
"""So many tensors of float64 are there at once while two values are compared."""

SMALLEST = torch.finfo(torch.float64).eps
"""No error against float64 is known to be smaller than that."""

KINDS = ("outputs", "gradients", "changed")


def measure(subject: Subject) -> Accuracy:
    """Compare both sides on the subject's calls; raises what the user's code raises."""
    return _Comparison(subject).run()


class _Comparison:
    """What has been found so far."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._began = time.perf_counter()
        self._compiled = subject.compiled
        self._reference = Reference(subject)
        self._too_large = ""
        self._random = self._redone = False
        self._values: list[Deviation] = []
        self._differences: dict[ObservationDiff, None] = {}

    def run(self) -> Accuracy:
        compared = 0
        for call in self._subject.calls:
            if not self._one(call, f"call {compared + 1}: " if len(self._subject.calls) > 1 else ""):
                break
            compared += 1
            if time.perf_counter() - self._began > BUDGET_S:
                break
        return self._accuracy(compared)

    def _one(self, call: Call, where: str) -> bool:
        """Compare one call; False where it is too large for that."""
        started = time.perf_counter()
        eager = self._observed(self._subject.eager, call)
        seconds = time.perf_counter() - started
        if too_large := _too_large(eager):
            self._too_large = too_large
            return False
        if eager.drew:
            self._draw_alike()
        compiled = self._observed(self._compiled, call)
        exact = self._reference.of(call, seconds, eager)
        self._differences |= dict.fromkeys(
            ObservationDiff(where + found.said, found.breaks) for found in differences(eager, compiled)
        )
        self._values += [judge(value._replace(name=where + value.name)) for value in values_of(eager, compiled, exact)]
        return True

    def _observed(self, function: Function, call: Call) -> Observed:
        return observe(self._subject, function, call, self._subject.module)

    def _draw_alike(self) -> None:
        self._random = True
        if self._subject.unrandomized is not None and not self._redone:
            self._compiled, self._redone = self._subject.unrandomized(self._warm), True

    def _warm(self, function: Function) -> None:
        """Make every call once, so that it is compiled, and leave no trace of it in the model."""
        for call in self._subject.calls:
            self._observed(function, call)

    def _accuracy(self, compared: int) -> Accuracy:
        values, found = self._values, self._differences
        worst = max(values, key=badness, default=None)
        verdict: AccuracyVerdict = worst.verdict if worst else ("identical" if compared else "not judged")
        if any(difference.breaks for difference in found):
            verdict = WRONG
        return Accuracy(
            verdict=verdict,
            max_abs=_most(value.max_abs for value in values),
            max_rel=_most(value.max_rel for value in values),
            eager_vs_fp64=worst.eager_vs_fp64 if worst else None,
            compiled_vs_fp64=worst.compiled_vs_fp64 if worst else None,
            worst=worst.name if worst else "",
            values=tuple(sorted(values, key=badness, reverse=True)),
            differences=tuple(difference.said for difference in found),
            random=self._random,
            fallback_random=self._redone,
            calls=compared,
            total_calls=len(self._subject.calls),
            train=self._subject.train,
            reason=self._too_large or self._reference.reason,
            seconds=time.perf_counter() - self._began,
        )


def _too_large(eager: Observed) -> str:
    """Why what a call gives is too much to be compared; empty where it is not."""
    tensors = [tensor for kind in KINDS for tensor in getattr(eager, kind).values()]
    needed = COPIES * 8 * max((tensor.numel() for tensor in tensors), default=0)
    free = free_memory(tensors[0].device) if tensors else None
    if free is None or needed <= free // SHARE:
        return ""
    return f"comparing the largest result takes {size(needed)}; a {SHARE}th of the free memory is {size(free // SHARE)}"


def values_of(eager: Observed, compiled: Observed, exact: Observed | None) -> Iterator[Value]:
    """Each value that both sides have, beside its float64 value where there is one."""
    for kind in KINDS:
        sides: tuple[dict[str, torch.Tensor], ...] = tuple(getattr(side, kind) for side in (eager, compiled))
        exacts: dict[str, torch.Tensor] = getattr(exact, kind) if exact else {}
        scale = max((rms(tensor) for tensor in exacts.values() if tensor.is_floating_point()), default=0.0)
        for name, tensor in sides[0].items():
            if comparable(tensor, sides[1].get(name)):
                yield Value(name, tensor, sides[1][name], _wider(exacts.get(name), tensor), scale)


def _wider(exact: torch.Tensor | None, than: torch.Tensor) -> torch.Tensor | None:
    """The float64 value, where it is one and says more than the value itself."""
    usable = exact is not None and exact.dtype in (torch.float64, torch.complex128) and exact.dtype != than.dtype
    return exact if usable and exact is not None and exact.shape == than.shape else None


def badness(value: Deviation) -> tuple[int, float]:
    """By verdict, then by how much further from float64 compiled is than eager."""
    eager, compiled = value.eager_vs_fp64, value.compiled_vs_fp64
    if eager is None or compiled is None:
        return ACCURACY_VERDICTS.index(value.verdict), value.max_rel or 0.0
    return ACCURACY_VERDICTS.index(value.verdict), compiled / max(eager, SMALLEST)


def _most(values: Iterator[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)
