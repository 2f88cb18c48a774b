"""The sizes with which a script called its regions, and what padding them costs."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import replace
from statistics import median
from typing import Any

import torch

from tcexplore.capture.captured_calls import CallCapture, SignatureCount
from tcexplore.capture.entry import Entry, EntryError, describe_call
from tcexplore.capture.hooks import Emit
from tcexplore.capture.varied_calls import vary_calls
from tcexplore.events import (
    Config,
    PaddedCall,
    RecompileChange,
    SizesCounted,
    SizesSeen,
    TensorSize,
    VaryingSize,
)
from tcexplore.events.captured_events import Padding

PAIRS = 9
"""Padded and exact calls that are timed in turns."""

PAIRS_S = 1.0
"""No further pair is timed after this many seconds."""

NEEDS_COMPILE = "the script compiled no code for this size"


def emit_shapes(captures: CallCapture, emit: Emit) -> None:
    """Emit a `SizesSeen` for each region that was called."""
    for region, counts in captures.counts.items():
        sizes = tuple(
            SizesCounted(
                inputs=count.inputs, grad=count.grad, calls=count.calls, compiles=count.compiles,
                first_call=count.first_call,
                tensors=tuple(TensorSize(argument=name, size=size) for name, size in count.tensors),
            )
            for count in counts.values()
        )  # fmt: skip
        emit(
            SizesSeen(
                region=region, sizes=sizes, varying=varying_sizes(counts.values()),
                other_calls=captures.other_calls.get(region, 0),
            )
        )  # fmt: skip


def varying_sizes(counts: Iterable[SignatureCount]) -> tuple[VaryingSize, ...]:
    """Return the sizes that differ between calls with the same tensors, of which most calls are."""
    groups: dict[Any, list[SignatureCount]] = defaultdict(list)
    for count in counts:
        groups[tuple((name, len(size)) for name, size in count.tensors)].append(count)
    alike = max(groups.values(), key=lambda group: sum(count.calls for count in group), default=[])
    dims: dict[tuple[int, ...], list[RecompileChange]] = defaultdict(list)
    for index, (name, size) in enumerate(alike[0].tensors if alike else ()):
        for dim in range(len(size)):
            values = tuple(count.tensors[index][1][dim] for count in alike)
            if len(set(values)) > 1:
                dims[values].append(RecompileChange("mark_dynamic", name, dim))
    return tuple(
        VaryingSize(dims=tuple(names), values=tuple(sorted(_calls_of(values, alike).items())))
        for values, names in dims.items()
    )


def _calls_of(values: tuple[int, ...], counts: list[SignatureCount]) -> Counter[int]:
    calls: Counter[int] = Counter()
    for value, count in zip(values, counts, strict=True):
        calls[value] += count.calls
    return calls


def pad_entry(entry: Entry, varying: Iterable[VaryingSize], padding: Padding) -> Entry:
    """Return a captured call padded. Raises `EntryError` if an argument cannot be padded."""
    buckets = tuple(
        f"{size.dims[0].name}.{size.dims[0].dim}" + (f"={size.values[-1][0]}" if padding == "largest" else "")
        for size in varying
    )
    return vary_calls(entry, Config(buckets=buckets))


def time_padded(
    entry: Entry,
    varying: tuple[VaryingSize, ...],
    padding: Padding,
    make: Callable[[Entry], Callable[[], object]],
) -> PaddedCall | None:
    """Time a captured call padded and as it is, in turns; None if padding changes nothing.

    `make` returns a function that makes the call of an entry, compiled.
    """
    try:
        padded = pad_entry(entry, varying, padding)
    except EntryError as error:
        return PaddedCall(padding=padding, inputs=(), problem=error.message)
    result = PaddedCall(padding=padding, inputs=describe_call(padded.calls[0]))
    if result.inputs == describe_call(entry.calls[0]):
        return None
    sides = make(replace(padded, unpadded=())), make(entry)
    try:
        with torch.compiler.set_stance("fail_on_recompile"):
            for side in sides:
                side()
    except RuntimeError as error:
        known = "fail_on_recompile" in str(error) or "recompile" in str(error)
        return replace(result, problem=NEEDS_COMPILE if known else str(error).partition("\n")[0])
    times: tuple[list[float], list[float]] = [], []
    ends = time.monotonic() + PAIRS_S
    for number in range(PAIRS):
        for index in (0, 1) if number % 2 else (1, 0):
            times[index].append(_seconds(sides[index]))
        if time.monotonic() > ends:
            break
    us = [median(seconds) * 1e6 for seconds in times]
    return replace(result, us=us[0], exact_us=us[1])


def _seconds(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()
    return time.perf_counter() - began
