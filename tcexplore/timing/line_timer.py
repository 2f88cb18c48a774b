"""Time of one eager call by line: op by op on a CPU, by a profile on a device.

Lines and rest are parts of the call that the timing measured. Ops are measured; the time of the host between them is
what remains of the call.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from statistics import median
from time import perf_counter, perf_counter_ns
from typing import Any, NamedTuple

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from tcexplore.capture.inductor.call_profile import mark, run_profiled
from tcexplore.capture.inductor.profiler_tree import CALL, OP, device_work
from tcexplore.capture.module_paths import ModuleStack, RunModule
from tcexplore.capture.user_files import UserFiles
from tcexplore.events import EagerLine, EagerLinesTimed, EagerModule, Location, TimingEstimate
from tcexplore.events.inductor_events import GraphPhase
from tcexplore.events.timing_events import RestName
from tcexplore.timing.timed_machine import make_synchronizer
from tcexplore.timing.workload import Workload

TOLERANCE = 1.1
"""Factor by which the parts may exceed the call, and its speed may change, before the parts are estimates."""

MAX_REPEATS, MIN_REPEATS, MAX_SECONDS = 15, 3, 0.25
"""Bounds on the repeats of each measurement."""

PROFILED_CALLS = 5

ATTEMPTS = 3

CALIBRATION_OPS = 64


class OpLine(NamedTuple):
    """Where an op was called; a backward op has the location of its forward op."""

    location: Location | None
    """None outside the user's files, and for a backward op whose forward op is unknown."""
    phase: GraphPhase


class TimedOp(NamedTuple):
    """One op of an eager call."""

    line: OpLine
    module: RunModule | None
    """The innermost module that called it; None outside all modules."""
    ns: int
    """Time on the host, without its overhead on an empty op."""
    gap_ns: int
    """Time of the host since the op before, without what recording adds to it."""


