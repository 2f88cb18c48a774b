"""The trace files behind paths: files, folders, compressed files, archives, URLs."""

from __future__ import annotations

import gzip
import importlib
import os
import re
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cache
from mmap import ACCESS_READ, mmap
from typing import IO, Any

from tcexplore.events import clean
from tcexplore.traces.record_index import Buffer

MOST_FILES = 4096
"""Files of one folder or archive that are opened; the rest are counted in a message."""

_EMPTY_ARCHIVE = 64
"""Bytes of the largest compressed file without content."""

_URL = re.compile(r"^[a-z][a-z0-9+.-]+://")
_RANK = re.compile(r"_rank_(\d{1,5})_")
_ARCHIVE = (".tar", ".tgz", ".tar.gz", ".tar.xz", ".tar.bz2", ".tar.zst")
_TRACE_NAME = re.compile(r"\.(?:log|gz|zst|tgz|tar|txt|xz|bz2)$|torch_trace")


class InputError(Exception):
    """A path cannot be read; the message is for the user."""


@dataclass(slots=True)
class TraceInput:
    """One trace file."""

    name: str
    """Path for the user; inside an archive, the archive's path and the member's."""
    open: Callable[[], Buffer]
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


def trace_inputs(paths: Sequence[str]) -> Inputs:
    """Return the trace files behind paths."""
    inputs = Inputs()
    for path in dict.fromkeys(paths):
        try:
            if _URL.match(path):
                inputs.files += _remote(path)
            else:
                _add_local(os.path.expanduser(path), inputs)
        except InputError as error:
            inputs.problems.append(str(error))
    return inputs


def _add_local(path: str, inputs: Inputs) -> None:
    shown = clean(path)
    if not os.path.lexists(path):
        raise InputError(f"{shown} does not exist")
    if not os.path.isdir(path):
        inputs.files += _file(path)
        return
    try:
        entries = (entry.name for entry in os.scandir(path) if entry.is_file() and _TRACE_NAME.search(entry.name))
        names = sorted(entries, key=by_rank)
    except OSError as error:
        raise InputError(f"{shown}: {(error.strerror or str(error)).lower()}") from None
    if not names:
        raise InputError(f"{shown} holds no trace files; TORCH_TRACE={shown} makes torch write them")
    if len(names) > MOST_FILES:
        inputs.problems.append(f"{shown} holds {len(names):,} files; the first {MOST_FILES:,} are read")
    for name in names[:MOST_FILES]:
        try:
            inputs.files += _file(os.path.join(path, name))
        except InputError as error:
            inputs.problems.append(str(error))


def by_rank(name: str) -> tuple[int, str]:
    """Return the key that sorts names of files by the rank in them."""
    rank = _RANK.search(name)
    return int(rank[1]) if rank else -1, name


def _file(path: str) -> list[TraceInput]:
    """Return the trace files in one local file."""
    shown = clean(path)
    if not os.path.exists(path):
        raise InputError(f"{shown} is a link to a file that does not exist")
    if not os.access(path, os.R_OK):
        raise InputError(f"{shown}: permission denied")
    if not os.path.isfile(path):
        raise InputError(f"{shown} is not a regular file")
    if path.endswith(_ARCHIVE):
        return _members(path)
    if path.endswith((".gz", ".zst", ".xz", ".bz2")):
        return [TraceInput(shown, lambda: _unpacked(path))]
    return [TraceInput(shown, lambda: mapped(path), path)]


def mapped(path: str) -> Buffer:
    """Return a file mapped into memory; an empty file cannot be mapped."""
    _allow_open_files()
    try:
        with open(path, "rb") as file:
            return mmap(file.fileno(), 0, access=ACCESS_READ) if os.fstat(file.fileno()).st_size else b""
    except OSError as error:
        raise InputError(f"{clean(path)}: {(error.strerror or str(error)).lower()}") from None


@cache
def _allow_open_files() -> None:
    """Raise the limit of open files to what the system allows: a mapped file stays open, and a job may have many."""
    try:
        resource: Any = importlib.import_module("resource")
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    except (ImportError, OSError, ValueError):
        return


def _map_copy(source: IO[bytes]) -> Buffer:
    """Copy a stream into a temporary file without a name, and map it; a damaged stream is read as far as it goes."""
    read = getattr(source, "read1", source.read)
    with tempfile.TemporaryFile() as copy:
        try:
            while chunk := read(1 << 18):
                copy.write(chunk)
        except Exception:
            if not copy.tell():
                raise
        copy.flush()
        return mmap(copy.fileno(), 0, access=ACCESS_READ) if copy.tell() else b""


def _unpacked(path: str) -> Buffer:
    try:
        with _decompressed(path) as stream:
            content = _map_copy(stream)
        if not len(content) and os.path.getsize(path) > _EMPTY_ARCHIVE:
            raise InputError(f"{clean(path)} cannot be decompressed: it ends too early")
        return content
    except InputError:
        raise
    except Exception as error:  # noqa: BLE001  each compression has its own errors for a damaged file
        raise InputError(f"{clean(path)} cannot be decompressed: {clean(str(error))}") from None


def _decompressed(path: str) -> IO[bytes]:
    if path.endswith(".zst"):
        return _open_zstd(path)
    if path.endswith(".gz"):
        return gzip.open(path, "rb")  # type: ignore[return-value]
    opener: Any = importlib.import_module("lzma" if path.endswith(".xz") else "bz2")
    stream: IO[bytes] = opener.open(path, "rb")
    return stream


