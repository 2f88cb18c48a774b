"""The content of trace files: mapped a few at a time, and unpacked within limits, also of archives and URLs."""

from __future__ import annotations

import bz2
import errno
import gzip
import importlib
import io
import lzma
import mmap as mmap_module
import os
import queue
import shutil
import tarfile
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from mmap import ACCESS_READ, mmap
from typing import IO, Any, ClassVar, TypeVar

from tcexplore.events import clean

MOST_MAPPED = 64
"""Files that are mapped at a time: each mapped one is an open one, and a job may have thousands of ranks."""

LARGEST_UNPACKED = 1_000_000_000
"""Bytes that one call unpacks or downloads, in all."""

MOST_MEMBERS = 100_000
"""Members of an archive, traces or not, that are looked at."""

MOST_READ = 10 * LARGEST_UNPACKED
"""Bytes of an archive that are looked at, with all of its members."""

LARGEST_HEADER = 1 << 20
"""Bytes of the longest name in an archive, which is read into memory."""

XZ_MEMORY = 256 << 20
"""Bytes that an .xz file may claim for its dictionary."""

STALL_S = 10.0
"""Seconds without a byte after which a URL is given up."""

SAY_S = 2.0
"""Seconds between two messages about the progress."""

_CHUNK = 1 << 18
_MOST_ENDS = 16
"""Reads at the end of an archive; tarfile makes a few."""
_QUEUED = 16
"""Chunks that wait to be written: a download is not faster than the disk."""

Say = Callable[[str], None]
"""Shows what is under way."""

Result = TypeVar("Result")


class InputError(Exception):
    """A path cannot be read; the message is for the user."""


def silent(_: str) -> None:
    """Show no progress."""


# ---- content


class TraceContent:
    """A part of a file, mapped while it is used."""

    _mapped: ClassVar[deque[TraceContent]] = deque()
    """The parts that are mapped now, in the order of their mapping."""

    def __init__(self, name: str, source: str | _ScratchFile, start: int, size: int) -> None:
        """`source` is a path, or an open file without one."""
        self._name = name
        self._source = source
        self._start = start
        self.size = size
        self._map: mmap | None = None

    def buffer(self) -> mmap | bytes:
        """Return the content, which is mapped if it is not now. Raises `InputError`."""
        known = self._map
        if known is not None:
            return known
        if not self.size:
            return b""
        try:
            if isinstance(self._source, str):
                with open(self._source, "rb") as file:
                    self._map = self._mapping(file.fileno())
            else:
                self._map = self._mapping(self._source.fileno())
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise InputError(f"{self._name}: {reason.lower()}") from None
        mapped = self._map
        self._mapped.append(self)
        while len(self._mapped) > MOST_MAPPED:
            self._mapped.popleft()._map = None  # unmapped once nobody uses it any more
        return mapped

    def _mapping(self, descriptor: int) -> mmap:
        return mmap(descriptor, self.size, access=ACCESS_READ, offset=self._start)


def file_content(path: str) -> TraceContent:
    """Return the content of a local file. Raises `InputError`."""
    shown = clean(path)
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            data = _end_of_data(file.fileno(), size)
    except OSError as error:
        raise InputError(f"{shown}: {(error.strerror or str(error)).lower()}") from None
    if data < size:
        raise InputError(f"{shown} has a hole from byte {data:,} to {size:,}, which no trace has: it is not read")
    return TraceContent(shown, path, 0, size)


def _end_of_data(descriptor: int, size: int) -> int:
    """Return where the first hole of a file begins; its size if it has none, or if the system does not tell."""
    try:
        return os.lseek(descriptor, 0, os.SEEK_HOLE) if size else 0
    except (OSError, AttributeError):
        return size


class _ScratchFile:
    """A temporary file without a name, which is closed once no content is in it."""

    def __init__(self) -> None:
        self.descriptor, path = tempfile.mkstemp(prefix="tcexplore-")
        os.unlink(path)

    def __del__(self) -> None:
        with suppress(AttributeError, OSError):
            os.close(self.descriptor)

    def fileno(self) -> int:
        return self.descriptor


