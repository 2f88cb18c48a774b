"""The trace files behind paths: files, folders, compressed files, archives, URLs."""

from __future__ import annotations

import errno
import importlib
import io
import os
import re
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tcexplore.events import clean
from tcexplore.traces.record_index import Buffer
from tcexplore.traces.trace_content import (
    InputError,
    RemoteStream,
    Say,
    Scratch,
    TraceContent,
    archive_members,
    file_content,
    in_time,
    silent,
    unpacked,
)

MOST_FILES = 4096
"""Files of one folder or archive that are opened; the rest are counted in a message."""

_EMPTY_ARCHIVE = 64
"""Bytes of the largest compressed file without content."""

_URL = re.compile(r"^[a-z][a-z0-9+.-]+://")
_RANK = re.compile(r"_rank_(\d{1,5})_")
_ARCHIVE = (".tar", ".tgz", ".tar.gz", ".tar.xz", ".tar.bz2", ".tar.zst")
_COMPRESSED = (".gz", ".zst", ".xz", ".bz2")
_TRACE_NAME = re.compile(r"\.(?:log|gz|zst|tgz|tar|txt|xz|bz2)$|torch_trace")


@dataclass(slots=True)
class TraceInput:
    """One trace file."""

    name: str
    """Path for the user; inside an archive, the archive's path and the member's."""
    open: Callable[[], Buffer | TraceContent]
    """Returns the content. Raises `InputError`."""
    path: str = ""
    """Path of an uncompressed local file, which may grow; empty for any other."""

    @property
    def named_rank(self) -> int | None:
        """Rank in the file's name."""
        match = _RANK.search(os.path.basename(self.name))
        return int(match[1]) if match else None

    @property
    def folder(self) -> str:
        """Name of the folder that holds the file."""
        return os.path.basename(os.path.dirname(os.path.abspath(self.name)))


@dataclass(slots=True)
class Inputs:
    """Trace files, and a message for each path that is unreadable."""

    files: list[TraceInput] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    unread: int = 0
    """Paths that exist but were not read."""


def trace_inputs(paths: Sequence[str], say: Say = silent) -> Inputs:
    """Return the trace files behind paths. `say` shows the progress of what takes long."""
    inputs, scratch = Inputs(), Scratch(say)
    for path in dict.fromkeys(paths):
        local = path.removeprefix("file://") if path.startswith("file:///") else path
        try:
            if _URL.match(local):
                inputs.files += _remote(local, scratch)
            else:
                _add_local(os.path.expanduser(local), inputs, scratch)
        except InputError as error:
            inputs.problems.append(str(error))
            inputs.unread += 1
    return inputs


def _add_local(path: str, inputs: Inputs, scratch: Scratch) -> None:
    shown = clean(path)
    if not os.path.lexists(path):
        raise InputError(f"{shown} does not exist")
    if not os.path.isdir(path):
        inputs.files += _file(path, scratch)
        return
    try:
        names = sorted((entry.name for entry in os.scandir(path) if _is_trace(entry)), key=by_rank)
    except OSError as error:
        raise InputError(f"{shown}: {(error.strerror or str(error)).lower()}") from None
    if not names:
        raise InputError(f"{shown} holds no trace files; TORCH_TRACE={shown} makes torch write them")
    if len(names) > MOST_FILES:
        inputs.problems.append(f"{shown} holds {len(names):,} files; the first {MOST_FILES:,} are read")
    for name in names[:MOST_FILES]:
        try:
            inputs.files += _file(os.path.join(path, name), scratch)
        except InputError as error:
            inputs.problems.append(str(error))
            inputs.unread += 1


def _is_trace(entry: os.DirEntry[str]) -> bool:
    """Return whether an entry of a folder is a trace file, or a link that leads nowhere: that is a problem to name."""
    if not _TRACE_NAME.search(entry.name):
        return False
    try:
        return entry.is_file() or (entry.is_symlink() and not os.path.exists(entry.path))
    except OSError:  # a link to itself
        return True


def by_rank(name: str) -> tuple[int, str]:
    """Return the key that sorts names of files by the rank in them."""
    rank = _RANK.search(name)
    return int(rank[1]) if rank else -1, name


