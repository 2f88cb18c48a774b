"""Time of one call by line: eager ops one by one, compiled kernels by profile, both next to the plain calls."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from statistics import median
from time import perf_counter
from typing import NamedTuple

from tcexplore.capture.inductor.call_profile import profile_call, run_profiled
from tcexplore.capture.inductor.profiler_tree import CALL, OP, device_work, profiler_tree
from tcexplore.capture.user_files import UserFiles
from tcexplore.events import CallPart, CallProfiled, EagerLine, Kernel, KernelTimed, LinesTimed, TimedKernel, Wrapper
from tcexplore.events.line_events import RestName
from tcexplore.quantities import duration
from tcexplore.timing.device_sync import make_synchronizer
from tcexplore.timing.op_lines import OpLine, OpRecorder
from tcexplore.timing.workload import Workload

TOLERANCE = 1.1
"""Lines may add up to this many times the measured call."""

MAX_REPEATS, MIN_REPEATS, MAX_SECONDS = 15, 3, 0.25
"""Bounds on the repeats of each measurement."""

PROFILED_CALLS = 5

ATTEMPTS = 3

HOST_PARTS: Mapping[str, RestName] = {
    "python": "Python", "guards": "guards", "dispatch": "launch", "prologue": "launch", "wrapper": "launch",
    "epilogue": "launch",
}  # fmt: skip
"""The rest that a part of the profile belongs to."""

ByLine = dict[OpLine, float]


class DisagreementError(RuntimeError):
    """The parts of a call take longer than the call."""


class SplitCall(NamedTuple):
    """One eager call: its time without instruments and the time of its lines, in microseconds."""

    us: float
    lines: ByLine


@dataclass(frozen=True, slots=True)
class LineTimer:
    """Measures the lines of a workload. The calls are warm; exceptions of the user's code propagate."""

    workload: Workload
    user_files: UserFiles

    def measure(self, kernels: Sequence[Kernel], wrappers: Sequence[Wrapper]) -> tuple[LinesTimed, list[str]]:
        """Return the parts of one call, and the problems that leave out a side."""
        timed, problems = LinesTimed(), []
        for add in (self._add_eager, lambda known: self._add_compiled(known, kernels, wrappers)):
            try:
                timed = _retried(add, timed)
            except DisagreementError as error:
                problems.append(str(error))
        return timed, problems

    # ---- eager

    def _add_eager(self, timed: LinesTimed) -> LinesTimed:
        on_device = self.workload.device.type == "cuda"
        whole, lines = self._split_on_device() if on_device else self._split_on_host()
        calls, total = self.workload.calls, sum(lines.values())
        _check("eager", total, whole)
        unknown = sum(us for line, us in lines.items() if line.location is None)
        rest: list[tuple[RestName, float]] = [("Python and launch", max(0.0, whole - total) / calls)]
        return replace(
            timed,
            eager_us=whole / calls,
            eager=tuple(
                EagerLine(location=line.location, phase=line.phase, us=us / calls)
                for line, us in lines.items()
                if line.location is not None
            ),
            eager_rest=tuple([*rest, ("unattributed", unknown / calls)] if unknown else rest),
        )

    def _split_on_host(self) -> SplitCall:
        recorder = OpRecorder(self.user_files)
        recorder.calibrate()
        plain, recorded = [], list[ByLine]()

        def record_call() -> None:
            recorder.ops.clear()
            with recorder:
                self.workload.eager()

        self._timed_us(record_call)
        for _ in _repeats():
            plain.append(self._timed_us(self.workload.eager))
            self._timed_us(record_call)
            recorded.append(_sum_lines((op.line, op.ns / 1e3) for op in recorder.ops))
        return SplitCall(_typical(plain), _typical_lines(recorded))

    def _split_on_device(self) -> SplitCall:
        plain = [self._timed_us(self.workload.eager) for _ in _repeats()]
        recorder = OpRecorder(self.user_files, mark=True)

        def record_call() -> None:
            with self.workload.context(), recorder:
                self.workload.eager()

        events = profiler_tree(run_profiled(record_call, self._reset, PROFILED_CALLS))
        recorded: dict[object, ByLine] = {call: {} for call in events if call.host and call.name == CALL}
        for piece in device_work(events):
            ancestors = piece.launch.with_ancestors() if piece.launch is not None else ()
            number = next((int(event.name.removeprefix(OP)) for event in ancestors if event.name.startswith(OP)), None)
            line = OpLine(None, "forward") if number is None else recorder.ops[number].line
            lines = recorded[piece.call]
            lines[line] = lines.get(line, 0.0) + piece.us
        return SplitCall(_typical(plain), _typical_lines(list(recorded.values())))

    # ---- compiled

    def _add_compiled(self, timed: LinesTimed, kernels: Sequence[Kernel], wrappers: Sequence[Wrapper]) -> LinesTimed:
        if not kernels:
            return timed
        plain = [self._timed_us(self.workload.compiled) for _ in _repeats()]
        call = self.workload.in_context(self.workload.compiled)
        profile, *times = profile_call(call, self._reset, kernels, wrappers)
        plain += [self._timed_us(self.workload.compiled) for _ in _repeats()]
        if not isinstance(profile, CallProfiled):
            raise TypeError(profile)
        whole, calls = _typical(plain), self.workload.calls
        timed_kernels = [time for time in times if isinstance(time, KernelTimed)]
        launches = sum(time.launches for time in timed_kernels)
        rest = _compiled_rest(profile, sum(time.us for time in timed_kernels), launches, whole)
        _check("compiled", sum(time.us for time in timed_kernels) + sum(rest.values()), whole)
        return replace(
            timed,
            compiled_us=whole / calls,
            kernels=tuple(
                TimedKernel(graph=time.graph, phase=time.phase, kernel=time.kernel, us=time.us / calls)
                for time in timed_kernels
            ),
            compiled_rest=tuple((name, us / calls) for name, us in rest.items() if us),
        )

    # ---- calls

    def _reset(self) -> None:
        if self.workload.reset is not None:
            self.workload.reset()

    def _timed_us(self, call: Callable[[], object]) -> float:
        synchronize = make_synchronizer(self.workload.device)
        with self.workload.context():
            synchronize()
            start = perf_counter()
            call()
            synchronize()
            us = (perf_counter() - start) * 1e6
        self._reset()
        return us