class Scratch:
    """One temporary file for all that a call unpacks or downloads, within a limit on its bytes."""

    def __init__(self, say: Say = silent, limit: int | None = None) -> None:
        self._say = say
        self.left = LARGEST_UNPACKED if limit is None else limit
        """Bytes that may still be written."""
        self._file: _ScratchFile | None = None
        self._end = 0
        """Bytes of the file."""
        self._said = time.monotonic()

    def copy(self, name: str, read: Callable[[int], bytes], expected: int = 0) -> TraceContent:
        """Return a copy of a stream; one that is damaged is copied as far as it goes. Raises `InputError`.

        `expected` is the size that its archive claims.
        """
        self.require(name, expected)
        try:
            self._file = self._file or _ScratchFile()
            start = -(-self._end // mmap_module.ALLOCATIONGRANULARITY) * mmap_module.ALLOCATIONGRANULARITY
            size = self._copy(name, read, start)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                raise
            raise InputError(f"{name}: {_no_space()}") from None
        return TraceContent(name, self._file, start, size)

    def _copy(self, name: str, read: Callable[[int], bytes], start: int) -> int:
        assert self._file is not None
        size = 0
        while True:
            try:
                chunk = read(_CHUNK)
            except InputError:
                raise
            except Exception:
                if not size:
                    raise
                return size
            if not chunk:
                return size
            self.left -= len(chunk)
            if self.left < 0:
                raise InputError(f"{name}: {_too_large()}")
            view = memoryview(chunk)
            while view:
                written = os.pwrite(self._file.descriptor, view, start + size)
                view, size = view[written:], size + written
            self._end = start + size
            self.progress(f"{name}: {size / 1e6:,.0f} MB read")

    def require(self, name: str, size: int) -> None:
        """Refuse so many bytes before any are written, if they exceed the limit or the disk. Raises `InputError`."""
        if size > self.left:
            raise InputError(f"{name}: {size / 1e9:,.1f} GB; {_too_large()}")
        with suppress(OSError):
            if size > shutil.disk_usage(tempfile.gettempdir()).free:
                raise InputError(f"{name}: {size / 1e9:,.1f} GB; {_no_space()}")

    def progress(self, text: str) -> None:
        """Show what is under way, from time to time."""
        if time.monotonic() - self._said > SAY_S:
            self._said = time.monotonic()
            self._say(text)


def _too_large() -> str:
    return f"at most {LARGEST_UNPACKED / 1e9:g} GB are unpacked or downloaded; unpack it yourself, and open its folder"


def _no_space() -> str:
    return f"no space left in {tempfile.gettempdir()}; TMPDIR names another folder"


# ---- compression


class _XzStream(io.RawIOBase):
    """An .xz stream whose memory is limited; `lzma.open` takes as much as the file claims."""

    def __init__(self, source: IO[bytes]) -> None:
        self._source = source
        self._decoder = lzma.LZMADecompressor(memlimit=XZ_MEMORY)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while True:
            if self._decoder.eof:  # several streams may follow each other
                rest = self._decoder.unused_data.lstrip(b"\0") or self._source.read(_CHUNK)
                if not rest:
                    return 0
                self._decoder = lzma.LZMADecompressor(memlimit=XZ_MEMORY)
            elif self._decoder.needs_input:
                rest = self._source.read(_CHUNK)
                if not rest:
                    raise EOFError("it ends too early")
            else:
                rest = b""
            data = self._decoder.decompress(rest, len(buffer))
            if data:
                buffer[: len(data)] = data
                return len(data)


def decompressed(name: str, buffered: io.BufferedReader) -> IO[bytes]:
    """Return the content of a stream, decompressed if its first bytes are those of a compression."""
    start = buffered.peek(6)[:6]
    if start.startswith(b"\x1f\x8b"):
        return gzip.GzipFile(fileobj=buffered)  # type: ignore[return-value]
    if start.startswith(b"BZh"):
        return bz2.BZ2File(buffered)
    if start.startswith(b"\xfd7zXZ\0"):
        return io.BufferedReader(_XzStream(buffered))
    if start.startswith(b"\x28\xb5\x2f\xfd"):
        return _open_zstd(name, buffered)
    return buffered


def _open_zstd(name: str, source: IO[bytes]) -> IO[bytes]:
    """The standard library reads zstd from Python 3.14 on, the package `zstandard` before."""
    for module_name in ("compression.zstd", "zstandard"):
        try:
            module = importlib.import_module(module_name)
        except ImportError:
            continue
        stream: IO[bytes] = module.open(source, "rb")
        return stream
    raise InputError(f"{name}: .zst needs Python 3.14 or the package zstandard (pip install zstandard)")


def unpacked(name: str, source: io.BufferedReader, scratch: Scratch) -> TraceContent:
    """Return the content of one file that is compressed or not. Raises `InputError`."""
    try:
        stream = decompressed(name, source)
        return scratch.copy(name, getattr(stream, "read1", stream.read))
    except InputError:
        raise
    except Exception as error:  # noqa: BLE001  each compression has its own errors for a damaged file
        raise InputError(f"{name} cannot be decompressed: {_reason(error)}") from None


# ---- archives


class _LimitedHeader(tarfile.TarInfo):
    """A header of an archive; a name that is read into memory is limited."""

    def _proc_member(self, archive: tarfile.TarFile) -> Any:
        long = (tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK, tarfile.XHDTYPE, tarfile.XGLTYPE,
                tarfile.SOLARIS_XHDTYPE)  # fmt: skip
        if self.type in long and self.size > LARGEST_HEADER:
            raise InputError(f"a name in it has {self.size:,} bytes")
        return super()._proc_member(archive)  # type: ignore[misc]


class _ArchiveStream:
    """The bytes of an archive, of which all members count, traces or not. Its end is an error when passed repeatedly.

    tarfile seeks by reading: a member that claims 1 TB would be a hundred million reads at the end of the stream.
    """

    def __init__(self, name: str, stream: IO[bytes], scratch: Scratch) -> None:
        self._name, self._stream, self._scratch = name, stream, scratch
        self._bytes = self._ends = 0

    def read(self, size: int) -> bytes:
        data = self._stream.read(size)
        self._bytes += len(data)
        self._ends += not data
        if self._ends > _MOST_ENDS:
            raise EOFError("it ends too early")
        if self._bytes > MOST_READ:
            raise InputError(f"it has more than {MOST_READ / 1e9:g} GB")
        self._scratch.progress(f"{self._name}: {self._bytes / 1e6:,.0f} MB read")
        return data


Members = list[tuple[str, "TraceContent | InputError"]]
"""The name of each trace in an archive, and its content or why it was not read."""


def archive_members(
    name: str, source: io.BufferedReader, wanted: Callable[[str], bool], most: int, scratch: Scratch
) -> Members:
    """Return the traces in an archive, in one pass. Raises `InputError` if there are none."""
    members: Members = []
    try:
        stream: Any = _ArchiveStream(name, decompressed(name, source), scratch)
        with tarfile.open(fileobj=stream, mode="r|", tarinfo=_LimitedHeader) as archive:
            for number, member in enumerate(archive):
                archive.members.clear()  # type: ignore[attr-defined]  # it keeps all of them
                if number >= MOST_MEMBERS:
                    raise InputError(f"it has more than {MOST_MEMBERS:,} members")
                if not (member.isfile() and wanted(member.name)):
                    continue
                if len(members) >= most:
                    raise InputError(f"it holds more than {most:,} traces")
                members.append((member.name, _member(f"{name}/{clean(member.name)}", archive, member, scratch)))
    except Exception as error:  # noqa: BLE001  each compression has its own errors for a damaged file
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            raise InputError(f"{name}: {_no_space()}") from None
        problem = InputError(f"{name} is not a readable archive: {_reason(error)}")
        if isinstance(error, InputError) and str(error).startswith(name):
            problem = error
        if not members:
            raise problem from None
        members.append(("", problem))
    if not members:
        raise InputError(f"{name} holds no trace files")
    return members


def _member(
    name: str, archive: tarfile.TarFile, member: tarfile.TarInfo, scratch: Scratch
) -> TraceContent | InputError:
    try:
        scratch.require(name, member.size)
        stream = archive.extractfile(member)
        assert stream is not None, "it is a file"
        content = scratch.copy(name, stream.read, member.size)
    except InputError as error:
        return error
    except Exception as error:  # noqa: BLE001  each compression has its own errors for a damaged file
        return InputError(f"{name} cannot be read: {_reason(error)}")
    if content.size < member.size:
        return InputError(f"{name}: only {content.size:,} of its {member.size:,} bytes are in the archive")
    return content


def _reason(error: Exception) -> str:
    return clean(str(error).partition("\n")[0].rstrip(":")) or type(error).__name__


# ---- URLs


def in_time(name: str, call: Callable[[], Result], scratch: Scratch) -> Result:
    """Return what a call of a remote file system returns, unless that takes longer than `STALL_S`.

    The call runs in a thread that nobody waits for: no file system of fsspec can be interrupted.
    """
    results: queue.SimpleQueue[tuple[Any, BaseException | None]] = queue.SimpleQueue()

    def run() -> None:
        try:
            results.put((call(), None))
        except BaseException as error:  # noqa: BLE001  raised in the thread that waits
            results.put((None, error))

    threading.Thread(target=run, name="remote files", daemon=True).start()
    result, error = _next(name, results, scratch)
    if error is not None:
        raise error
    returned: Result = result
    return returned


def _next(name: str, results: Any, scratch: Scratch) -> Any:
    """Return the next item of a queue. Raises `InputError` after `STALL_S`."""
    deadline = time.monotonic() + STALL_S
    while (left := deadline - time.monotonic()) > 0:
        with suppress(queue.Empty):
            return results.get(timeout=min(left, SAY_S))
        scratch.progress(f"{name}: waiting for an answer")
    raise InputError(f"{name} sent nothing for {STALL_S:g} s")


class RemoteStream(io.RawIOBase):
    """Reads a remote file in a thread, so that a stalled one can be given up, and Ctrl-C ends the wait."""

    def __init__(self, name: str, system: Any, path: str, scratch: Scratch) -> None:
        self._name = name
        self._scratch = scratch
        self._chunks: queue.Queue[bytes | BaseException] = queue.Queue(_QUEUED)
        self._closed = threading.Event()
        self._rest = b""
        self._ended = False
        threading.Thread(target=self._read, args=(system, path), name="remote file", daemon=True).start()

    def _read(self, system: Any, path: str) -> None:
        try:
            with system.open(path, "rb") as stream:
                while not self._closed.is_set():
                    chunk: bytes = stream.read(_CHUNK)
                    self._put(chunk)
                    if not chunk:
                        return
        except BaseException as error:  # noqa: BLE001  raised in the thread that reads
            self._put(error)

    def _put(self, item: bytes | BaseException) -> None:
        while not self._closed.is_set():
            with suppress(queue.Full):
                self._chunks.put(item, timeout=1.0)
                return

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._rest and not self._ended:
            item = _next(self._name, self._chunks, self._scratch)
            if isinstance(item, BaseException):
                raise item
            self._rest, self._ended = item, not item
        size = min(len(buffer), len(self._rest))
        buffer[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        return size

    def close(self) -> None:
        """Stop reading; the thread ends once its current read returns."""
        self._closed.set()
        super().close()
