"""What front end and worker process say to each other about runs to come; the runs' own events travel elsewhere.

A **seat** is a place for one run: a protocol socket and pipes for what the program prints. The front end sends
`Seat` with their file descriptors; the worker answers `Seated` when a process waits on it for a `Job`.
"""

from __future__ import annotations

from dataclasses import dataclass

from tcexplore.events.codec import decode
from tcexplore.events.job import Standby
from tcexplore.events.run_events import Failed


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """Front end to worker: make a process for one run. Comes with `SEAT_DESCRIPTORS` file descriptors."""

    seat: int


SEAT_DESCRIPTORS = 4
"""In this order: protocol socket, standard output, standard error, where a crash writes its traceback."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal:
    """Front end to worker: send a signal to a seat's whole process group."""

    seat: int
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Retarget:
    """Front end to a run that is under way, on its seat's protocol socket: lower what was captured for `target`, too.

    `target` is what `Config.target` takes.
    """

    target: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseTiming:
    """Front end to a run's process, after its job: pause the timing while `held`, or go on with it."""

    held: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RecompileQuery:
    """Front end to a run that is under way: would these inputs (`f32[33,512]`, `lr=0.01`) recompile?

    Answered with a `RecompileAnswer` of the same `number`, between two things that the run does. `region` is one of a
    script's; None for the only one.
    """

    number: int
    inputs: tuple[str, ...]
    region: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """Worker to front end, before torch is imported: the protocol it speaks."""

    protocol: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """Worker to front end: torch is imported and primed.

    A `template` forks a process for each seat; a worker that is none serves one seat itself and is then gone.
    """

    template: bool
    standby: Standby


@dataclass(frozen=True, slots=True, kw_only=True)
class Seated:
    """Worker to front end: process `pid` waits for the seat's job."""

    seat: int
    pid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Exited:
    """Worker to front end: a seat's process is gone. `code` is its exit status, or minus the signal that ended it."""

    seat: int
    code: int


Order = Seat | Signal
RunCommand = Retarget | PauseTiming | RecompileQuery
Report = Hello | Ready | Seated | Exited | Failed


def decode_order(body: bytes) -> Order:
    """What the front end asks for. Raises `ProtocolError`."""
    order: Order = decode(body, {"Seat": Seat, "Signal": Signal})
    return order


def decode_run_command(body: bytes) -> RunCommand:
    """What a run is asked for after its job, its text as it was sent. Raises `ProtocolError`."""
    asked: RunCommand = decode(
        body, {"Retarget": Retarget, "PauseTiming": PauseTiming, "RecompileQuery": RecompileQuery}, text=str
    )
    return asked


def decode_report(body: bytes) -> Report:
    """What the worker says. Raises `ProtocolError`."""
    vocabulary: dict[str, type] = {record.__name__: record for record in (Hello, Ready, Seated, Exited, Failed)}
    report: Report = decode(body, vocabulary)
    return report
