"""Explain why a run process ended without a last event, from its exit status and its crash traceback."""

from __future__ import annotations

import re
import signal
from pathlib import Path
from traceback import format_exception_only

from tcexplore.events import Blame, Event, FactMissing, Failed, Finished, Job, Location, RunFact, RunStage, clean
from tcexplore.events.python_source import parse_source
from tcexplore.events.run_events import BROKEN_STATUS, name_exit
from tcexplore.torch_text.dynamo_names import function_name

SYNTAX_HINT = "Save again when the line is complete."
_FRAME = re.compile(r'^  File "(?P<file>[^"]+)", line (?P<line>\d+) in (?P<function>.+)$', re.MULTILINE)
_THREAD = re.compile(r"^(Current thread|Thread) ", re.MULTILINE)
_TIMEOUT = "Timeout ("
"""First characters of faulthandler's traceback of a process that exceeds a limit."""
_TCEXPLORE = str(Path(__file__).resolve().parents[1])
_LESS_MEMORY = "Smaller inputs, or a smaller batch, need less memory."
_BAD_POINTER = "Native code (ctypes, an extension, a kernel) accessed invalid memory."
_SIGNALS: dict[int, tuple[str, str]] = {
    signal.SIGSEGV: ("crashed with a segmentation fault", _BAD_POINTER),
    signal.SIGBUS: ("crashed with a bus error", _BAD_POINTER),
    signal.SIGABRT: ("was aborted by native code", "Its output gives the reason."),
    signal.SIGFPE: ("crashed with an arithmetic error in native code", "For example an integer division by zero."),
    signal.SIGILL: ("executed an instruction that this CPU lacks", "Native code was built for another CPU."),
}

_KILLED: dict[bool | None, tuple[str, str]] = {
    True: ("was killed because memory ran out", _LESS_MEMORY),
    False: ("was killed by SIGKILL, not because memory ran out", "The program, or another process, sent the signal."),
    None: ("was killed by SIGKILL: by itself, by another process, or because memory ran out", _LESS_MEMORY),
}
"""What SIGKILL means, by whether the system killed a process for memory meanwhile; None if that is not known."""

_CRASHES = frozenset(_SIGNALS)
"""Signals that a fault in native code raises."""


def oom_kills() -> int | None:
    """Return how many processes the system has killed since its start because memory ran out; None if unknown."""
    try:
        with open("/proc/vmstat", "rb") as file:
            fields = dict(line.split() for line in file)
        return int(fields[b"oom_kill"])
    except (OSError, ValueError, KeyError):
        return None


def explain_exit(code: int, job: Job, crash: str, out_of_memory: bool | None = None) -> Failed:
    """Return the failure behind exit status `code` (negative: a signal); `crash` is faulthandler's traceback.

    `out_of_memory` says whether the system killed a process for memory during the run; None if that is not known.
    """
    if code == BROKEN_STATUS:
        message = "The run ended without a report: the program replaced parts of Python that tcexplore needs."
        return _failed(
            job, crash, "broken", message, "If the program replaces none, this is a bug in tcexplore. Please report it."
        )
    if code >= 0:
        message = f"The program ended its own process with status {code} before the run was complete."
        return _failed(job, crash, "os._exit", message, "os._exit() ends the process before anything can be shown.")
    name = name_exit(code)
    signals = {**_SIGNALS, signal.SIGKILL: _KILLED[out_of_memory]}
    event, hint = signals.get(-code, (f"was ended by {name}", ""))
    by_user = -code not in _CRASHES or not _in_torch(_stack(crash), job)
    return _failed(job, crash, name, f"The process {event}.", hint, blame="user" if by_user else "compiler")


OPTIONAL_FACTS: dict[RunStage, str] = {
    "lowering": "code for the target",
    "switching": "code for the target",
    "accuracy": RunFact.ACCURACY,
    "assembling": RunFact.MACHINE_CODE,
    "timing": RunFact.TIMING,
    "comparing": "comparison with the original",
    "answering": "recompile check",
}
"""Facts that are missing if the process ends in a phase after the compile."""


