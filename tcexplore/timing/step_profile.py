"""Where the time of a compiled step goes: in the graphs of each region, and outside them."""

from __future__ import annotations

import os
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, Literal, NamedTuple

from tcexplore.capture.dynamo.eager_ops import detach_profiler, quiet_profiler

REGION_CALL = "tcexplore region "
"""Prefix of the profiler's range around a call of a region."""

STEP = "ProfilerStep#"
"""Prefix of the profiler's range around a step."""

RestName = Literal[
    "loading data", "optimizer", "region calls outside graphs", "backward outside graphs", "eager ops",
    "Python, and waiting for the device",
]  # fmt: skip

PYTHON: RestName = "Python, and waiting for the device"

_COMPILED_FRAME = "Torch-Compiled Region: "
_GRAPH_CALL = ("CompiledFunction", "## Call CompiledFxGraph")
"""Names of torch's ranges in which a graph runs: with gradients, without."""

_GRAPH_BACKWARD = "CompiledFunctionBackward"
_BACKWARD = "autograd::engine::evaluate_function: "

_RANGES: tuple[tuple[str, RestName], ...] = (
    ("enumerate(DataLoader)#", "loading data"),
    ("Optimizer.step#", "optimizer"),
    ("Optimizer.zero_grad#", "optimizer"),
    (REGION_CALL, "region calls outside graphs"),
    (_COMPILED_FRAME, "region calls outside graphs"),
    ("TorchDynamo Cache Lookup", "region calls outside graphs"),
    (_BACKWARD, "backward outside graphs"),
)
"""Beginnings of the names of ranges, and the part that their time belongs to, outside graphs."""


class StepParts(NamedTuple):
    """Shares of a step."""

    regions: dict[int, float]
    """In the graphs of each region, forward and backward."""
    rest: dict[RestName, float]
    """Outside graphs; they add up to 1 with those of the regions."""


class ProfiledRange(NamedTuple):
    """A range of the profiler on one thread, in microseconds."""

    name: str
    start: float
    end: float
    sequence: int
    """Number that an autograd node's forward and backward share; -1 for none."""
    annotation: bool = False
    """Whether it is a range that Python code marked, not an op."""


class StepProfile:
    """A profile of steps on the host.

    It touches the device's profiler only with `device`: that slows later launches until it is detached.
    """

    def __init__(self, *, device: bool = False) -> None:
        from torch.profiler import ProfilerActivity, profile

        activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if device else [])]
        self._profile = profile(activities=activities)
        self._device = device
        self._call: Any = None
        self._step: Any = None

    def start(self) -> None:
        with quiet_profiler():
            self._profile.start()

    def begin_call(self, region: int) -> None:
        """Mark the begin of a region's call."""
        from torch.autograd.profiler import record_function

        self._call = record_function(f"{REGION_CALL}{region}")
        self._call.__enter__()

    def end_call(self) -> None:
        """Mark the end of the call that began last."""
        if self._call is not None:
            self._call.__exit__(None, None, None)
            self._call = None

    def begin_step(self, number: int) -> None:
        """Mark the begin of a step, as the profiler's schedule does."""
        from torch.autograd.profiler import record_function

        self._step = record_function(f"{STEP}{number}")
        self._step.__enter__()

    def end_step(self) -> None:
        """Mark the end of the step that began last."""
        if self._step is not None:
            self._step.__exit__(None, None, None)
            self._step = None

    def stop(self) -> None:
        self.end_call()
        self.end_step()
        with quiet_profiler():
            self._profile.stop()
        if self._device:
            detach_profiler()

    def chrome_trace(self) -> bytes:
        """Return the profile as `export_chrome_trace` writes it."""
        with tempfile.TemporaryDirectory(prefix="tcexplore-") as folder:
            path = os.path.join(folder, "profile.json")
            self._profile.export_chrome_trace(path)
            with open(path, "rb") as file:
                return file.read()

    def parts(self, seconds: float) -> StepParts:
        """Return the shares of steps that took these seconds in all. Raises `ValueError` without any range."""
        events = self._profile.events() or ()
        return step_parts(_ranges(events), seconds * 1e6)


