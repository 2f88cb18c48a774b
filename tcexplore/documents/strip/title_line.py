"""The first line of the screen: the file, the machine, the configuration, the run in progress or in view."""

from __future__ import annotations

from collections.abc import Iterator

from tcexplore.documents.code.target_notes import format_progress
from tcexplore.documents.configurations import format_configuration
from tcexplore.documents.document import Row
from tcexplore.documents.empty_states import describe_phase
from tcexplore.documents.fitted_row import Piece, fitted, piece
from tcexplore.documents.locations import display_path
from tcexplore.events import Standby
from tcexplore.session import Session, Snapshot
from tcexplore.session.code import NATIVE


def title_row(session: Session, standby: Standby | None, now: float, width: int) -> Row:
    """Return the line, `width` columns wide; `now` is how many seconds the newest run has taken."""
    newest = session.newest
    if newest is None:
        return fitted([piece(" tcexplore", "title"), piece("starting", "muted")], width)
    file = display_path(newest.file)
    name = f"{file}:{newest.entry.name}" if newest.entry and newest.entry.name else file
    left = [piece(" tcexplore", "muted", 5), piece(name if width >= 60 else name.rpartition("/")[2], "title")]
    left += [*_machine(standby, newest), *_configuration(session.shown or newest)]
    return fitted(left, width - 1, list(_run(session, newest, now)))


def _configuration(seen: Snapshot) -> Iterator[Piece]:
    yield piece(format_configuration(seen.config), "muted", 3)
    if seen.target != NATIVE:
        yield piece(f"code for {seen.target}", "title", 1)


def _machine(standby: Standby | None, newest: Snapshot) -> Iterator[Piece]:
    if standby is None:
        yield piece("loading torch", "running", 2)
        return
    device = newest.config.device or standby.device
    threads = newest.timing.threads if newest.timing else newest.config.threads
    yield piece(f"torch {standby.torch}", "muted", 4)
    yield piece(f"{device}, {threads} threads" if threads else device, "muted", 4)


def _run(session: Session, newest: Snapshot, now: float) -> Iterator[Piece]:
    """Yield which run is in view, and the phase of the newest one."""
    seen = session.shown
    if session.pinned is not None and seen is not None and seen is not newest:
        yield piece(f"run {seen.run} of {newest.run}, from history", "warn")
    elif newest.failure is not None:
        yield piece(f"run {newest.run} ✖ {newest.failure.type}", "error")
    elif newest.phase in ("switching", "lowering", "assembling") and newest.target != NATIVE:
        yield piece(f"run {newest.run}", "muted", 2)
        yield piece(f"◐ {format_progress(newest)}", "running")
    elif newest.complete:
        yield piece(f"run {newest.run}", "muted")
        yield piece("● live", "ok")
    else:
        yield piece(f"run {newest.run}", "muted", 2)
        yield piece(f"◐ {describe_phase(newest)}{f' {now:.1f} s' if now >= 1 else ''}", "running")