def _retried(add: Callable[[LinesTimed], LinesTimed], timed: LinesTimed) -> LinesTimed:
    """Return the result of the first attempt whose parts agree: other load on the machine may slow down a part."""
    for _ in range(ATTEMPTS - 1):
        with suppress(DisagreementError):
            return add(timed)
    return add(timed)


def _compiled_rest(profile: CallProfiled, kernels_us: float, launches: int, whole: float) -> dict[RestName, float]:
    """Return what is no recognized kernel. The profiler slows down the host, so the host's share is the difference."""
    on_device = profile.device_busy_us is not None
    work = [part for part in profile.parts if part.kind in (("device",) if on_device else ("kernel", "extern"))]
    outside = [part for part in profile.parts if part.kind == "outside"]
    if on_device:
        outside, work = [part for part in work if not part.graph], [part for part in work if part.graph]
    # Means of the profile differ from medians of the kernels also where each kernel is recognized.
    unknown = on_device or sum(part.count for part in work) > launches
    rest: dict[RestName, float] = {
        "outside the graphs": sum(part.us for part in outside),
        "unattributed": max(0.0, sum(part.us for part in work) - kernels_us) if unknown else 0.0,
    }
    host_us = max(0.0, whole - kernels_us - sum(rest.values()))
    host: dict[RestName, float] = {"Python and launch": host_us}
    return {**rest, **(host if on_device else _split_host(profile.parts, host_us))}


def _split_host(parts: Iterable[CallPart], host_us: float) -> dict[RestName, float]:
    """Split the host's time as in the profile."""
    profiled: dict[RestName, float] = defaultdict(float)
    for part in parts:
        if part.kind in HOST_PARTS:
            profiled[HOST_PARTS[part.kind]] += part.us
    total = sum(profiled.values())
    return {name: host_us * us / total for name, us in profiled.items()} if total else {"Python and launch": host_us}


def _check(side: str, parts_us: float, whole_us: float) -> None:
    if parts_us > TOLERANCE * whole_us:
        parts, whole = duration(parts_us / 1e6), duration(whole_us / 1e6)
        raise DisagreementError(f"the parts of the {side} call take {parts}, and the call itself {whole}")


def _repeats() -> Iterator[int]:
    end = perf_counter() + MAX_SECONDS
    for number in range(MAX_REPEATS):
        if number >= MIN_REPEATS and perf_counter() > end:
            return
        yield number


def _sum_lines(ops: Iterable[tuple[OpLine, float]]) -> ByLine:
    sums: ByLine = defaultdict(float)
    for line, us in ops:
        sums[line] += us
    return sums


def _typical(times: list[float]) -> float:
    """Return the median of the faster half: other load on the machine only ever slows a call down."""
    return median(sorted(times)[: (len(times) + 1) // 2])


def _typical_lines(calls: list[ByLine]) -> ByLine:
    """Return the median of each line in the faster half of the calls."""
    faster = sorted(calls, key=lambda lines: sum(lines.values()))[: (len(calls) + 1) // 2]
    names = dict.fromkeys(line for lines in faster for line in lines)
    return {line: median(lines.get(line, 0.0) for lines in faster) for line in names}