def _ranges(events: Iterable[Any]) -> list[list[ProfiledRange]]:
    """Return the ranges of each thread: the main one first, then those on which autograd runs for a GPU."""
    threads: dict[int, list[ProfiledRange]] = defaultdict(list)
    for event in events:
        threads[event.thread].append(
            ProfiledRange(
                event.name, event.time_range.start, event.time_range.end, event.sequence_nr,
                bool(getattr(event, "is_user_annotation", False)),
            )
        )  # fmt: skip
    return list(threads.values())


class _Open(NamedTuple):
    """A range whose end is not reached, and what its own time counts for."""

    range: ProfiledRange
    part: RestName | int
    """The number of a region if it is in a graph."""
    region: int | None
    """The region whose call it is in."""
    in_frame: bool
    """Whether it is in compiled code of Dynamo."""
    inner_us: list[float]
    """Time of the ranges inside it."""


def step_parts(threads: list[list[ProfiledRange]], total_us: float) -> StepParts:
    """Return the shares of steps of `total_us` from the ranges of their threads.

    The time of a range counts for the innermost part around it. A step waits while the backward of a GPU runs in a
    thread of its own.
    """
    if not any(threads):
        raise ValueError("the profiler recorded no range")
    inductor = any(each.name.startswith("## Call CompiledFxGraph") for thread in threads for each in thread)
    forward: dict[int, int] = {}
    spent: dict[RestName | int, float] = defaultdict(float)
    for thread in threads:
        for part, us in _own_times(thread, forward, inductor=inductor):
            spent[part] += us
    spent[PYTHON] += max(0.0, total_us - sum(spent.values()))
    whole = sum(spent.values())
    regions = {part: us / whole for part, us in spent.items() if isinstance(part, int)}
    rest = {part: us / whole for part, us in spent.items() if not isinstance(part, int)}
    return StepParts(regions, rest)


def _own_times(
    thread: list[ProfiledRange], forward: dict[int, int], *, inductor: bool
) -> Iterator[tuple[RestName | int, float]]:
    """Yield each range's own time and its part. `forward` has the region of each autograd node of a graph so far."""
    stack: list[_Open] = []
    for each in sorted(thread, key=lambda known: (known.start, -known.end)):
        while stack and stack[-1].range.end <= each.start:
            yield _close(stack)
        opened = _classify(each, stack[-1] if stack else None, forward, inductor=inductor)
        if isinstance(opened.part, int) and each.sequence >= 0 and each.name == _GRAPH_CALL[0]:
            forward[each.sequence] = opened.part
        stack.append(opened)
    while stack:
        yield _close(stack)


def _close(stack: list[_Open]) -> tuple[RestName | int, float]:
    closed = stack.pop()
    us = closed.range.end - closed.range.start
    if stack:
        stack[-1].inner_us.append(us)
    return closed.part, max(0.0, us - sum(closed.inner_us))


def _classify(each: ProfiledRange, outer: _Open | None, forward: dict[int, int], *, inductor: bool) -> _Open:
    """Return an opened range with its part: that of the range around it unless its name says another."""
    region, in_frame = (outer.region, outer.in_frame) if outer is not None else (None, False)
    if outer is not None and isinstance(outer.part, int):
        return _Open(each, outer.part, region, in_frame, [])
    if each.name.startswith(REGION_CALL):
        region = int(each.name.removeprefix(REGION_CALL))
    in_frame = in_frame or each.name.startswith(_COMPILED_FRAME)
    part: RestName | int | None = _named_part(each.name)
    if each.name == _GRAPH_BACKWARD and each.sequence in forward:
        part = forward[each.sequence]
    elif region is not None and (each.name.startswith(_GRAPH_CALL) or (in_frame and not inductor)):
        part = region
    elif part is None:
        part = _inherited(each, outer)
    return _Open(each, part, region, in_frame, [])


def _named_part(name: str) -> RestName | None:
    return next((part for start, part in _RANGES if name.startswith(start)), None)


def _inherited(each: ProfiledRange, outer: _Open | None) -> RestName | int:
    """Return the part of a range without a known name: ops in a region or at the top are eager ops."""
    around = outer.part if outer is not None else PYTHON
    ops_are_eager = around in (PYTHON, "region calls outside graphs")
    return "eager ops" if ops_are_eager and not each.annotation else around
