"""Results of a run: accuracy, memory, the profile of one call, checks of a fix, saved artifacts.

Also facts that the front end adds, about fixes of graph breaks and guard filters. No worker sends these.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from tcexplore.events.base import Event, Location
from tcexplore.events.timing_events import TimingEstimate, TimingVerdict, load_condition

AccuracyVerdict = Literal[
    "not judged",
    "identical",
    "as accurate as eager",
    "close to eager",
    "less accurate than eager",
    "not close to eager",
    "wrong",
]
"""From best to worst. `identical`: bit by bit; the two with `close`: without a float64 run."""

ACCURACY_VERDICTS: tuple[AccuracyVerdict, ...] = get_args(AccuracyVerdict)

MARK_US = 2.0
"""Most microseconds by which profiler and marks slow down one op or kernel."""

PaddingVerdict = Literal["equal", "different", "not compared"]
"""`equal`: except for rounding."""

STATE_KEYS_SHOWN = 4
"""Names that a `StateKeys` holds of each state dict."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deviation:
    """One tensor that both sides compute: an output, a gradient, a changed input or buffer."""

    name: str
    """`output[0]`, `gradient of fc1.weight`."""
    dtype: str
    elements: int
    verdict: AccuracyVerdict
    max_abs: float | None = None
    """Largest |compiled - eager|; None if one side is NaN or infinite and the other is not."""
    max_rel: float | None = None
    """`max_abs` over the largest |eager|."""
    eager_vs_fp64: float | None = None
    """RMS of the difference to float64 over the RMS of float64; None without a float64 value."""
    compiled_vs_fp64: float | None = None
    rounded_error: float | None = None
    """The largest error of eager runs in which the result of each op is changed as other roundings would: against
    float64, or else against eager. None: not run, since compiled is as accurate as eager without them."""
    allowed_error: float | None = None
    """The error against float64 up to which compiled is as accurate as eager: roundings in another order explain it.
    None if both are identical, or without a float64 value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomOpChecked(Event):
    """A custom op was tested with the arguments of its first call."""

    op: str
    """Name with its namespace: `mylib.pooled`."""
    test: str
    """`fake implementation`: compared with the result; else a test of `torch.library.opcheck`."""
    passed: bool
    reason: str = ""
    """Empty if it passed."""
    location: Location | None = None
    """The fake implementation, or the definition of the op."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Accuracy(Event):
    """Eager and compiled compared with a float64 run on the same inputs and seed; errors are the worst of any."""

    verdict: AccuracyVerdict
    """Worst of `values`; also `wrong` if one of `differences` affects the caller."""
    max_abs: float | None = None
    max_rel: float | None = None
    eager_vs_fp64: float | None = None
    compiled_vs_fp64: float | None = None
    rounded_error: float | None = None
    allowed_error: float | None = None
    worst: str = ""
    """Name of the worst value."""
    values: tuple[Deviation, ...] = ()
    differences: tuple[str, ...] = ()
    """Sentences about dtype, shape, stride, device, aliasing, mutated inputs."""
    random: bool = False
    """Eager draws random numbers."""
    fallback_random: bool = False
    """Compiled again with `torch._inductor.config.fallback_random`, so that both sides draw the same numbers."""
    calls: int = 0
    """Calls that were compared."""
    total_calls: int = 0
    """Calls of the model file."""
    train: bool = False
    reason: str = ""
    """Why there is no verdict or no float64 run."""
    seconds: float = 0.0
    """Duration of the comparison."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory(Event):
    """Bytes that one warm call allocates on top of existing memory. If a figure is None, `notes` give the reason."""

    device: str
    method: str
    """How the peaks were measured."""
    weights: int
    """Parameters and buffers."""
    inputs: int
    """Input tensors."""
    eager_peak: int | None = None
    compiled_peak: int | None = None
    compiling_adds: int | None = None
    """Growth of the process's or the device allocator's memory during the calls that compile."""
    compiling_method: str = ""
    saved_for_backward: int | None = None
    """Bytes that the eager forward saves for the backward, without weights and inputs; None without training.
    `Partitioned` has those of the compiled forward."""
    notes: tuple[str, ...] = ()


TensorKind = Literal["parameter", "input", "activation", "temporary", "gradient", "output", "workspace"]
"""`activation`: saved for the backward. `workspace`: scratch memory of a kernel, or of a library call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EagerTensor:
    """Memory that an op of an eager call allocated, and that is in use at the peak."""

    op: str
    bytes: int
    kind: TensorKind
    location: Location | None = None
    """None outside the user's files; a backward op has that of its forward op."""
    module: str | None = None
    born: int
    """Position of the op in the call, from 0."""
    dies: int | None = None
    """Position of the last op before it is freed; None if it outlives the call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EagerPeak(Event):
    """What is in use at the peak of memory of one warm eager call, op by op."""

    bytes: int
    """Above what exists before the call, without memory that ops allocate for themselves."""
    step: int
    """Position of the op that allocates at the peak."""
    steps: int
    """Ops of the call, forward and backward."""
    forward_steps: int
    phase: Literal["forward", "backward"]
    op: str
    tensors: tuple[EagerTensor, ...]
    """The largest first, at most `EAGER_TENSORS`."""
    rest: int = 0
    """Bytes of all others."""
    history: tuple[int, ...] = ()
    """Bytes in use after each op."""


EAGER_TENSORS = 400
"""Tensors that an `EagerPeak` holds."""


@dataclass(frozen=True, slots=True)
class Allocation:
    """Memory in use at a peak, as the allocator recorded it."""

    bytes: int
    op: str
    """Outermost ATen op in which it was allocated; empty outside of ops, as in generated code."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PeakAllocations(Event):
    """What torch's allocator holds at the peak of one warm compiled call."""

    bytes: int
    """The sum of `allocations`, and what was freed before the peak of what existed before the call."""
    allocations: tuple[Allocation, ...]
    requested: int | None = None
    """Bytes that the program asked for at the peak, before the allocator rounds them up; None on a CPU."""
    reserved: int | None = None
    """Bytes that the allocator holds of the device at the peak, in use or not; None on a CPU."""