def _open_zstd(path: str, source: IO[bytes] | None = None) -> IO[bytes]:
    """Open `source`, or else the file at `path`.

    The standard library reads zstd from Python 3.14 on, the package `zstandard` before.
    """
    for name in ("compression.zstd", "zstandard"):
        try:
            module = importlib.import_module(name)
        except ImportError:
            continue
        stream: IO[bytes] = module.open(source or path, "rb")
        return stream
    raise InputError(f"{clean(path)}: .zst needs Python 3.14 or the package zstandard (pip install zstandard)")


def _members(path: str) -> list[TraceInput]:
    """Return the trace files in an archive, each copied when it is opened."""
    with _archive(path) as archive:
        names = [member.name for member in archive.getmembers() if member.isfile()]
    traces = [name for name in names if _TRACE_NAME.search(name)]
    if not traces:
        raise InputError(f"{clean(path)} holds no trace files")
    copies: dict[str, Buffer] = {}

    def opener(name: str) -> Callable[[], Buffer]:
        def read() -> Buffer:
            # One pass through the archive copies all members: seeking in a compressed one would decompress it again.
            if not copies:
                with _archive(path) as archive:
                    copies.update(_copied_members(archive))
            return copies.pop(name, b"")

        return read

    return [TraceInput(f"{clean(path)}/{clean(name)}", opener(name)) for name in traces[:MOST_FILES]]


@contextmanager
def _archive(path: str, source: IO[bytes] | None = None) -> Iterator[tarfile.TarFile]:
    """Open an archive; `source` replaces the file at `path` if that is not local."""
    try:
        with ExitStack() as stack:
            file = source or stack.enter_context(open(path, "rb"))
            if path.endswith(".zst"):
                copy = stack.enter_context(tempfile.TemporaryFile())
                with _open_zstd(path, file) as stream:
                    shutil.copyfileobj(stream, copy, 1 << 20)
                copy.seek(0)
                file = copy
            yield stack.enter_context(tarfile.open(fileobj=file))
    except InputError:
        raise
    except Exception as error:  # noqa: BLE001  each compression has its own errors for a damaged file
        reason = clean(str(error).partition("\n")[0].rstrip(":"))
        raise InputError(f"{clean(path)} is not a readable archive: {reason}") from None


def _copied_members(archive: tarfile.TarFile) -> Iterator[tuple[str, Buffer]]:
    """Yield the name and the content of each trace file."""
    for member in archive:
        stream = archive.extractfile(member) if member.isfile() and _TRACE_NAME.search(member.name) else None
        if stream is not None:
            yield member.name, _map_copy(stream)


def _remote(url: str) -> list[TraceInput]:
    """Return the trace files behind a URL, a file or a folder of any file system of fsspec."""
    shown = clean(url)
    try:
        fsspec: Any = importlib.import_module("fsspec")
    except ImportError:
        raise InputError(f"{shown}: a URL needs the package fsspec (pip install fsspec)") from None
    try:
        system, path = fsspec.core.url_to_fs(url)
        if system.isdir(path):
            paths = sorted(str(name) for name in system.ls(path, detail=False) if _TRACE_NAME.search(str(name)))
        else:
            paths = [path] if system.exists(path) else []
    except Exception as error:  # noqa: BLE001  every file system of fsspec raises its own errors
        raise InputError(f"{shown} cannot be read: {clean(str(error) or type(error).__name__)}") from None
    if not paths:
        raise InputError(f"{shown} holds no trace files")
    scheme = url.partition("://")[0]
    inputs: list[TraceInput] = []
    for name in paths[:MOST_FILES]:
        shown = clean(name if "://" in name else f"{scheme}://{name}")
        if name.endswith(_ARCHIVE):
            inputs += _remote_members(system, name, shown)
        else:
            inputs.append(TraceInput(shown, _remote_opener(system, name)))
    return inputs


def _remote_members(system: Any, path: str, shown: str) -> list[TraceInput]:
    """Return the trace files in an archive behind a URL, which is read once."""
    try:
        with tempfile.TemporaryFile() as copy:
            with system.open(path, "rb") as stream:
                shutil.copyfileobj(stream, copy, 1 << 20)
            copy.seek(0)
            with _archive(path, copy) as archive:
                contents = list(_copied_members(archive))
    except InputError:
        raise
    except Exception as error:  # noqa: BLE001  every file system of fsspec raises its own errors
        raise InputError(f"{shown} cannot be read: {clean(str(error) or type(error).__name__)}") from None
    if not contents:
        raise InputError(f"{shown} holds no trace files")

    def opener(content: Buffer) -> Callable[[], Buffer]:
        return lambda: content

    return [TraceInput(f"{shown}/{clean(name)}", opener(content)) for name, content in contents[:MOST_FILES]]


def _remote_opener(system: Any, path: str) -> Callable[[], Buffer]:
    def read() -> Buffer:
        try:
            with system.open(path, "rb", compression="infer") as stream:
                return _map_copy(stream)
        except Exception as error:  # noqa: BLE001  every file system of fsspec raises its own errors
            raise InputError(f"{clean(path)} cannot be read: {clean(str(error) or type(error).__name__)}") from None

    return read
