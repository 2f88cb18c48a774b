"""The entry of a job: that of its file, or a captured call of a region of a script (`Config.region`)."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import replace
from types import ModuleType
from typing import Any, NamedTuple

import torch

from tcexplore.accuracy.accuracy_check import MEMORY_DIVISOR, free_memory
from tcexplore.capture.captured_calls import CallCapture, CapturedCall, NotCapturedError
from tcexplore.capture.compiled_regions import Region, Regions
from tcexplore.capture.entry import Entry, EntryError, find_entry
from tcexplore.capture.hooks import Hooks
from tcexplore.capture.time_limit import TimeLimitError, time_limit
from tcexplore.capture.user_files import UserFiles
from tcexplore.events import Job
from tcexplore.events.config import ANY_REGION
from tcexplore.worker.model_file import ModelFile

UNKNOWN_BYTES = 1 << 30
"""Bytes that captured calls may hold if the free memory is not known."""


MOST_CALLS = 32
"""Calls of a region to wait for the gradients of the first one: an inference with gradients on has none."""


class FileEntry(NamedTuple):
    """A model file that was run, and its entry."""

    module: ModuleType
    entry: Entry


def load_entry(file: ModelFile, user_files: UserFiles) -> FileEntry:
    """Run a model file and return its entry.

    Raises `EntryError`, and the exceptions of the user's code.
    """
    job, region = file.job, file.job.config.region
    if region and file.is_script:
        return _run_until_captured(file, job, user_files)
    if region and region != ANY_REGION:
        raise EntryError("--region names a compiled region of a script, and this file has a model.", "", "arguments")
    module = file.run_as_module()
    return FileEntry(module, find_entry(module, job, user_files))


def capture_limit(device: torch.device) -> int:
    """Return the bytes that captured calls may hold on a device."""
    free = free_memory(device)
    return UNKNOWN_BYTES if free is None else free // (2 * MEMORY_DIVISOR)


class _CapturedSignal(BaseException):
    """Ends a script once a call is captured. No handler of `Exception` in the script catches it."""


class _EagerCalls:
    """Has every region run eagerly, and ends the script at a later call of a region with a complete captured call."""

    def __init__(self, captures: CallCapture) -> None:
        self._captures = captures
        self._calls: Counter[int] = Counter()
        self.captured: CapturedCall | None = None
        """The captured call at which the script ended."""

    def begin_call(self, region: Region, _args: tuple[Any, ...], _kwargs: dict[str, Any]) -> bool:
        """Return that the call runs eagerly."""
        captured = self._captures.first(region.number)
        self._calls[region.number] += 1
        if captured is not None and (captured.complete or self._calls[region.number] > MOST_CALLS):
            self.captured = captured
            raise _CapturedSignal
        return True

    def end_call(self, graphs: int) -> None:
        """Do nothing."""

    def ran_out_of_memory(self) -> None:
        """Do nothing."""

    def compiles_eagerly(self) -> None:
        """Do nothing."""

    def begin_own_work(self) -> int:
        """Return 0: nothing is timed."""
        return 0

    def end_own_work(self, began_ns: int) -> None:
        """Do nothing."""


def _run_until_captured(file: ModelFile, job: Job, user_files: UserFiles) -> FileEntry:
    """Run a script eagerly until the second call of a region, and return the first one as the entry."""
    name = job.config.region or ANY_REGION
    captures = CallCapture(capture_limit, only="" if name == ANY_REGION else name, replay=True)
    hooks = Hooks(lambda _: None)
    calls = _EagerCalls(captures)
    regions = Regions(hooks, user_files, lambda: 0.0, steps=calls, captures=captures)
    regions.watch_compile()
    try:
        with time_limit(job.config.follow):
            file.run_as_script()
    except (_CapturedSignal, TimeLimitError):
        pass
    except SystemExit as error:
        if error.code not in (None, 0):
            raise
    finally:
        regions.close()
        hooks.remove()
    return FileEntry(
        sys.modules["__main__"], _captured_entry(calls.captured or captures.first(), captures, regions, name)
    )


def _captured_entry(captured: CapturedCall | None, captures: CallCapture, regions: Regions, name: str) -> Entry:
    if captured is None:
        known = ", ".join(dict.fromkeys(region.name for region in regions.all)) or "none"
        reason = "; ".join(f"{region}: {reason}" for region, reason in captures.reasons.items())
        wanted = "no region" if name == ANY_REGION else f"no region {name!r}"
        raise EntryError(
            f"The script called {wanted} whose call can be captured{f' ({reason})' if reason else ''}.",
            f"Its regions: {known}. --region names one.",
            "arguments",
        )
    captures.clear()
    try:
        entry = captured.entry()
    except NotCapturedError as error:
        raise EntryError(f"A call of {captured.name} cannot be made again: {error}.", "", "arguments") from error
    return replace(entry, notes=(*entry.notes, *_notes(captured)))


def _notes(captured: CapturedCall) -> tuple[str, ...]:
    made = f"It is call {captured.number} of {captured.name}, as the script made it"
    return (f"{made}, with the gradients that came in its backward." if captured.gradients else f"{made}.",)