PartKind = Literal["kernel", "library", "eager op", "guards", "launch", "Python", "idle"]
"""`kernel`: a kernel of Inductor, or a library call that it planned. `library`: another op of a graph. `eager op`: an
op outside every graph. `launch`: dispatch, bytecode and wrappers. `Python`: outside every compiled region. `idle`: the
device waits for the host."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallPart:
    """A part of one call. Its low and high end are the least and the greatest share that it had of a profiled call."""

    kind: PartKind
    name: str
    graph: str = ""
    """Compile id of its graph; empty outside a graph or if unknown."""
    phase: str = ""
    """`forward` or `backward`; empty outside a graph, but for an eager op of a known line."""
    us: float
    """Microseconds of all `launches`."""
    low_us: float
    high_us: float
    launch_us: float = 0.0
    """Of a kernel: the time before its launches, in which the wrapper allocates buffers and reads arguments.

    Of a kernel of a device, the time in which the device waits for it. It is a share of the part `launch` or `idle`,
    not of `us`.
    """
    launches: int = 1
    """Number of times in one unit of calls."""
    device: Literal["cpu", "cuda"] = "cpu"
    """`cuda`: time of the device. `cpu`: time of the host."""
    functions: tuple[str, ...] = ()
    """Device functions; several for one call of a library."""
    replayed: bool = False
    """Launched by a CUDA graph."""
    location: Location | None = None
    """Line of an eager op, from a profile with Python functions."""
    root: str = ""
    module: str | None = None
    """Module that runs an eager op, as in `GraphCaptured`; None if none does or if it is unknown."""


@dataclass(frozen=True, slots=True)
class GraphCaller:
    """A module on which the code of a graph runs in one unit of calls: equal layers may share it."""

    graph: str
    """Compile id."""
    root: str
    path: str
    """The module whose `forward` calls the graph, as in `GraphCaptured`."""
    calls: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class CallProfiled(Event):
    """Where the time of one warm compiled unit goes: the mean of several profiled units, without the profiler's cost.

    On a CPU the parts add up to the unit. On a device they are its work and the host's guards: what remains of the
    timed call is idle time.
    """

    total_us: float
    """Time of the host, including waits for the device."""
    repeats: int
    """Number of profiled units in the mean."""
    parts: tuple[CallPart, ...]
    """The longest first."""
    plain_us: float | None = None
    """Median of units without the profiler, between the profiled ones; None on a device."""
    region_entries: int = 0
    """Number of times that a unit enters a compiled region."""
    device_busy_us: float | None = None
    """Time in which the device works in one unit; None without a device."""
    eager_device_busy_us: float | None = None
    """Time in which the device works in one eager unit; None without a device."""
    launch_gaps_us: float | None = None
    """Time in which the device waits between two tasks for the next launch; None without a device."""
    device_tasks: int = 0
    """Kernels, copies and fills."""
    launches: int = 0
    replays: int = 0
    """Launches that replay a CUDA graph."""
    replayed_tasks: int = 0
    """Tasks of these replays."""
    callers: tuple[GraphCaller, ...] = ()
    """In the order of their first calls, without what no module calls; from a call before the profile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelCompiled(Event):
    """How long a kernel took to compile, from torch's log."""

    graph: str
    """Compile id of the frame."""
    name: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileWorkerReport(Event):
    """A job that takes long in torch's compile workers, or their end; torch 2.15 reports a job every minute."""

    graph: str
    """Compile id of the graph that waits for the job, empty if torch does not know it."""
    job: int | None
    """Number of the job in its pool. None: all workers ended, because the process that starts them did."""
    phase: str
    """`queued`, `running`, `querying_cache` or `compiling`; `ended`. Empty: torch does not know the phase."""
    seconds: float | None
    """Time since the job was submitted."""
    phase_seconds: float | None = None
    """Time in this phase."""
    pid: int | None = None
    """The worker of the job, or the process that ended."""
    status: int | None = None
    """Exit status of the process that ended; negative for a signal."""
    text: str = ""
    """Its last lines of output."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphScript(Event):
    """torch's script (`fx_graph_runnable`) that compiles one of Inductor's graphs alone, and can minify it.

    A graph with a backward has two.
    """

    graph: str
    """Compile id."""
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakCost:
    """Time that one warm compiled unit spends at a break: from the end of its graph to the start of the next."""

    location: Location
    us: float
    """Mean of the faster half of the units."""
    gaps: int
    """Number of times that a graph ended here."""
    ops: tuple[tuple[str, int, float], ...] = ()
    """What ran in between: (name, times, microseconds under the profiler)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakCosts(Event):
    """Cost of each break. If Dynamo skipped a whole function, `elsewhere_us` and `around_us` are its cost."""

    costs: tuple[BreakCost, ...]
    total_us: float
    """A whole unit, measured in the same way."""
    units: int
    """Units that were measured."""
    elsewhere_us: float = 0.0
    """Between two graphs without a known break."""
    around_us: float = 0.0
    """Before the first and after the last graph of a call."""
    contradicted: str = ""
    """Why the costs and the timing cannot be true of the same call; empty if they can."""

    def agrees_with(self, timing: TimingEstimate) -> bool:
        """Return whether these costs and the timing can be true of the same call.

        They contain neither the backward pass nor work that the device does later.
        """
        longest = max([self.elsewhere_us, self.around_us, *(cost.us for cost in self.costs)])
        at_most = timing.train or timing.device != "cpu"
        marks = sum(cost.gaps for cost in self.costs)
        return longest <= timing.unit_us and timing.agrees_with(
            self.total_us, overhead_us=MARK_US * marks, at_most=at_most
        )


