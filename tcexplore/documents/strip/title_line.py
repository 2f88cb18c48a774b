"""The first line of the screen: the file, the machine, the configuration, the run in progress or in view."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from tcexplore import events as ev
from tcexplore.documents.code.target_notes import format_progress
from tcexplore.documents.configurations import format_configuration, format_torch
from tcexplore.documents.document import Row
from tcexplore.documents.empty_states import PHASES, describe_phase
from tcexplore.documents.locations import display_path
from tcexplore.documents.prose import Piece, fitted, piece
from tcexplore.quantities import count
from tcexplore.session import Session
from tcexplore.targets.target_names import NATIVE

if TYPE_CHECKING:
    from tcexplore.session import Snapshot

SHOWN_FROM_S = 1.0
"""Seconds from which the time of a run or a phase is shown: most runs take less."""

_LEAST_S = 0.1
"""Seconds below which the time of an earlier phase is left out."""

_AFTER_COMPILE = ("eager", "accuracy", "assembling", "comparing")
"""Phases after the compile that may take seconds and have an end."""


class Elapsed(NamedTuple):
    """Seconds since the newest run began, and since its phase did."""

    run: float
    phase: float


def title_row(session: Session, standby: ev.Standby | None, elapsed: Elapsed, width: int) -> Row:
    """Return the line, `width` columns wide."""
    newest = session.newest
    if newest is None:
        return fitted([piece(" tcexplore", "title"), piece("starting", "muted")], width)
    file = display_path(newest.file)
    name = f"{file}:{newest.entry.name}" if newest.entry and newest.entry.name else file
    left = [piece(" tcexplore", "muted", 5), piece(name if width >= 60 else name.rpartition("/")[2], "title")]
    left += [*_machine(standby, newest), *_configuration(session.shown or newest)]
    return fitted(left, width - 1, list(_run(session, newest, elapsed)))


def _configuration(seen: Snapshot) -> Iterator[Piece]:
    yield piece(format_configuration(seen.config), "muted", 3)
    if seen.target != NATIVE:
        yield piece(f"code for {seen.target}", "title", 1)


def _machine(standby: ev.Standby | None, newest: Snapshot) -> Iterator[Piece]:
    if standby is None and newest.trace:
        return
    if standby is None:
        yield piece("loading torch", "running", 2)
        return
    device = newest.config.device or standby.device
    threads = newest.timing.threads if newest.timing else newest.config.threads
    yield piece(format_torch(standby), "muted", 4)
    yield piece(f"{device}, {count(threads, 'thread')}" if threads else device, "muted", 4)


def _run(session: Session, newest: Snapshot, elapsed: Elapsed) -> Iterator[Piece]:
    """Yield which run is in view, and the phase of the newest one."""
    seen = session.shown
    if session.pinned is not None and seen is not None and seen is not newest:
        place = f"{seen.label}{'' if seen.past else f' of {newest.run}'}, from history"
        yield piece(seen.trace or place, "warn")
    elif newest.failure is not None:
        yield piece(f"run {newest.run} ✖ {newest.failure.type}", "error")
    elif newest.phase in ("switching", "lowering", "assembling") and newest.target != NATIVE:
        yield piece(f"run {newest.run}", "muted", 2)
        yield piece(f"◐ {format_progress(newest)}{_seconds(elapsed.phase)}", "running")
    elif newest.complete and newest.trace:
        yield piece(newest.trace, "title")
        yield piece("● trace", "ok")
    elif newest.complete and not (newest.phase in _AFTER_COMPILE and elapsed.phase >= SHOWN_FROM_S):
        yield piece(f"run {newest.run}", "muted")
        yield piece("● live", "ok")
    elif newest.trace:
        yield piece(newest.trace, "title")
        phase = f"◐ {describe_phase(newest)}{_seconds(elapsed.phase)}" if newest.phase else "◉ following"
        yield piece(phase, "running")
    else:
        yield piece(newest.trace or f"run {newest.run}", "muted", 2)
        yield from _phases(session, newest, elapsed)


def _phases(session: Session, newest: Snapshot, elapsed: Elapsed) -> Iterator[Piece]:
    """Yield the phases of a run so far, the current one with its time in the last complete run."""
    if elapsed.run < SHOWN_FROM_S:
        yield piece(f"◐ {describe_phase(newest)}", "running")
        return
    seconds: dict[str, float] = dict(newest.phase_seconds)
    for phase, spent in seconds.items():
        if phase != newest.phase and spent >= _LEAST_S:
            yield piece(f"{PHASES.get(phase, phase)} {spent:.1f}", "muted", 6)
    earlier = session.last_complete_before(newest)
    expected: dict[str, float] = dict(earlier.phase_seconds) if earlier is not None else {}
    spent, estimate = seconds.get(newest.phase, 0.0) + elapsed.phase, expected.get(newest.phase, 0.0)
    of = f" of ~{estimate:.1f}" if estimate >= _LEAST_S else ""
    yield piece(f"◐ {describe_phase(newest)} {spent:.1f}{of} s", "running")


def _seconds(seconds: float) -> str:
    return f" {seconds:.1f} s" if seconds >= SHOWN_FROM_S else ""
