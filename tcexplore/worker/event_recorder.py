"""Recorder that tags and sends every event of a run, and keeps those that later steps need."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from tcexplore.capture.hooks import Emit
from tcexplore.events import (
    AtenGraph,
    BreakCosts,
    CallProfiled,
    CudaGraphRecorded,
    Event,
    ExtraCompiles,
    FrameEntered,
    GraphCaptured,
    GuardsInstalled,
    Kernel,
    Phase,
    PhaseStarted,
    Recompiled,
    RunStage,
    TimingEstimate,
    Wrapper,
)
from tcexplore.targets.target_names import NATIVE
from tcexplore.targets.target_tag import tag


class EventRecorder:
    """Sends the events of all hooks, and records the kernels, wrappers and CUDA graphs of the run itself."""

    def __init__(self, send: Emit) -> None:
        self._send = send
        self.kernels: list[Kernel] = []
        self.wrappers: list[Wrapper] = []
        self.cuda_graphs: list[CudaGraphRecorded] = []
        self.graphs: list[GraphCaptured | AtenGraph] = []
        """Dynamo's graphs, and those that Inductor lowers."""
        self._graphs: set[str] = set()
        """Compile ids of all events."""
        self.recompiled = False
        """Whether any of the program's calls recompiled a frame."""
        self.guards_break_value = False
        """Whether code after a graph break was compiled for a value of what broke the graph."""
        self._closed = False
        self._extra = ExtraCompiles(compiles=0)
        self.profile: CallProfiled | None = None
        self.break_costs: BreakCosts | None = None
        self.timing: TimingEstimate | None = None
        self._on_gpu: set[tuple[str, str]] = set()
        """Compile id and phase of each graph that has a tensor on a GPU."""
        self.handle_target_kernel: Callable[[Kernel], None] | None = None
        """Called for each kernel that is generated for a target."""

    def emit(self, event: Event) -> None:
        """Send an event, tagged with the target if Inductor lowers for one."""
        if self._is_extra(event):
            self._count_extra(event)
            return
        tagged = tag(event)
        if tagged is not None:
            if isinstance(tagged, TimingEstimate):
                tagged = with_kernels(tagged, self.profile)
            self._send(tagged)
            self._record(tagged)
            known = self.timing if isinstance(tagged, CallProfiled) else None
            if known is not None and with_kernels(known, self.profile) != known:
                self.emit(known)

    def forget(self) -> None:
        """Forget the calls so far: they begin again."""
        self.kernels, self.wrappers, self.cuda_graphs, self.graphs = [], [], [], []
        self._graphs, self._closed, self.recompiled, self.guards_break_value = set(), False, False, False

    def close_graphs(self) -> None:
        """Drop the events of later compiles: tcexplore's own calls cause them, not the user's."""
        self._closed = True

    def _is_extra(self, event: Event) -> bool:
        graph = getattr(event, "graph", None)
        if not graph or graph in self._graphs:
            return False
        if not self._closed:
            self._graphs.add(graph)
        return self._closed

    @property
    def limit_hit(self) -> bool:
        """Whether a call of tcexplore's own has reached a recompile limit, after which code runs eagerly."""
        return self._extra.limit_hit

    def _count_extra(self, event: Event) -> None:
        """Send how many compiles were dropped, with the first cause."""
        extra = self._extra
        if isinstance(event, FrameEntered):
            at_limit = extra.limit_hit or bool(event.limit_hit)
            extra = replace(extra, compiles=extra.compiles + (not event.limit_hit), limit_hit=at_limit)
        elif isinstance(event, Recompiled) and not extra.reason:
            extra = replace(extra, reason=event.reason)
        if extra != self._extra:
            self._extra = extra
            self._send(extra)

    def contradicts(self, timing: TimingEstimate) -> bool:
        """Return whether the break costs disagree with the timing."""
        return self.break_costs is not None and not self.break_costs.agrees_with(timing)

    def gpu_kernels(self) -> list[Kernel]:
        """Return the run's kernels on a GPU; a library call counts if its graph has a tensor there."""
        return [
            kernel for kernel in self.kernels if kernel.language == "triton"
            or (not kernel.generated and (kernel.graph, kernel.phase) in self._on_gpu)
        ]  # fmt: skip

    def _record(self, event: Event) -> None:
        if isinstance(event, Kernel):
            self._record_kernel(event)
        elif isinstance(event, Wrapper) and event.target == NATIVE:
            self.wrappers.append(event)
        elif isinstance(event, GraphCaptured):
            self.graphs.append(event)
        elif isinstance(event, Recompiled):
            self.recompiled = True
        elif isinstance(event, GuardsInstalled):
            self.guards_break_value |= any(guard.is_of_break_value for guard in event.guards)
        elif isinstance(event, CallProfiled):
            self.profile = event
        elif isinstance(event, BreakCosts):
            self.break_costs = event
        elif isinstance(event, TimingEstimate):
            self.timing = event
        elif isinstance(event, CudaGraphRecorded):
            self.cuda_graphs.append(event)
        elif isinstance(event, AtenGraph) and event.target == NATIVE:
            self._record_graph(event)

    def _record_kernel(self, kernel: Kernel) -> None:
        if kernel.target == NATIVE:
            self.kernels.append(kernel)
        elif self.handle_target_kernel is not None:
            self.handle_target_kernel(kernel)

    def _record_graph(self, graph: AtenGraph) -> None:
        if graph.stage == "post_grad":
            self.graphs.append(graph)
        if _uses_gpu(graph):
            self._on_gpu.add((graph.graph, graph.phase))


def with_kernels(timing: TimingEstimate, profile: CallProfiled | None) -> TimingEstimate:
    """Return an estimate with the time in which kernels run, if a profile that agrees with it has that time."""
    if profile is None or profile.device_busy_us is None:
        return timing
    if not timing.agrees_with(profile.device_busy_us, at_most=True):
        return timing
    return timing.with_kernels(profile.eager_device_busy_us, profile.device_busy_us)


def _uses_gpu(graph: AtenGraph) -> bool:
    return any((node.device or "").startswith("cuda") for node in graph.nodes)


class RunProgress:
    """Emits `PhaseStarted` events."""

    def __init__(self, emit: Emit) -> None:
        self.phase: Phase | None = None
        self.stage: RunStage = "file"
        """Current stage, for failures: the phase, or the step between two phases."""
        self._emit = emit
        self._start = time.perf_counter()

    def enter(self, phase: Phase, graph: str | None = None) -> None:
        """Begin a phase."""
        self.phase = self.stage = phase
        self._emit(PhaseStarted(phase=phase, graph=graph, at=self.now()))

    def now(self) -> float:
        """Return the seconds since the job arrived."""
        return time.perf_counter() - self._start