AS_CONFIGURED = "as configured"
"""The first mode in which the calls of a changed file are compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeCompared(Event):
    """How far the comparison of a changed file with the file before the change has come, without a difference."""

    inputs: int
    """Inputs on which both were compared as configured."""
    planned: int
    """Inputs of the whole comparison; more if branches are searched."""
    mode: str
    """How the calls are made that are compared now: `as configured`, `training mode`, …"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeChecked(Event):
    """The changed file, eager and compiled, compared with the file before the change in eager mode.

    Inputs, seed and state before each call are the same.
    """

    verdict: AccuracyVerdict
    """Of outputs, gradients, and everything that the calls write to."""
    max_abs: float | None = None
    max_rel: float | None = None
    """`max_abs` over the largest magnitude of the same tensor on the other side."""
    differences: tuple[str, ...] = ()
    """Sentences about the deviation, dtype, shape, state, and values that exist on one side only."""
    not_compared: tuple[str, ...] = ()
    """Modes and state, each with the reason: `with gradients: the original raises RuntimeError: …`."""
    gradients: bool = False
    """Whether gradients were compared in another mode than the configured one."""
    calls: int = 0
    """Calls that were compared."""
    varied: int = 0
    """Further calls with other values in the inputs or weights."""
    modes: tuple[str, ...] = ()
    """How the calls were made: `as configured`, `training mode with gradients`, …"""
    unreached: tuple[str, ...] = ()
    """Sentences on branches that the change replaces and that no call reached."""
    train: bool = False
    reason: str = ""
    """Why there is no verdict."""
    tensor: str = ""
    """The tensor that differs most, of which `max_abs` and `max_rel` are: `output[0]`, `gradient of fc1.weight`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PaddingChecked(Event):
    """Compiled on padded inputs compared with eager on the same inputs without padding.

    What the padding adds is removed from the outputs.
    """

    verdict: PaddingVerdict
    calls: int = 0
    """Calls that were compared."""
    max_abs: float | None = None
    """Largest difference."""
    reason: str = ""
    """Why nothing was compared, or the first output that differs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeTimed(Event):
    """The changed file and the file before the change, both compiled, timed in random pairs in each process."""

    before_us: float
    """Per call."""
    after_us: float
    """Per call."""
    speedup: float
    """Median of before over after."""
    low: float
    """Lower end of the 95% interval."""
    high: float
    verdict: TimingVerdict
    """Of the change instead of compiling."""
    pairs: int
    processes: int = 1
    """Processes that were timed, each of which is one sample."""
    cores: int = 0
    """Cores of the machine; 0 if unknown."""
    busy_cores: float | None = None
    """Cores that other programs used meanwhile; None if unknown."""

    @property
    def load(self) -> str:
        """`while other programs use 2.0 of 2 cores`; empty if they use less than half a core."""
        return load_condition(self.busy_cores, self.cores)


