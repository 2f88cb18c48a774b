"""The protocol between the front end and the workers, apart from the events of a run.

The front end opens a run: it sends `OpenRun` with the file descriptors of a protocol socket and of the pipes for the
program's output. The worker answers `RunOpened` when a process waits on that socket for a `Job`. After the job, the
front end sends `RunCommand`s on the same socket.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tcexplore.events.codec import decode
from tcexplore.events.dynamo_events import FxNode
from tcexplore.events.run_events import Failed, Standby

WorkerStage = Literal["loaded", "imported", "primed"]
"""How far a worker is: what a first graph needs is imported; all of the compiler is imported; a model is compiled."""

RUN_DESCRIPTORS = 4
"""File descriptors of a run, in this order: protocol socket, standard output, standard error, crash traceback."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsal:
    """The first graph of the last run, which the process for the next run compiles while it waits."""

    code: str
    """torch's readable form."""
    inputs: tuple[FxNode, ...]
    grad: bool
    """Whether the calls are made with gradients."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlyImports:
    """What the model file imports first, which the process for the next run imports while it waits."""

    file: str
    argv: tuple[str, ...]
    statements: tuple[str, ...]
    """Its leading import statements, without those of torch and of the standard library."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenRun:
    """Front end to worker: provide a process for one run. `RUN_DESCRIPTORS` file descriptors come with it."""

    number: int
    """Identifies the run process on this worker."""
    warm_up: bool = True
    """Whether the process warms up until its job arrives."""
    rehearsal: Rehearsal | None = None
    imports: EarlyImports | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalRun:
    """Front end to worker: send a signal to the process group of a run."""

    number: int
    signal: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepare:
    """Front end to worker: import the rest of the compiler for later runs, and prime if `prime`."""

    prime: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Retarget:
    """Front end to run: also lower the captured graphs for another target."""

    target: str
    """The target, as `Config.target` names it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseTiming:
    """Front end to run: pause or resume timing."""

    paused: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RecompileQuery:
    """Front end to run: would these inputs recompile? The run answers with a `RecompileAnswer` of the same number.

    A query with the number of an earlier one replaces it.
    """

    inputs: tuple[str, ...]
    """Such as `f32[33,512]` or `lr=0.01`."""
    number: int = 0
    region: int | None = None
    """A compiled region of a script; None for the only one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """Worker to front end, before it imports torch."""

    protocol: int
    """Version of the protocol that the worker speaks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """Worker to front end: it serves runs, and reached a stage. Processes opened before are outdated."""

    stage: WorkerStage
    standby: Standby
    forks: bool = False
    """Whether the worker forks a process for each run. Otherwise it serves one run itself, then exits."""
    self_priming: bool = False
    """Whether each process primes itself, which takes seconds, so that several should be kept ready."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOpened:
    """Worker to front end: process `pid`, the leader of its process group, waits for the run's job."""

    number: int
    pid: int
    primed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPrimed:
    """Worker to front end: the process of a run has primed itself."""

    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunExited:
    """Worker to front end: the process of a run has ended."""

    number: int
    code: int
    """Exit status, or minus the signal that killed the process."""


WorkerCommand = OpenRun | SignalRun | Prepare
RunCommand = Retarget | PauseTiming | RecompileQuery
WorkerReport = Hello | Ready | RunOpened | RunPrimed | RunExited | Failed


def decode_worker_command(body: bytes) -> WorkerCommand:
    """Decode a command to a worker. Raise `ProtocolError` if it is malformed."""
    command: WorkerCommand = decode(body, {record.__name__: record for record in (OpenRun, SignalRun, Prepare)})
    return command


def decode_run_command(body: bytes) -> RunCommand:
    """Decode a command to a run, with its text unchanged. Raise `ProtocolError` if it is malformed."""
    vocabulary: dict[str, type] = {record.__name__: record for record in (Retarget, PauseTiming, RecompileQuery)}
    command: RunCommand = decode(body, vocabulary, text=str)
    return command


def decode_worker_report(body: bytes) -> WorkerReport:
    """Decode a report of a worker. Raise `ProtocolError` if it is malformed."""
    records = (Hello, Ready, RunOpened, RunPrimed, RunExited, Failed)
    vocabulary: dict[str, type] = {record.__name__: record for record in records}
    report: WorkerReport = decode(body, vocabulary)
    return report
