"""The life of one run: its phases, what it printed, how it ended."""

from __future__ import annotations

from dataclasses import dataclass

from tcexplore.events.base import Event, Location


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
    """The user's own modules that the file imported (absolute paths): these are watched too."""

    files: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRead(Event):
    """The text of another file that places of this run point into: a local module, or the library of the model."""

    file: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Output(Event):
    """Text that the user's program wrote. `stream` is `stdout` or `stderr`. Made by the front end from pipes."""

    stream: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed(Event):
    """The run ended early.

    `stage` is a phase, or `file` (unreadable, no entry), `worker` (crashed, killed), `arguments`.
    `blame` is `user` (their file or arguments: exit 2) or `compiler` (torch or the worker: exit 3).
    `traceback` is cut to the user's frames where that is possible; `hint` says what to try.
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