def _file(path: str, scratch: Scratch) -> list[TraceInput]:
    """Return the trace files in one local file."""
    shown = clean(path)
    try:
        mode = os.stat(path).st_mode
    except OSError as error:
        if os.path.islink(path):
            why = "to itself" if error.errno == errno.ELOOP else "to a file that does not exist"
            raise InputError(f"{shown} is a link {why}") from None
        raise InputError(f"{shown}: {(error.strerror or str(error)).lower()}") from None
    if not stat.S_ISREG(mode):
        raise InputError(f"{shown} is not a regular file")
    if not os.access(path, os.R_OK):
        raise InputError(f"{shown}: permission denied")
    if path.endswith(_ARCHIVE):
        with open_local(path, shown) as file:
            return _members(shown, file, scratch)
    if path.endswith(_COMPRESSED):
        return [TraceInput(shown, lambda: _unpacked(path, shown, scratch))]
    return [TraceInput(shown, lambda: file_content(path), path)]


def _unpacked(path: str, shown: str, scratch: Scratch) -> TraceContent:
    with open_local(path, shown) as file:
        content = unpacked(shown, file, scratch)
    if not content.size and os.path.getsize(path) > _EMPTY_ARCHIVE:
        raise InputError(f"{shown} cannot be decompressed: it ends too early")
    return content


def _members(shown: str, file: io.BufferedReader, scratch: Scratch) -> list[TraceInput]:
    """Return the trace files in an archive, which is read once."""
    members = archive_members(shown, file, lambda name: bool(_TRACE_NAME.search(name)), MOST_FILES, scratch)
    return [TraceInput(f"{shown}/{clean(name)}" if name else shown, _opener(content)) for name, content in members]


def _opener(content: TraceContent | InputError) -> Callable[[], TraceContent]:
    def read() -> TraceContent:
        if isinstance(content, InputError):
            raise content
        return content

    return read


def _remote(url: str, scratch: Scratch) -> list[TraceInput]:
    """Return the trace files behind a URL, a file or a folder of any file system of fsspec."""
    shown = clean(url)
    try:
        fsspec: Any = importlib.import_module("fsspec")
    except ImportError:
        raise InputError(f"{shown}: a URL needs the package fsspec (pip install fsspec)") from None
    try:
        system, paths = in_time(shown, lambda: _remote_paths(fsspec, url), scratch)
    except InputError:
        raise
    except Exception as error:  # noqa: BLE001  every file system of fsspec raises its own errors
        raise InputError(f"{shown} cannot be read: {clean(str(error) or type(error).__name__)}") from None
    if not paths:
        raise InputError(f"{shown} holds no trace files")
    scheme = url.partition("://")[0]
    inputs: list[TraceInput] = []
    for name in paths[:MOST_FILES]:
        shown = clean(name if "://" in name else f"{scheme}://{name}")
        if name.endswith(_ARCHIVE):
            with _stream(system, name, shown, scratch) as stream:
                inputs += _members(shown, stream, scratch)
        else:
            inputs.append(TraceInput(shown, _remote_opener(system, name, shown, scratch)))
    return inputs


def _remote_paths(fsspec: Any, url: str) -> tuple[Any, list[str]]:
    """Return the file system of a URL, and the files in it that the URL names."""
    system, path = fsspec.core.url_to_fs(url)
    if "file" in (system.protocol if isinstance(system.protocol, tuple) else (system.protocol,)):
        raise InputError(f"{clean(url)} is a local file: give its path")
    if system.isdir(path):
        return system, sorted(str(name) for name in system.ls(path, detail=False) if _TRACE_NAME.search(str(name)))
    return system, [path] if system.exists(path) else []


def _remote_opener(system: Any, path: str, shown: str, scratch: Scratch) -> Callable[[], TraceContent]:
    def read() -> TraceContent:
        with _stream(system, path, shown, scratch) as stream:
            return unpacked(shown, stream, scratch)

    return read


@contextmanager
def _stream(system: Any, path: str, shown: str, scratch: Scratch) -> Iterator[io.BufferedReader]:
    raw: Any = RemoteStream(shown, system, path, scratch)
    with io.BufferedReader(raw) as stream:
        yield stream


@contextmanager
def open_local(path: str, shown: str) -> Iterator[io.BufferedReader]:
    """Open a local file. Raises `InputError`."""
    try:
        file = open(path, "rb")  # noqa: SIM115  closed below
    except OSError as error:
        raise InputError(f"{shown}: {(error.strerror or str(error)).lower()}") from None
    with file:
        yield file
