"""The life of one run: the job it was given, its phases, what it printed, how it ended."""

from __future__ import annotations

from dataclasses import dataclass, field

from tcexplore.events.base import Event, Location

FOLLOW_S = 300.0
"""Seconds that a script is followed when nothing is said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """How a run compiles; the fields are the arguments of `torch.compile` and the command line's options."""

    mode: str = "default"
    backend: str = "inductor"
    dynamic: bool | None = None
    fullgraph: bool = False
    train: bool = False
    device: str | None = None
    """Move model and inputs here; None leaves them where the file put them."""
    target: str = "native"
    """The device to show code for: the one in the machine, a name of the device table, or the path of a TOML file."""
    assembly: bool = False
    """Whether C++ kernels are brought to assembly too: some seconds each."""
    inputs: tuple[str, ...] = ()
    """`--input` specifications such as `f32[64,512]` or `mask=bool[64]`."""
    seed: int = 0
    threads: int | None = None
    fuse: bool = True
    """False: Inductor's scheduler leaves every node apart."""
    dim: int = 0
    sizes: tuple[int, ...] = ()
    """Make each of the file's calls once per size, dimension `dim` of its inputs that large; none: as they are."""
    follow: float = FOLLOW_S
    """Seconds after which a script that compiles things itself is ended, 0 for never."""
    vary: tuple[str, ...] = ()
    """`--vary` specifications (`events/vary.py`): each of the file's calls is made for every combination."""
    mark_dynamic: tuple[str, ...] = ()
    """Dimensions of arguments, such as `x.0`, that are marked with `torch._dynamo.mark_dynamic`."""
    as_tensors: tuple[str, ...] = ()
    """Arguments that are numbers and are given as tensors instead."""
    buckets: tuple[str, ...] = ()
    """Such as `x.0=8,16,32`: tensors are padded with zeros to the next of these sizes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Front end to worker: run this file once. Only a `Switch` may follow it in this direction.

    `source` is the text that the front end read at the save, so that the run and the panes
    cannot disagree when the file changes again meanwhile.
    """

    run: int
    file: str
    source: str
    name: str | None = None
    argv: tuple[str, ...] = ()
    config: Config = field(default_factory=Config)
    time_for: float | None = None
    """Seconds of timing after the compile; None refines until the worker is ended, 0 skips timing."""
    passes: int = 1
    """How often the compiled calls are made, one after another; with more than one nothing is timed beside that."""
    examine: bool = True
    """Whether results and memory of both sides are compared after the compile."""
    graph_scripts: bool = False
    """Whether torch's own script for each of Inductor's graphs is wanted."""
    runnable: bool = False
    """Whether each Triton kernel for the target is wanted as a file that runs by itself."""
    caches: str = ""
    """A folder for torch's compile caches, all of which are used then. Empty leaves them where torch has them, those
    that would hide the compile switched off."""
    save_artifacts: str = ""
    """A file to write torch's portable compile artifacts to, once everything is compiled; empty for none."""
    load_artifacts: str = ""
    """A file with such artifacts, to be loaded before anything is compiled."""
    before: str | None = None
    """The file's text before a change that `source` has or `overlay` makes: the two are compared, in their results and
    in the time that a compiled call takes, in the place of timing eager against compiled."""
    overlay: tuple[tuple[str, str], ...] = ()
    """Paths of local modules, each with the text that it is imported with instead of its own."""
    would: tuple[str, ...] = ()
    """Inputs (`f32[33,512], True`) of which to tell, once everything is compiled, whether they would recompile."""
    switchable: bool = False
    """Whether a `Switch` to another target may follow: the run keeps its graphs for that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standby(Event):
    """A worker is ready for a job. `seconds` is how long importing and priming took."""

    torch: str
    python: str
    device: str
    """What compiled code runs on by default, e.g. `cpu` or `cuda: NVIDIA H200`."""
    seconds: float
    modes: tuple[str, ...] = ()
    backends: tuple[str, ...] = ()
    """What `torch.compile` takes as mode and as backend with this torch; empty where torch does not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseStarted(Event):
    """The run entered a phase.

    One of `PHASES`. Phases nest in torch (Inductor runs inside Dynamo's frame); the latest one started is shown.
    `graph` is the compile id the phase works on, where there is one.
    """

    phase: str
    graph: str | None = None
    at: float
    """Seconds since the job arrived."""


PHASES = (
    "importing", "eager", "dynamo", "aot", "inductor", "compiler", "backward", "lowering", "accuracy", "assembling",
    "timing", "switching", "comparing",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseTimed(Event):
    """A finished span of compile time, from torch's own event log. `depth` nests spans; `at` is when it began, in
    seconds since the job arrived, None where that is not known."""

    name: str
    seconds: float
    graph: str | None
    depth: int
    at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryFound(Event):
    """What of the file is compiled and with which inputs.

    `kind` is `module`, `function` or `script`; `rule` says in words which rule of the file contract hit;
    `calls` has one tuple of argument descriptions (`f32[64, 512]`) per call; `notes` are facts worth a line,
    for instance that a GPU is present but the file stays on the CPU.
    """

    name: str
    kind: str
    rule: str
    calls: tuple[tuple[str, ...], ...]
    location: Location | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ModulesImported(Event):
    """The person's own modules that the file imported (absolute paths): these are watched too."""

    files: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRead(Event):
    """The text of another file that places of this run point into: a local module, or the library of the model."""

    file: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Output(Event):
    """Text that the person's program wrote. `stream` is `stdout` or `stderr`. Made by the front end from pipes."""

    stream: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed(Event):
    """The run ended early.

    `stage` is a phase, or `file` (unreadable, no entry), `worker` (crashed, killed), `arguments`.
    `blame` is `person` (their file or arguments: exit 2) or `compiler` (torch or the worker: exit 3).
    `traceback` is cut to the person's frames where that is possible; `hint` says what to try.
    """

    stage: str
    blame: str
    type: str
    message: str
    location: Location | None = None
    hint: str = ""
    traceback: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished(Event):
    """Everything that the job asked for is done; nothing more follows of this run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FactMissing(Event):
    """This torch does not give a fact. `fact` names it for a pane, `symbol` the torch symbol, `reason` why."""

    fact: str
    symbol: str
    reason: str
