"""The lines of the user's files, as far as a run knows them."""

from __future__ import annotations

from tcexplore.session import Snapshot


def read_lines(snapshot: Snapshot, file: str) -> dict[int, str]:
    """By number, the lines of a file: whole where it was read, else those that a break or a guard quotes."""
    if file == snapshot.file:
        return dict(enumerate(snapshot.source.split("\n"), 1))
    read = next((source.text for source in snapshot.sources if source.file == file), None)
    return _quoted(snapshot, file) if read is None else dict(enumerate(read.splitlines(), 1))


def _quoted(snapshot: Snapshot, file: str) -> dict[int, str]:
    """The text of lines that a break or a guard quotes."""
    breaks = ((found.location, found.code) for found in snapshot.breaks)
    guards = ((guard.location, guard.user_code) for installed in snapshot.guards for guard in installed.guards)
    return {at.line: text for at, text in (*breaks, *guards) if at and at.file == file and text}