class OpRecorder(TorchDispatchMode):  # type: ignore[misc,unused-ignore]
    """Records line, module and time of each op below autograd, forward and backward.

    The sequence number of an autograd node, which it gets right before its forward op is dispatched, leads from a
    backward op to the line and the module of the forward op. With `mark`, each op is also marked in the profile.
    """

    supports_higher_order_operators = True

    def __init__(self, user_files: UserFiles, *, caller: Location | None = None, mark: bool = False) -> None:
        """`caller` is the line of ops outside the user's files, in a call that the program itself does not make."""
        super().__init__()
        self._caller = caller
        self.ops: list[TimedOp] = []
        self.recording = True
        """Whether ops are recorded. If not, it only passes them on."""
        self.overhead_ns = 0
        self.modules = ModuleStack()
        self._gap_overhead_ns = 0
        self._last_ns = 0
        """When the op before ended."""
        self._user_files = user_files
        self._mark = mark
        self._forward_ops: dict[int, tuple[Location | None, RunModule | None]] = {}
        self._current_node: Any = getattr(torch._C, "_current_autograd_node", lambda: None)
        self._locations: dict[tuple[str, int], Location] = {}

    def __enter__(self) -> Any:
        self.modules.__enter__()
        self._last_ns = perf_counter_ns()
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self.modules.__exit__(*error)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        gap = perf_counter_ns() - self._last_ns
        if not self.recording:
            return func(*args, **(kwargs or {}))
        line, module = self._place()
        with self._marked():
            start = perf_counter_ns()
            result = func(*args, **(kwargs or {}))
            spent = perf_counter_ns() - start
        gap = max(0, gap - self._gap_overhead_ns)
        self.ops.append(TimedOp(line, module, max(0, spent - self.overhead_ns), gap))
        self._last_ns = perf_counter_ns()
        return result

    def calibrate(self) -> None:
        """Measure the time of an op that does nothing: what the detour through Python and the dispatcher cost."""
        tensor, self.overhead_ns, self._gap_overhead_ns = torch.empty(1), 0, 0
        start = perf_counter_ns()
        for _ in range(CALIBRATION_OPS):
            tensor.detach()
        plain_ns = (perf_counter_ns() - start) // CALIBRATION_OPS
        with self:
            for _ in range(CALIBRATION_OPS):
                tensor.detach()
        self.overhead_ns = sorted(op.ns for op in self.ops)[len(self.ops) // 2]
        # Also without a recorder, the host takes some time for each op.
        self._gap_overhead_ns = max(0, sorted(op.gap_ns for op in self.ops)[len(self.ops) // 2] - plain_ns)
        self.ops = []

    def _marked(self) -> AbstractContextManager[object]:
        return mark(f"{OP}{len(self.ops)}") if self._mark else nullcontext()

    def _place(self) -> tuple[OpLine, RunModule | None]:
        node = self._current_node()
        if node is not None:
            location, module = self._forward_ops.get(node._sequence_nr(), (None, None))
            return OpLine(location, "backward"), module
        location, module = self._innermost(), self.modules.innermost
        self._forward_ops.setdefault(torch.autograd._get_sequence_nr() - 1, (location, module))
        return OpLine(location, "forward"), module

    def _innermost(self) -> Location | None:
        frame = self._user_files.innermost(sys._getframe(3), libraries=True)
        if frame is None:
            return self._caller
        key = frame.f_code.co_filename, frame.f_lineno
        if key not in self._locations:
            self._locations[key] = self._user_files.location(*key, frame.f_code.co_name)
        return self._locations[key]


ByLine = dict[OpLine, float]


class ModuleTime(NamedTuple):
    """Time of a module without the modules inside it, in microseconds."""

    ops: float = 0.0
    gaps: float = 0.0
    """The host's time before its ops."""


ByModule = dict[RunModule | None, ModuleTime]


class OwnCall(NamedTuple):
    """The call in which the parts were measured on a CPU, in microseconds."""

    us: float
    """Without instruments, at the same time."""
    instrumented_us: float


class SplitCall(NamedTuple):
    """One eager call by line, in microseconds."""

    lines: ByLine
    modules: ByModule
    own: OwnCall | None
    """None on a device."""


class CallScale(NamedTuple):
    """How the parts of a call relate to the timed call."""

    factor: float
    """From the measured parts to parts of the timed call."""
    error: float
    """How much of the scale no change of the machine's speed within the tolerance explains; 0 at best."""


@dataclass(frozen=True, slots=True)
class LineTimer:
    """Measures the lines of a workload. The calls are warm; exceptions of the user's code propagate."""

    workload: Workload
    user_files: UserFiles
    timing: TimingEstimate | None = None
    """Time of the whole call; if it is None, the call is timed together with its lines."""
    caller: Location | None = None
    """The line that makes the call in the program; None if that is no line of the user's."""

    def measure(self) -> EagerLinesTimed:
        """Return the lines of one eager call."""
        best, error = self._measure_once()
        for _ in range(ATTEMPTS - 1):
            if not error:
                break
            # Other load on the machine may disturb one of them.
            timed, next_error = self._measure_once()
            if next_error < error:
                best, error = timed, next_error
        return best

    def _measure_once(self) -> tuple[EagerLinesTimed, float]:
        call = self._split_on_device() if self._on_device else self._split_on_host()
        return scaled_lines(call, self._whole(call.own), self.workload.calls)

    def _split_on_host(self) -> SplitCall:
        recorder = OpRecorder(self.user_files, caller=self.caller)
        recorder.calibrate()
        plain, recorded = list[float](), RecordedCalls()

        def record_call() -> None:
            recorder.ops.clear()
            with recorder:
                self._call_recorded()

        self._timed_us(record_call)
        for _ in _repeats():
            plain.append(self._timed_us(self.workload.eager))
            recorded.add(recorder, self._timed_us(record_call))
        return recorded.split(_typical(plain))

    def _split_on_device(self) -> SplitCall:
        recorder = OpRecorder(self.user_files, caller=self.caller, mark=True)

        def record_call() -> None:
            with self.workload.context(), recorder:
                self._call_recorded()

        events = run_profiled(record_call, self._reset, PROFILED_CALLS)
        recorded: dict[object, ByLine] = {call: {} for call in events if call.host and call.name == CALL}
        by_module: dict[object, ByModule] = {
            call: dict.fromkeys(recorder.modules.ran, ModuleTime()) for call in recorded
        }
        for piece in device_work(events):
            ancestors = piece.launch.with_ancestors() if piece.launch is not None else ()
            number = next((int(event.name.removeprefix(OP)) for event in ancestors if event.name.startswith(OP)), None)
            op = None if number is None else recorder.ops[number]
            line, module = (op.line, op.module) if op else (OpLine(None, "forward"), None)
            lines, modules = recorded[piece.call], by_module[piece.call]
            lines[line] = lines.get(line, 0.0) + piece.us
            modules[module] = ModuleTime(modules.get(module, ModuleTime()).ops + piece.us)
        return SplitCall(
            _typical_lines(list(recorded.values())), _typical_modules(list(by_module.values())), None
        )  # fmt: skip

    # ---- calls

    def _call_recorded(self) -> None:
        """Make the eager call in the recorder's dispatch mode. Raise `RuntimeError` if it only works outside of it."""
        try:
            self.workload.eager()
        except Exception as error:
            reason = "the eager call fails while its ops are recorded, as where torch compiles a part of it itself"
            raise RuntimeError(f"{reason}: {error}") from error

    @property
    def _on_device(self) -> bool:
        return str(self.workload.device.type) == "cuda"

    def _whole(self, own: OwnCall | None) -> float:
        """Return the time of all calls without instruments: of the timing, of `own`, or else measured here."""
        if self.timing is not None:
            return self.timing.eager_us * self.workload.calls
        return own.us if own is not None else _typical([self._timed_us(self.workload.eager) for _ in _repeats()])

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


def call_scale(parts_us: float, own: OwnCall | None, whole_us: float) -> CallScale:
    """Relate the parts to the timed call of `whole_us`; parts never exceed it.

    On a CPU, load of the machine slows down the parts as much as their own call without instruments. If the parts
    exceed that, they relate to the call that they were measured in. The time of a device does not depend on that load.
    """
    if own is None:
        excess = parts_us / whole_us
        return CallScale(1.0 / max(1.0, excess), max(0.0, excess - TOLERANCE))
    reference = own.us if parts_us <= own.us else max(parts_us, own.instrumented_us)
    drift = max(own.us / whole_us, whole_us / own.us)
    return CallScale(whole_us / reference, max(0.0, parts_us / own.us - TOLERANCE) + max(0.0, drift - TOLERANCE))


def scaled_lines(call: SplitCall, whole_us: float, calls: int = 1) -> tuple[EagerLinesTimed, float]:
    """Return one of `calls` calls by line and module, scaled to their time `whole_us`, and the error of the scale."""
    total = sum(call.lines.values())
    scale = call_scale(total, call.own, whole_us)
    part = scale.factor / calls
    unknown = sum(us for line, us in call.lines.items() if line.location is None)
    rest: list[tuple[RestName, float]] = [("Python and launch", max(0.0, whole_us / calls - total * part))]
    timed = EagerLinesTimed(
        call_us=whole_us / calls,
        lines=tuple(
            EagerLine(location=line.location, phase=line.phase, us=us * part)
            for line, us in call.lines.items()
            if line.location is not None
        ),
        rest=tuple([*rest, ("unattributed", unknown * part)] if unknown else rest),
        modules=tuple(_module_times(call.modules, total * part, 0.0 if call.own is None else rest[0][1])),
        estimated=scale.error > 0,
    )
    return timed, scale.error


class RecordedCalls:
    """Eager calls that a recorder has seen on a CPU."""

    def __init__(self) -> None:
        self._lines: list[ByLine] = []
        self._modules: list[ByModule] = []
        self._instrumented_us: list[float] = []

    def add(self, recorder: OpRecorder, instrumented_us: float) -> None:
        """Add the call whose ops a recorder has, and its time with the recorder."""
        self._lines.append(_sum_lines((op.line, op.ns / 1e3) for op in recorder.ops))
        self._modules.append(_sum_modules(recorder))
        self._instrumented_us.append(instrumented_us)

    def split(self, plain_us: float) -> SplitCall:
        """Return the typical call, which takes `plain_us` without the recorder."""
        own = OwnCall(plain_us, _typical(self._instrumented_us))
        return SplitCall(_typical_lines(self._lines), _typical_modules(self._modules), own)


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


def _sum_modules(recorder: OpRecorder) -> ByModule:
    sums: ByModule = dict.fromkeys(recorder.modules.ran, ModuleTime())
    for op in recorder.ops:
        known = sums.get(op.module, ModuleTime())
        sums[op.module] = ModuleTime(known.ops + op.ns / 1e3, known.gaps + op.gap_ns / 1e3)
    return sums


def _typical_modules(calls: list[ByModule]) -> ByModule:
    """Return the median of each module in the faster half of the calls."""
    faster = sorted(calls, key=lambda times: sum(time.ops for time in times.values()))[: (len(calls) + 1) // 2]
    names = dict.fromkeys(module for times in faster for module in times)
    return {
        module: ModuleTime(
            median(times.get(module, ModuleTime()).ops for times in faster),
            median(times.get(module, ModuleTime()).gaps for times in faster),
        )
        for module in names
    }


def _module_times(times: ByModule, ops_us: float, between_us: float) -> Iterator[EagerModule]:
    """Yield the time of each module, with its share of the call's ops and of the time between them."""
    ops, gaps = sum(time.ops for time in times.values()), sum(time.gaps for time in times.values())
    for module, time in times.items():
        us = (ops_us * time.ops / ops if ops else 0.0) + (between_us * time.gaps / gaps if gaps else 0.0)
        root, path = module.place if module else ("", "")
        yield EagerModule(path=path, root=root, type=module.type if module else "", us=us)
