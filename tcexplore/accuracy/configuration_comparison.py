"""Comparison of one program compiled in two configurations: how far their outputs differ."""

from __future__ import annotations

from dataclasses import replace

import torch

from tcexplore.accuracy.accuracy_check import severity
from tcexplore.accuracy.observation import Observation, Subject, observe
from tcexplore.accuracy.tensor_comparison import ComparedValue, compare_value
from tcexplore.capture.tensor_descriptions import dtype_text
from tcexplore.events import ChangeChecked, Deviation


def compare_configurations(before: Subject, after: Subject, precision: torch.dtype | None = None) -> ChangeChecked:
    """Compare the compiled outputs and gradients of `after` with those of `before`, eager, on the file's own calls.

    `precision` is the type that `after` computes in, None for that of its outputs. Raises the exceptions of the calls.
    """
    values: list[Deviation] = []
    differences: dict[str, None] = {}
    for number, (original, call) in enumerate(zip(before.calls, after.calls, strict=True), 1):
        prefix = f"call {number}: " if len(after.calls) > 1 else ""
        expected = observe(before, before.eager, original, before.module)
        if expected.random:
            return ChangeChecked(verdict="not judged", reason="the call draws random numbers")
        observed = observe(after, after.compiled, call, after.module)
        values += (_compare(value, prefix) for value in _values(expected, observed, precision))
        differences |= dict.fromkeys(prefix + text for text in _type_differences(expected, observed))
    worst = max(values, key=severity, default=None)
    return ChangeChecked(
        verdict=worst.verdict if worst else "not judged",
        max_abs=worst.max_abs if worst else None,
        max_rel=worst.max_rel if worst else None,
        tensor=worst.name if worst else "",
        differences=tuple(differences),
        calls=len(after.calls),
        train=after.train,
        reason="" if worst else "the calls have no output in common",
    )


def _values(before: Observation, after: Observation, precision: torch.dtype | None) -> list[ComparedValue]:
    """Return the outputs and gradients that both sides have with the same shape, in the type of `before`."""
    sides = ((before.outputs, after.outputs), (before.gradients, after.gradients))
    return [
        ComparedValue(name, tensor, other[name].to(tensor.dtype), precision=_coarser(other[name].dtype, precision))
        for one, other in sides
        for name, tensor in one.items()
        if name in other and other[name].shape == tensor.shape and tensor.is_floating_point()
    ]


def _coarser(dtype: torch.dtype, precision: torch.dtype | None) -> torch.dtype:
    """Return the less precise of the types."""
    known = [each for each in (dtype, precision) if each is not None and each.is_floating_point]
    return max(known, key=lambda each: torch.finfo(each).eps, default=dtype)


def _compare(value: ComparedValue, prefix: str) -> Deviation:
    deviation = compare_value(value)
    return replace(deviation, name=prefix + deviation.name)


def _type_differences(before: Observation, after: Observation) -> list[str]:
    return [
        f"{name} is {dtype_text(after.outputs[name].dtype)} instead of {dtype_text(tensor.dtype)}"
        for name, tensor in before.outputs.items()
        if name in after.outputs and after.outputs[name].dtype != tensor.dtype
    ]
