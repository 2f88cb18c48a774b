"""A worker process that ended without saying why: what its exit status and last traceback tell."""

from __future__ import annotations

import re
import signal
from pathlib import Path

from tcexplore.events import Event, Failed, Finished, Job, Location, clean

_FRAME = re.compile(r'^  File "(?P<file>[^"]+)", line (?P<line>\d+) in (?P<function>.+)$', re.MULTILINE)
_THREAD = re.compile(r"^(Current thread|Thread) ", re.MULTILINE)
_TCEXPLORE = str(Path(__file__).resolve().parents[1])
_LESS_MEMORY = "Smaller inputs, or a smaller batch, need less memory."
_BAD_POINTER = "Native code (ctypes, an extension, a kernel) touched memory that is not there."
_SIGNALS = {
    signal.SIGSEGV: ("crashed with a segmentation fault", _BAD_POINTER),
    signal.SIGBUS: ("crashed with a bus error", _BAD_POINTER),
    signal.SIGABRT: ("was aborted by native code", "What it printed says why."),
    signal.SIGFPE: ("crashed with an arithmetic error in native code", "An integer division by zero does that."),
    signal.SIGILL: ("met an instruction that this processor lacks", "Native code was built for another processor."),
    signal.SIGKILL: ("was killed from outside, most likely because memory ran out", _LESS_MEMORY),
}


def explain(code: int, job: Job, crash: str) -> Failed:
    """The failure behind exit status `code` (negative: a signal). `crash` is Python's own word of a fatal signal."""
    if code >= 0:
        message = f"The program ended its own process, with status {code}, before the run was over."
        return _failed(job, crash, "os._exit", message, "After os._exit() there is nothing left to show.")
    number = signal.Signals(-code) if -code in set(signal.Signals) else None
    name = number.name if number else f"signal {-code}"
    what, hint = (_SIGNALS.get(number) if number else None) or (f"was ended by {name}", "")
    theirs = number == signal.SIGKILL or not _in_torch(_stack(crash), job)
    return _failed(job, crash, name, f"The process {what}.", hint, blame="user" if theirs else "compiler")


def stopped(phase: str, job: Job, crash: str) -> Event:
    """The end of a run that the user stopped; while it was being timed, or waited for questions, nothing is lost."""
    if phase in ("timing", "answering"):
        return Finished(run=job.run)
    hint = "Save the file, or press r, to run it again."
    return _failed(job, crash, "Stopped", "Stopped at your request.", hint, stage=phase)


def garbled(error: Exception, job: Job) -> Failed:
    """The run's channel carries something else than events: the program wrote into a descriptor not its own."""
    return _failed(
        job, "", type(error).__name__, f"The program disturbed the channel to tcexplore: {error}",
        "It writes to, or closes, file descriptors that it did not open.",
    )  # fmt: skip


def _failed(
    job: Job, crash: str, kind: str, message: str, hint: str, blame: str = "user", stage: str = "worker"
) -> Failed:
    location = next((frame for frame in _stack(crash) if frame.file == job.file), None)
    return Failed(
        run=job.run, stage=stage, blame=blame, type=kind, message=message,
        hint=hint, location=location, traceback=_traceback(crash),
    )  # fmt: skip


def _traceback(crash: str) -> str:
    """The stack of the thread that was struck, without tcexplore's own frames below the user's."""
    lines = [
        line for line in clean(_struck(crash)).splitlines()
        if (match := _FRAME.match(line)) is None or not match["file"].startswith((_TCEXPLORE, "<"))
    ]  # fmt: skip
    return "\n".join(lines)


def _struck(crash: str) -> str:
    title, found, rest = crash.partition("Current thread ")
    fatal = title.partition("\n")[0] if title.startswith("Fatal") else ""
    return f"{fatal}\n{found}{_THREAD.split(rest)[0]}".strip() if found else crash


def _stack(crash: str) -> list[Location]:
    """The frames of the thread that was struck, innermost first."""
    return [Location(m["file"], int(m["line"]), m["function"]) for m in _FRAME.finditer(_struck(crash))]


def _in_torch(stack: list[Location], job: Job) -> bool:
    """Whether it happened inside torch: below the user's innermost line, or with no Python frame known."""
    for frame in stack:
        if frame.file == job.file:
            return False
        if "/torch/" in frame.file or "/torchinductor" in frame.file:
            return True
    return not stack
