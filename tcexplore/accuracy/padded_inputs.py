"""Comparison of padded inputs, compiled, with the original inputs in eager mode; padding is cut off the results."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import torch

from tcexplore.accuracy.observation import Observation, Subject, input_tensors, observe
from tcexplore.accuracy.tensor_comparison import CLOSE, IDENTICAL, ComparedValue, compare_value
from tcexplore.capture.entry import Call
from tcexplore.events import PaddingChecked, PaddingVerdict

BUDGET_S = 4.0
"""No further call is compared after this many seconds."""

KINDS = ("outputs", "changed")

RANDOM = "it draws random numbers, which depend on the number of rows"


def check_padding(subject: Subject, plain: Sequence[Call], padded: Sequence[Call]) -> PaddingChecked:
    """Compare each padded call with the plain one. Raises the exceptions of user code."""
    verdict: PaddingVerdict = "equal"
    began, calls, max_abs, reason = time.perf_counter(), 0, 0.0, ""
    for small_call, large_call in zip(plain, padded, strict=True):
        grown = dict(_grown_sizes(small_call, large_call))
        if not grown:
            continue
        small = observe(subject, subject.eager, small_call, subject.module)
        large = observe(subject, subject.compiled, large_call, subject.module)
        calls += 1
        if reason := _not_comparable(small, large, grown):
            return PaddingChecked(verdict="not compared", calls=calls, reason=reason)
        for value in _values(small, large, grown):
            deviation = compare_value(value)
            if deviation.verdict not in (IDENTICAL, CLOSE):
                verdict, reason = "different", reason or f"call {calls}, {value.name}"
            max_abs = max(max_abs, deviation.max_abs or 0.0)
        if verdict != "equal" or time.perf_counter() - began > BUDGET_S:
            break
    if not calls:
        return PaddingChecked(verdict="not compared", reason="every size is already a bucket size")
    return PaddingChecked(verdict=verdict, calls=calls, max_abs=max_abs, reason=reason)


def _grown_sizes(plain: Call, padded: Call) -> Iterator[tuple[int, int]]:
    """Yield the sizes that padding changed, and the new sizes."""
    small, large = input_tensors(plain), input_tensors(padded)
    for name in small.keys() & large.keys():
        yield from ((a, b) for a, b in zip(small[name].shape, large[name].shape, strict=True) if a != b)


def _not_comparable(plain: Observation, padded: Observation, grown: dict[int, int]) -> str:
    if plain.random or padded.random:
        return RANDOM
    for kind in KINDS:
        small, large = getattr(plain, kind), getattr(padded, kind)
        if small.keys() != large.keys():
            return f"it has different {kind} with padding"
        for name, tensor in small.items():
            if _cut(large[name], tensor.shape, grown) is None:
                return f"{name} has shape {list(tensor.shape)}, and {list(large[name].shape)} with padding"
    if plain.plain != padded.plain:
        return "it returns different numbers with padding"
    return ""


def _values(plain: Observation, padded: Observation, grown: dict[int, int]) -> Iterator[ComparedValue]:
    for kind in KINDS:
        for name, tensor in getattr(plain, kind).items():
            cut = _cut(getattr(padded, kind)[name], tensor.shape, grown)
            if cut is not None:
                yield ComparedValue(name, tensor.contiguous(), cut.contiguous())


def _cut(tensor: torch.Tensor, shape: torch.Size, grown: dict[int, int]) -> torch.Tensor | None:
    """Cut off the padding; return None if the shape differs in another way than the input shapes do."""
    if tensor.dim() != len(shape):
        return None
    for dim, size in enumerate(shape):
        if tensor.shape[dim] == size:
            continue
        if grown.get(size) != tensor.shape[dim]:
            return None
        tensor = tensor.narrow(dim, 0, size)
    return tensor