@dataclass(frozen=True, slots=True, kw_only=True)
class StateKeys(Event):
    """Names in the state dicts of a module, of its compiled form, and of a copy compiled in place."""

    count: int
    """All names; the tuples hold the first `STATE_KEYS_SHOWN`."""
    module: tuple[str, ...]
    compiled: tuple[str, ...]
    in_place: tuple[str, ...]
    prefix: str | None
    """Prefix of each name in the compiled form; None if the names differ in another way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactsSaved(Event):
    """Compiled code was saved (`Job.save_artifacts`)."""

    bytes: int
    """0 if there was nothing to save."""
    kinds: tuple[tuple[str, int], ...] = ()
    """Kinds of cache artifact with their number."""
    seconds: float = 0.0
    """Time to save; with that of the compile if it happens ahead of the first call."""
    guards: int | None = None
    """Guards that a call of the loaded code checks, for code that is compiled ahead of the first call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactsLoaded(Event):
    """Compiled code of another process was loaded (`Job.load_artifacts`)."""

    seconds: float
    kinds: tuple[tuple[str, int], ...] = ()
    """Kinds of cache artifact with their number."""


FixState = Literal["proposed", "verifying", "verified", "untested", "refused", "none"]
"""`untested`: no input takes a branch that it changes. `refused`: no change is verified. `none`: none is proposed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FixGain:
    """Time of a compiled call that a fix saves, from pairs of calls with and without it."""

    us: float
    low_us: float
    high_us: float
    """Ends of the 95% interval."""
    call_us: float
    """A compiled call without the fix."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakFix(Event):
    """The best known change that could remove a graph break; it replaces the last one of the same break."""

    location: Location | None
    kind: str
    """`GraphBreak.kind` of the break."""
    state: FixState
    name: str = ""
    """The fix, such as `torch.where`."""
    code: str = ""
    """The lines that it adds or changes, without imports."""
    note: str = ""
    """Why it is not verified, or advice if there is no fix; while one is being verified, why an earlier one failed; of
    a verified one, why it was not timed."""
    inputs: int = 0
    """Number of inputs that it was verified on."""
    kernels: tuple[int, int] | None = None
    """Kernels before and after."""
    speedup: float | None = None
    """Time of a compiled call before over after; None if it is undecided."""
    gain: FixGain | None = None
    """Cost of the break; None before the verified fix is timed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardFilterTried(Event):
    """The result of a run with a guard filter, compared with one without; it replaces the last one of this filter."""

    name: str
    """The filter, as `Config.guard_filter` names it."""
    speed: float = 0.0
    """Time of a compiled call without the filter over the time with it; 0 if it was not timed."""
    low: float = 0.0
    high: float = 0.0
    """Ends of the 95% interval of `speed`."""
    decided: bool = False
    """Whether both runs have a verdict."""
    wrong: bool = False
    """Whether the result differs from eager's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ColdCompile(Event):
    """What the calls of a run that compile take in a new process with empty compile caches."""

    seconds: float
    """Of these calls together; of a script, of its compiles, from torch's log."""
    calls: int = 0
    """Number of these calls: each also does the work of a warm one. 0 for a script."""
    warm_seconds: float | None = None
    """The same with the caches that such a process left, as at the next start; None if it was not measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTried(Event):
    """The result of trying a next step without changing the file; it replaces the last one of the same step."""

    step: str
    """The step, as `NextStep.key` names it."""
    speedup: float | None = None
    """Time of a compiled call now over the time with the step, per item for a larger batch; None if not timed."""
    low: float | None = None
    """Lower end of the 95% interval of `speedup`."""
    high: float | None = None
    verdict: TimingVerdict = "undecided"
    before_us: float | None = None
    """A compiled call now."""
    after_us: float | None = None
    """A compiled call with the step."""
    speedups: tuple[float, float] | None = None
    """Speedups over eager without and with the step, each of its own process; `speedup` is their ratio. None if the
    compiled calls without and with the step were timed against each other."""
    saved_compile_s: tuple[float, float] | None = None
    """95% interval of the difference between the compile times of runs without and with the step, with empty caches;
    None if they were not compared."""
    compile_s: tuple[float, float] | None = None
    """Means of the compile times of the runs without and with the step."""
    recompiles: tuple[int, int] | None = None
    """Recompiles without and with the step; None unless it is to avoid some."""
    fixes: tuple[int, int] | None = None
    """Breaks with a verified fix, each on top of those before, and all breaks; None unless it is to fix several."""
    results: ChangeChecked | None = None
    """The results with the step compared with eager's without it; None if they were not."""
    same_code: bool = False
    """Whether the program has the same kernels with the step, so that a difference of the times is one of the noise."""
    problem: str = ""
    """Why it could not be measured; empty if it was."""
