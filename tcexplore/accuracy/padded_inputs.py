"""Inputs padded to a bucket, compiled, beside the same inputs as they are, run eagerly: is what is left the same?"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import torch

from tcexplore.accuracy.compared_calls import Subject
from tcexplore.accuracy.named_tensors import inputs_of
from tcexplore.accuracy.observation import Observed, observe
from tcexplore.accuracy.tensor_comparison import CLOSE, IDENTICAL, Value, judge
from tcexplore.capture.entry.entry import Call
from tcexplore.events import PaddingChecked, PaddingVerdict

BUDGET_S = 4.0
"""No further call is compared after this many seconds."""

KINDS = ("outputs", "changed")

RANDOM = "it draws random numbers, and others where there are more rows"


def judge_padding(subject: Subject, plain: Sequence[Call], padded: Sequence[Call]) -> PaddingChecked:
    """Compare each padded call with the plain one, what padding added cut off. Raises what the user's code raises."""
    verdict: PaddingVerdict = "equal"
    began, calls, most, reason = time.perf_counter(), 0, 0.0, ""
    for one, other in zip(plain, padded, strict=True):
        grown = dict(_grown(one, other))
        if not grown:
            continue
        found = observe(subject, subject.eager, one, subject.module)
        large = observe(subject, subject.compiled, other, subject.module)
        calls += 1
        if reason := _not_comparable(found, large, grown):
            return PaddingChecked(verdict="not compared", calls=calls, reason=reason)
        for value in _values(found, large, grown):
            judged = judge(value)
            if judged.verdict not in (IDENTICAL, CLOSE):
                verdict, reason = "different", reason or f"call {calls}, {value.name}"
            most = max(most, judged.max_abs or 0.0)
        if verdict != "equal" or time.perf_counter() - began > BUDGET_S:
            break
    if not calls:
        return PaddingChecked(verdict="not compared", reason="every size is one of the buckets already")
    return PaddingChecked(verdict=verdict, calls=calls, max_abs=most, reason=reason)


def _grown(plain: Call, padded: Call) -> Iterator[tuple[int, int]]:
    """Sizes of inputs, and what padding made of them."""
    small, large = inputs_of(plain), inputs_of(padded)
    for name in small.keys() & large.keys():
        yield from ((a, b) for a, b in zip(small[name].shape, large[name].shape, strict=True) if a != b)


def _not_comparable(plain: Observed, padded: Observed, grown: dict[int, int]) -> str:
    if plain.drew or padded.drew:
        return RANDOM
    for kind in KINDS:
        small, large = getattr(plain, kind), getattr(padded, kind)
        if small.keys() != large.keys():
            return f"other {kind} are there with padding"
        for name, tensor in small.items():
            if _cut(large[name], tensor.shape, grown) is None:
                return f"{name} has shape {list(tensor.shape)}, and {list(large[name].shape)} with padding"
    if plain.plain != padded.plain:
        return "it returns other numbers with padding"
    return ""


def _values(plain: Observed, padded: Observed, grown: dict[int, int]) -> Iterator[Value]:
    for kind in KINDS:
        for name, tensor in getattr(plain, kind).items():
            cut = _cut(getattr(padded, kind)[name], tensor.shape, grown)
            if cut is not None:
                yield Value(name, tensor.contiguous(), cut.contiguous())


def _cut(tensor: torch.Tensor, shape: torch.Size, grown: dict[int, int]) -> torch.Tensor | None:
    """What is left without padding; None where the shape differs in another way than the inputs' do."""
    if tensor.dim() != len(shape):
        return None
    for dim, size in enumerate(shape):
        if tensor.shape[dim] == size:
            continue
        if grown.get(size) != tensor.shape[dim]:
            return None
        tensor = tensor.narrow(dim, 0, size)
    return tensor