def explain_late_exit(code: int, fact: str, job: Job, crash: str, out_of_memory: bool | None = None) -> FactMissing:
    """Return the fact that is missing because the process ended in an optional stage, and with it all later facts."""
    failed = explain_exit(code, job, crash, out_of_memory)
    if code == BROKEN_STATUS:
        reason = "the program replaced parts of Python that tcexplore needs"
    elif crash.startswith(_TIMEOUT):
        reason = "native code did not end within the time limit; the process was ended, and with it all later steps"
    elif code >= 0:
        reason = f"the program ended its own process with status {code}, and with it all later steps"
    else:
        place = " in the compiler" if failed.blame == "compiler" else ""
        reason = f"{failed.message[0].lower()}{failed.message[1:].rstrip('.')}{place}, which ended all later steps"
    if failed.location is not None:
        reason += f" ({Path(failed.location.file).name}, line {failed.location.line})"
    return FactMissing(run=job.run, fact=fact, symbol=failed.type, reason=reason)


def explain_syntax_error(job: Job) -> Failed | None:
    """Return the failure of a model file that doesn't parse, without a worker; None if it parses."""
    try:
        parse_source(job.source, job.file)
    except SyntaxError as error:
        return Failed(
            run=job.run, stage="importing", blame="user", type=type(error).__name__, message=error.msg,
            hint=SYNTAX_HINT, location=Location(job.file, error.lineno or 1),
            traceback="".join(format_exception_only(error)),
        )  # fmt: skip
    except (ValueError, RecursionError, MemoryError):
        return None  # the worker reports it
    return None


def explain_stop(phase: RunStage, job: Job, crash: str, *, optional: bool) -> Event:
    """Return the last event of a run that the user stopped: no failure if only optional stages were left."""
    if optional:
        return Finished(run=job.run)
    hint = "Save the file to run it again."
    return _failed(job, crash, "Stopped", "Stopped by the user.", hint, stage=phase)


def explain_invalid_message(error: Exception, job: Job) -> Failed:
    """Return the failure for an invalid message: the program wrote to a file descriptor of tcexplore."""
    return _failed(
        job, "", type(error).__name__, f"The program corrupted the channel to tcexplore: {error}",
        "It writes to, or closes, file descriptors that it did not open.",
    )  # fmt: skip


def _failed(
    job: Job, crash: str, kind: str, message: str, hint: str, blame: Blame = "user", stage: RunStage = "worker"
) -> Failed:
    location = next((frame for frame in _stack(crash) if frame.file == job.file), None)
    return Failed(
        run=job.run, stage=stage, blame=blame, type=kind, message=message,
        hint=hint, location=location, traceback=_traceback(crash),
    )  # fmt: skip


def _traceback(crash: str) -> str:
    """Return the stack of the thread that crashed, without tcexplore's frames."""
    lines = [
        line for line in clean(_current_thread(crash)).splitlines()
        if (match := _FRAME.match(line)) is None or not match["file"].startswith((_TCEXPLORE, "<"))
    ]  # fmt: skip
    return "\n".join(lines)


def _current_thread(crash: str) -> str:
    title, current, rest = crash.partition("Current thread ")
    fatal = title.partition("\n")[0] if title.startswith("Fatal") else ""
    return f"{fatal}\n{current}{_THREAD.split(rest)[0]}".strip() if current else crash


def _stack(crash: str) -> list[Location]:
    """Return the frames of the thread that crashed, innermost first."""
    return [
        Location(m["file"], int(m["line"]), function_name(m["function"]))
        for m in _FRAME.finditer(_current_thread(crash))
    ]


def _in_torch(stack: list[Location], job: Job) -> bool:
    """Return whether torch crashed: it is below the innermost line of the model file, or no Python frame is known."""
    for frame in stack:
        if frame.file == job.file:
            return False
        if "/torch/" in frame.file or "/torchinductor" in frame.file:
            return True
    return not stack
