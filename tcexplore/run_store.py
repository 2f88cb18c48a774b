"""Runs on disk, so that the history of a model file survives the end of the app.

Each run is one file: a line of JSON with its figures, then the compressed JSON of its snapshot. A file has a unique
name, is written once and atomically, and only the user can read it. So several apps on one model file share its
history.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import time
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from tcexplore import files
from tcexplore.events.base import PROTOCOL
from tcexplore.events.codec import HEADER, LARGEST, ProtocolError, decode, encode
from tcexplore.session.history import RunSummary, StoredRun, summarize
from tcexplore.session.snapshot import Snapshot, end_snapshot

FORMAT = 1
"""Version of the file format."""

MOST_RUNS = 50
"""Runs kept of one model file."""

MOST_BYTES = 32 << 20
"""Bytes kept of one model file."""

MOST_BYTES_IN_ALL = 256 << 20
"""Bytes kept of all model files."""

MOST_HEAD = 1 << 16
"""Maximum bytes of the line with the figures."""

SUFFIX = ".run"


class UnreadableRunError(Exception):
    """A file is damaged, or from another version of tcexplore; the message says which."""


@dataclass(frozen=True, slots=True)
class StoredRuns:
    """The runs of a model file, oldest first."""

    runs: tuple[StoredRun, ...]
    unreadable: int
    """Files that are damaged or from another version."""


def history_folder() -> Path:
    """Return the folder for the runs of all model files, in the user's folder for state."""
    from platformdirs import user_state_path

    return user_state_path("tcexplore", appauthor=False) / "history"


class RunStore:
    """The stored runs of one model file, in a folder below `root`."""

    def __init__(self, file: str, root: Path) -> None:
        self._root = root
        real = os.path.realpath(file)
        self._folder = root / hashlib.sha256(os.fsencode(real)).hexdigest()[:24]

    def runs(self) -> StoredRuns:
        """Return the figures of all runs; their numbers are negative."""
        heads, unreadable = [], 0
        for path in sorted(_run_files(self._folder)):
            try:
                heads.append((path, *_head(path)))
            except UnreadableRunError:
                unreadable += 1
        times = _time_texts([began for _, began, _ in heads])
        runs = [
            StoredRun(number - len(heads), replace(summary, run=number - len(heads), past=past), str(path))
            for number, ((path, _, summary), past) in enumerate(zip(heads, times, strict=True))
        ]
        return StoredRuns(tuple(runs), unreadable)

    def write(self, snapshot: Snapshot, earlier: Path | None = None) -> Path | None:
        """Store a run as if it were over, and remove the oldest files beyond the limits.

        Return the file, which takes the place of an `earlier` one of the same run; None if the run is too large. Raise
        `NotWrittenError` if nothing can be written.
        """
        snapshot = end_snapshot(snapshot)
        began = snapshot.began or time.time()
        head = {
            "format": FORMAT, "protocol": PROTOCOL, "began": began,
            "summary": json.loads(encode(summarize(snapshot))[HEADER.size :]),
        }  # fmt: skip
        body = zlib.compress(encode(snapshot)[HEADER.size :], 1)
        if len(body) > MOST_BYTES // 4:
            return None  # it would displace the others
        files.private_folder(self._root)
        files.private_folder(self._folder)
        name = f"{round(began * 1000):014d}-{secrets.token_hex(4)}{SUFFIX}"
        path = files.create(self._folder / name, json.dumps(head).encode() + b"\n" + body, private=True)
        if earlier is not None:
            earlier.unlink(missing_ok=True)
        _remove_oldest(list(_run_files(self._folder)), MOST_RUNS, MOST_BYTES)
        _remove_oldest(stored_files(self._root), None, MOST_BYTES_IN_ALL)
        return path


def read_run(stored: StoredRun) -> Snapshot:
    """Return the snapshot of a stored run, with its number in the session."""
    try:
        data = files.read(stored.file).partition(b"\n")[2]
    except files.NotWrittenError as error:
        raise UnreadableRunError(str(error)) from None
    unpacker = zlib.decompressobj()
    try:
        body = unpacker.decompress(data, LARGEST)
        if not unpacker.eof:
            raise UnreadableRunError("its file is damaged")
        snapshot: Snapshot = decode(body, {"Snapshot": Snapshot})
    except (zlib.error, ProtocolError, ValueError, TypeError, RecursionError):
        raise UnreadableRunError("its file is damaged, or from another version of tcexplore") from None
    return replace(snapshot, run=stored.run, past=stored.summary.past)


def _head(path: Path) -> tuple[float, RunSummary]:
    """Return when a run began, and its figures."""
    try:
        with path.open("rb") as opened:
            head = json.loads(opened.readline(MOST_HEAD))
        if head["format"] != FORMAT or head["protocol"] != PROTOCOL:
            raise UnreadableRunError("its file is from another version of tcexplore")
        summary: RunSummary = decode(json.dumps(head["summary"]).encode(), {"RunSummary": RunSummary})
        datetime.fromtimestamp(float(head["began"]))
        return float(head["began"]), summary
    except (OSError, ValueError, TypeError, KeyError, OverflowError, RecursionError, ProtocolError) as error:
        raise UnreadableRunError("its file is damaged") from error


def _time_texts(times: list[float], now: float | None = None) -> list[str]:
    """Return times such as `17:32`, `Sat 17:32` or `Nov 12 17:32`; with seconds if another has the same minute."""
    today = datetime.fromtimestamp(time.time() if now is None else now).date()
    texts: list[str] = []
    for moment in map(datetime.fromtimestamp, times):
        days = (today - moment.date()).days
        day = "" if days == 0 else f"{moment:%a} " if 0 < days < 7 else f"{moment:%b} {moment.day} "
        if days > 300:
            day = f"{moment:%Y-%m-%d} "
        text = f"{day}{moment:%H:%M}"
        texts.append(f"{day}{moment:%H:%M:%S}" if text in texts else text)
    return texts


def stored_files(root: Path) -> list[Path]:
    """Return the files of all runs of all model files."""
    return [path for folder in _entries(root) for path in _run_files(folder)]


def _entries(folder: Path) -> list[Path]:
    with suppress(OSError):
        return list(folder.iterdir())
    return []


def _run_files(folder: Path) -> Iterator[Path]:
    return (path for path in _entries(folder) if path.suffix == SUFFIX and path.is_file() and not path.is_symlink())


def _remove_oldest(paths: list[Path], most_runs: int | None, most_bytes: int) -> None:
    """Remove the oldest files beyond the limits; another app may remove them at the same time."""
    room = most_bytes
    for number, path in enumerate(sorted(paths, key=lambda path: path.name, reverse=True)):
        with suppress(OSError):
            room -= path.stat().st_size
            if room < 0 or (most_runs is not None and number >= most_runs):
                path.unlink()
