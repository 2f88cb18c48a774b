"""The life of one run: its phases, its output, its end; and the compiled regions of a script, with their calls.

A **region** is the result of one use of `torch.compile`: a function, a module, an optimizer's step, or one backward
graph of compiled autograd. Regions are numbered from 0 in the order of their creation.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Literal, get_args

from tcexplore.events.base import Event, Location

Phase = Literal[
    "importing", "eager", "dynamo", "aot", "inductor", "compiler", "backward", "lowering", "accuracy",
    "assembling", "timing", "switching", "comparing", "answering", "trace", "profile",
]  # fmt: skip
"""A phase of a run. Phases nest in torch (Inductor runs inside Dynamo's frame); the one that began last is shown."""

PHASES: tuple[Phase, ...] = get_args(Phase)

RunStage = Literal[Phase, "file", "arguments", "worker"]
"""Where a run failed: `file` if it is unreadable or has no entry, `worker` if the process crashed or was killed."""

BEFORE_COMPILE: tuple[RunStage, ...] = ("file", "importing", "arguments", "eager")
"""Stages of a run that fail without involving the compiler."""

Blame = Literal["user", "compiler"]
"""`user`: the model file or the arguments (exit status 2). `compiler`: torch or the worker (exit status 3)."""

LONGEST_JOINED = 65_536
"""Characters of output from which on further output is a new event."""

BROKEN_STATUS = 70
"""Exit status of a run process that cannot report: a bug in tcexplore, or a program that replaced parts of Python."""


def name_exit(code: int) -> str:
    """Return the name of an exit status; a negative one is a signal."""
    if code >= 0:
        return f"exit status {code}"
    return signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Standby(Event):
    """A worker is ready for a job."""

    torch: str
    python: str
    device: str
    """The default device, such as `cpu` or `cuda: NVIDIA H200`."""
    seconds: float
    """Duration of importing and priming."""
    cpu_seconds: float | None = None
    """CPU time of the process until then, which shows the speed of the machine."""
    primed: bool = False
    """Whether the worker has compiled a tiny model, so that its runs start immediately."""
    fork_problem: str = ""
    """Why its runs are not forked, which makes a save wait longer, on a system that can fork."""
    modes: tuple[str, ...] = ()
    backends: tuple[str, ...] = ()
    """Modes and backends of this torch; empty if it does not list them."""
    environment: str = ""
    """The worker's interpreter, if it is not the one that runs tcexplore. The front end adds it."""
    environment_source: str = ""
    """Where that interpreter is named: `--python`, `VIRTUAL_ENV`, `CONDA_PREFIX`, or a folder."""
    features: tuple[str, ...] = ()
    """Names of optional functions and settings that this torch has, from `torch_probe.FEATURES`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseStarted(Event):
    """A phase of the run began."""

    phase: Phase | Literal[""]
    """Empty between two compiles of a job that is followed."""
    graph: str | None = None
    """Compile id of the graph that the phase works on, if any."""
    at: float
    """Seconds since the job arrived."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageStarted(Event):
    """An optional stage of the run began, or continues after a stage inside it. Only the supervisor receives it."""

    fact: str
    """The fact that is missing if the process ends during the stage."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseTimed(Event):
    """A finished span of compile time, from torch's event log."""

    name: str
    seconds: float
    graph: str | None
    """Compile id of the graph, if known."""
    depth: int
    """Number of spans around it."""
    at: float | None = None
    """Start in seconds since the job arrived; None if unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryFound(Event):
    """The entry of the model file: the module or function to compile and its calls, or a script."""

    name: str
    kind: Literal["module", "function", "script"]
    rule: str
    """The rule by which the entry was found, as a phrase."""
    calls: tuple[tuple[str, ...], ...]
    """Descriptions of the arguments, such as `f32[64, 512]`, for each call."""
    location: Location | None = None
    notes: tuple[str, ...] = ()
    """Notes for the user, e.g. that a GPU is available but the file uses the CPU."""
    arguments: tuple[str, ...] = ()
    """Arguments of the file's own torch.compile that are not its defaults, such as `dynamic=True`."""


RestartNeed = Literal["gradients", "target", "script"]
"""What a program needs to run: gradients in its forward pass, to see the target's GPU, or to run as a script."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallsRestarted(Event):
    """The calls begin again, with what the program needs. What was captured so far does not count."""

    need: RestartNeed


GradReason = Literal["training", "requested", "needed", "inference"]
"""`requested`: by `--grad`. `needed`: the model computes gradients in its forward. `inference`: a forward run turns
gradients off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GradMode(Event):
    """Whether the calls are made with gradients."""

    enabled: bool
    """If false, calls are made under `torch.no_grad()`; if true, with the file's own grad mode."""
    reason: GradReason
    matters: bool
    """Whether an input or a parameter requires gradients."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModulesImported(Event):
    """Local modules that the file imported; they are watched too."""

    files: tuple[str, ...]
    """Absolute paths."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedAhead(Event):
    """Packages that the file imports first, which were imported before it was saved, as after the run before."""

    packages: tuple[str, ...]
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CompilerLoaded(Event):
    """The process had loaded the compiler before the run: in a new one, the first call takes longer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRead(Event):
    """The text of another file that has locations of this run: a local module, or the library of the model."""

    file: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Output(Event):
    """Text that the user's program wrote. The front end reads it from pipes."""

    stream: Literal["stdout", "stderr"]
    text: str

    def joined(self, later: Output) -> Output | None:
        """Return this text and that of a later event as one event; None if they are not to be joined."""
        if (self.run, self.stream) != (later.run, later.stream) or len(self.text) >= LONGEST_JOINED:
            return None
        return replace(self, text=self.text + later.text)


TIMEOUT = "Timeout"
"""The type of a failure of a study's run that did not end within its time limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed(Event):
    """The run ended early."""

    stage: RunStage
    blame: Blame
    type: str
    message: str
    location: Location | None = None
    values: tuple[str, ...] = ()
    """The values that the failed line works with, such as `x = f32[2, 64]`."""
    hint: str = ""
    """Suggestion for the user."""
    traceback: str = ""
    """Limited to frames of user code, if it has any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished(Event):
    """The run is complete; this is its last event."""


class RunFact(StrEnum):
    """A fact that views or the report look up among the missing ones; any other fact is only listed by its name."""

    ACCURACY = "accuracy"
    MEMORY = "memory"
    TIMING = "timing"
    LINE_TIMES = "time per line"
    CALLS = "calls"
    CALL_PROFILE = "call profile"
    CAPTURED_CALLS = "captured calls"
    OUTPUT = "output of the program"
    RECOMPILE_CHECKS = "recompile checks"
    TIMELINE = "timeline of a step"
    STATE_DICT = "state dict"
    CACHE_ENTRIES = "cache entries"
    SYMBOLIC_SIZES = "symbolic sizes"
    AOT_GRAPHS = "AOT graphs"
    AOT_INFERENCE_GRAPH = "AOT inference graph"
    POST_GRAD_GRAPH = "post-grad graph"
    PASSES = "passes"
    FUSION = "fusion"
    FUSION_REFUSED = "fusion refused"
    FUSION_DECISIONS = "fusion decisions"
    ROOFLINE = "bytes and FLOPs of kernels"
    MACHINE_CODE = "machine code of kernels"
    COUNTERS = "hardware counters of kernels"


@dataclass(frozen=True, slots=True, kw_only=True)
class FactMissing(Event):
    """A fact that this torch does not provide, or whose measurement failed."""

    fact: str
    """Name of the fact for a pane: a `RunFact`, or any other text."""
    symbol: str
    """The torch symbol that provides it."""
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceRecords(Event):
    """Records of one kind in a trace."""

    kind: str
    count: int
    graphs: tuple[str, ...] = ()
    """Compile ids with such records."""
    read: bool = True
    """Whether tcexplore reads this kind; the others are listed only."""
    text: str = ""
    """Beginning of the payload of the first record, for a kind that is not read."""


RegionKind = Literal["function", "method", "module", "module in place", "optimizer", "compiled autograd"]
"""`module in place`: `module.compile()`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionCreated(Event):
    """`torch.compile` was used."""

    region: int
    name: str
    kind: RegionKind
    location: Location | None = None
    """Line of user code that used `torch.compile`, if any."""
    arguments: tuple[str, ...] = ()
    """Arguments of `torch.compile` that are not its defaults, such as `recompile_limit=4`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RepeatedBlocks(Event):
    """Classes of modules that the model repeats in a `ModuleList`, `ModuleDict` or `Sequential`."""

    kinds: tuple[tuple[str, int], ...]
    """Class name and number of its instances, in the order of their first instances."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionGraph(Event):
    """Dynamo began to compile a graph while this region was the innermost one called."""

    region: int
    graph: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionModule(Event):
    """The module that a region compiles was called for the first time."""

    region: int
    root: str
    """Class of the outermost module that runs, with a number if the program has several of it."""
    path: str
    """From that module; empty for itself."""
    type: str
    """Name of its class."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackwardCaptured(Event):
    """Compiled autograd captures a backward because none of its captures matches."""

    backward: str
    """Number of the capture: 2 in `!2/5/0`."""
    reason: str
    """torch's text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionCompiled(Event):
    """A call of a region that compiled something."""

    region: int
    call: int
    """Counted from 1, eager calls included."""
    at: float
    """Start in seconds since the job arrived."""
    seconds: float
    """Duration, including the call itself."""
    graphs: tuple[str, ...]
    """Compile ids."""
    inputs: tuple[str, ...] = ()
    """Arguments (`f32[64, 512]`); empty if a recompile check is not possible."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionCalls(Event):
    """All calls of a region so far; it replaces the last one. A warm call compiles nothing."""

    region: int
    calls: int
    warm: int
    seconds: float
    sampled: int = 0
    """Number of warm calls, the newest ones, from which the times are computed."""
    median_us: float | None = None
    """Wall time of a call; None without a warm call."""
    low_us: float | None = None
    """10th percentile."""
    high_us: float | None = None
    """90th percentile."""
    entered: int | None = None
    """Compiled graphs that the calls ran; None if this torch does not count them."""
    resumed: int | None = None
    """Number of `entered` graphs that follow a graph break."""
    uncompiled: int = 0
    """Calls that ran no graph."""
    raised: int = 0
    """Calls that ended in an exception."""
    eager: int = 0
    """Further calls, made eagerly by tcexplore to time steps; no other figure counts them."""
    made: int = 1
    """Calls of `torch.compile` that made it: several for a function that is defined anew each time."""
    bin_s: float = 1.0
    activity: tuple[int, ...] = ()
    """Calls that began in each `bin_s` seconds since the job arrived."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptEnded(Event):
    """The script ended."""

    seconds: float
    """Time that it took, without the time in which it waited for tcexplore, as during a study."""
    time_limit: float | None = None
    """Limit that ended it; None if it ended by itself."""
    processes_s: float = 0.0
    """CPU time of the processes that it started and waited for. What they compile is not observed."""
