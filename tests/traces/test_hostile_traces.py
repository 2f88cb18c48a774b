"""Archives, traces and URLs that would cost memory, disk or time, or give a wrong verdict."""

from __future__ import annotations

import glob
import gzip
import io
import lzma
import math
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tcexplore.traces import trace_content
from tcexplore.traces.rank_comparison import compare_ranks
from tcexplore.traces.trace_inputs import trace_inputs
from tcexplore.traces.trace_job import NothingReadError, open_inputs
from tests.terminal import Terminal

GB = 10**9
MOST_DISK = GB
MOST_MEMORY = 500 << 20
MOST_S = 10.0

Make = Callable[[Path, Path], str]
"""Makes an input in a folder from the trace of a rank; returns its path or URL."""


def rank_name(rank: int) -> str:
    return f"dedicated_log_torch_trace_rank_{rank}_abcdefgh.log"


def zeros(name: str, size: int = 3 * GB // 2, *, compress: str = "gz") -> Make:
    """Return a maker of a bomb: `size` zeros in a compressed file, as equal streams: to compress one takes seconds."""

    def make(folder: Path, _: Path) -> str:
        path, block = folder / name, bytes(1 << 26)
        stream = gzip.compress(block, 1) if compress == "gz" else lzma.compress(block, preset=0)
        path.write_bytes(stream * math.ceil(size / len(block)))
        return str(path)

    return make


def streams(size: int) -> bytes:
    """Return that many zeros, a multiple of 20 MiB, as equal streams of a .gz file."""
    return gzip.compress(bytes(20 << 20), 1) * (size // (20 << 20))


def archive(name: str, add: Callable[[tarfile.TarFile, Path], None], mode: str = "w") -> Make:
    """Return a maker of an archive with members that `add` adds."""

    def make(folder: Path, trace: Path) -> str:
        fast = {"compresslevel": 1} if mode.endswith("gz") else {}
        with tarfile.open(folder / name, mode, format=tarfile.GNU_FORMAT, **fast) as file:  # type: ignore[call-overload]
            add(file, trace)
        return str(folder / name)

    return make


def claims(size: int) -> Callable[[tarfile.TarFile, Path], None]:
    """Return what adds a member that claims to be large."""

    def add(file: tarfile.TarFile, _: Path) -> None:
        member = tarfile.TarInfo(rank_name(1))
        member.size = size
        file.fileobj.write(member.tobuf(tarfile.GNU_FORMAT))

    return add


def sparse(file: tarfile.TarFile, _: Path) -> None:
    """Add a member that is one hole of 1 TB: an old GNU header with a map of its data."""
    member = tarfile.TarInfo(rank_name(1))
    member.type = tarfile.GNUTYPE_SPARSE
    header = bytearray(member.tobuf(tarfile.GNU_FORMAT))
    header[386:398], header[398:410] = b"%011o\0" % 0, b"%011o\0" % 0
    header[483:495] = b"\x80" + (10**12).to_bytes(11, "big")
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    file.fileobj.write(bytes(header))


def members(count: int) -> Callable[[tarfile.TarFile, Path], None]:
    def add(file: tarfile.TarFile, trace: Path) -> None:
        empty = tarfile.TarInfo("x").tobuf(tarfile.GNU_FORMAT) * 1000
        for _ in range(count // 1000):
            file.fileobj.write(empty)
        file.add(trace, rank_name(0))

    return add


def devices(file: tarfile.TarFile, trace: Path) -> None:
    for number, kind in enumerate((tarfile.FIFOTYPE, tarfile.CHRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE)):
        member = tarfile.TarInfo(rank_name(10 + number))
        member.type, member.linkname = kind, "/etc/passwd"
        file.addfile(member)
    file.add(trace, rank_name(0))


def damaged(file: tarfile.TarFile, trace: Path) -> None:
    """Add a whole rank and one whose data end too early."""
    file.add(trace, rank_name(0))
    claims(10**6)(file, trace)
    file.fileobj.write(b"x" * 2000)


def large_hole(folder: Path, _: Path) -> str:
    with open(folder / rank_name(0), "wb") as file:
        file.truncate(10**12)
    return str(folder)


def hole_after_a_trace(folder: Path, trace: Path) -> str:
    shutil.copy(trace, folder / rank_name(0))
    with open(folder / rank_name(0), "r+b") as file:
        file.truncate(10**12)
    return str(folder)


def large_line(folder: Path, trace: Path) -> str:
    """Make a record with a head of 300 MB and one with a payload of as much."""
    start = trace.read_bytes().split(b"\n", 1)[0].partition(b"] ")[0]
    with open(folder / rank_name(0), "wb") as file:
        file.write(trace.read_bytes())
        for first, last in (
            (b'{"artifact": {"name": "', b'"}}'),
            (b'{"dynamo_output_graph": {}, "has_payload": "0"}\n\t', b""),
        ):
            file.write(start + b"] " + first)
            for _number in range(300):
                file.write(b"x" * (1 << 20))
            file.write(last + b"\n")
    return str(folder)


def link_to_itself(folder: Path, trace: Path) -> str:
    shutil.copy(trace, folder / rank_name(0))
    os.symlink(rank_name(1), folder / rank_name(1))
    return str(folder)


def pipe(folder: Path, _: Path) -> str:
    os.mkfifo(folder / "trace.log")
    return str(folder / "trace.log")


def pipe_behind_a_url(folder: Path, trace: Path) -> str:
    return "file://" + pipe(folder, trace)


def pipe_behind_a_chain(folder: Path, trace: Path) -> str:
    return "simplecache::file://" + pipe(folder, trace)


def pipe_in_a_folder(folder: Path, trace: Path) -> str:
    shutil.copy(trace, folder / rank_name(0))
    pipe(folder, trace)
    return str(folder)


def nested(folder: Path, trace: Path) -> str:
    inner = Path(zeros("inner.log.gz", GB)(folder, trace))
    return archive("outer.tar.gz", lambda file, _: file.add(inner, "inner.log.gz"), "w:gz")(folder, trace)


def much(folder: Path, _: Path) -> str:
    """Make an archive of which each member is allowed, but not all."""
    with open(folder / "much.tar.gz", "wb") as file:
        for rank in range(5):
            member = tarfile.TarInfo(rank_name(rank))
            member.size = 380 << 20
            file.write(gzip.compress(member.tobuf(tarfile.GNU_FORMAT)) + streams(member.size))
    return str(folder / "much.tar.gz")


def long_name(folder: Path, _: Path) -> str:
    member = tarfile.TarInfo("././@LongLink")
    member.type, member.size = tarfile.GNUTYPE_LONGNAME, 2000 << 20
    path = folder / "a.tar.gz"
    path.write_bytes(gzip.compress(member.tobuf(tarfile.GNU_FORMAT)) + streams(member.size))
    return str(path)


LOCAL: dict[str, tuple[Make, str]] = {
    "a bomb": (zeros("trace.log.gz"), "at most 1 GB are unpacked"),
    "an .xz bomb": (zeros("trace.log.xz", compress="xz"), "at most 1 GB are unpacked"),
    "a bomb that is an archive": (zeros("trace.tar.gz"), "holds no trace files"),
    "a bomb in an archive": (nested, "no records"),
    "an archive of more than the limit in all": (much, "at most 1 GB are unpacked"),
    "a member that claims 1 TB": (archive("a.tar", claims(10**12)), "at most 1 GB are unpacked"),
    "a member that claims 900 MB": (archive("a.tar", claims(900_000_000)), "not a readable archive"),
    "a negative size": (archive("a.tar", claims(-1)), "is empty|is not a readable archive"),
    "a sparse member": (archive("a.tar", sparse), "at most 1 GB are unpacked"),
    "300,000 members": (archive("a.tar.gz", members(300_000), "w:gz"), "more than 100,000 members"),
    "a name of 2 GB": (long_name, "a name in it has"),
    "devices and links": (archive("a.tar", devices), ""),
    "a damaged member": (archive("a.tar", damaged), "not a readable archive"),
    "a hole of 1 TB": (large_hole, "has a hole"),
    "a hole after a trace": (hole_after_a_trace, "has a hole"),
    "records of 300 MB": (large_line, ""),
    "a link to itself": (link_to_itself, "is a link to itself"),
    "a pipe": (pipe, "is not a regular file"),
    "a pipe behind a URL": (pipe_behind_a_url, "is not a regular file"),
    "a pipe behind a chained URL": (pipe_behind_a_chain, "does not exist"),
    "a pipe in a folder": (pipe_in_a_folder, ""),
}
"""Inputs, and a part of what is messages about them; nothing if they are read."""

PROGRAM = """\
import sys, time
began = time.monotonic()
from tcexplore.cli import main
status = main(["open", sys.argv[1], "--report"])
print("FIGURES", status, time.monotonic() - began)
"""


@pytest.fixture
def trace(traces: Path) -> Path:
    """The trace of one of two ranks that compile the same."""
    return next((traces / "same").glob("*_rank_0_*"))


def own_memory(pid: int) -> int:
    """Return the bytes of a process's memory without the pages of mapped files, which the system may drop."""
    with suppress(OSError), open(f"/proc/{pid}/status", encoding="utf-8") as status:
        return next((int(line.split()[1]) << 10 for line in status if line.startswith("RssAnon")), 0)
    return 0


def disk_of(pid: int, folder: Path) -> int:
    """Return the bytes on the disk of the files below a folder, and of those that a process has deleted in it."""
    files: dict[tuple[int, int], int] = {}
    for descriptor in glob.glob(f"/proc/{pid}/fd/*"):
        with suppress(OSError):
            if os.readlink(descriptor).startswith(f"{folder}{os.sep}"):
                known = os.stat(descriptor)
                files[known.st_dev, known.st_ino] = min(known.st_size, known.st_blocks * 512)
    for path in folder.rglob("*"):
        with suppress(OSError):
            known = path.lstat()
            files[known.st_dev, known.st_ino] = min(known.st_size, known.st_blocks * 512)
    return sum(files.values())


def opened_in_a_process(target: str, folder: Path) -> tuple[int, str, int]:
    """Open a target in a process; return its status, all of its output and the bytes that it had on the disk."""
    folder.mkdir()
    most = memory = 0
    program = [sys.executable, "-c", PROGRAM, target]
    variables = {**os.environ, "TMPDIR": str(folder), "PYTHONPATH": str(Path(__file__).parents[2])}
    with subprocess.Popen(
        program, env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        reader = threading.Thread(target=lambda: texts.append(process.stdout.read()))
        texts: list[str] = []
        reader.start()
        while reader.is_alive():
            reader.join(0.02)
            memory = max(memory, own_memory(process.pid))
            most = max(most, disk_of(process.pid, folder))
    _, status, seconds = texts[0].splitlines()[-1].split()
    assert memory < MOST_MEMORY, f"{memory >> 20} MiB"
    assert float(seconds) < MOST_S or "read" in texts[0], f"{seconds} s without a word"
    return int(status), texts[0], most


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", LOCAL)
def test_a_hostile_input_costs_neither_memory_nor_disk_and_gets_no_wrong_verdict(
    name: str, trace: Path, tmp_path: Path
):
    make, reason = LOCAL[name]
    (tmp_path / "in").mkdir()
    target = make(tmp_path / "in", trace)
    status, text, disk = opened_in_a_process(target, tmp_path / "scratch")
    assert re.search(reason, text), text
    assert disk <= MOST_DISK + (1 << 20)
    assert "Traceback" not in text
    if reason:
        assert status == 2, text
        assert "MISSING RANK" not in text
        assert "IDENTICAL" not in text


def test_a_damaged_member_of_an_archive_is_named_and_the_others_are_read(trace: Path, tmp_path: Path):
    opened = open_inputs(trace_inputs([LOCAL["a damaged member"][0](tmp_path, trace)]))
    assert len(opened.jobs[0].ranks) == 1
    assert rank_name(1) in " ".join(opened.problems)
    compared = compare_ranks(opened.jobs[0], opened.problems, unread=opened.unread)
    assert compared.unread
    assert compared.divergence is None


@pytest.mark.skipif(sys.platform != "linux", reason="deleted files are found through /proc")
def test_the_disk_of_a_process_has_its_deleted_files_and_nothing_of_others(tmp_path: Path):
    scratch, other = tmp_path / "scratch", tmp_path / "other"
    scratch.mkdir()
    (scratch / "kept").write_bytes(b"x" * 8192)
    with open(scratch / "deleted", "wb") as deleted, open(other, "wb") as elsewhere:
        for file in (deleted, elsewhere):
            file.write(os.urandom(1_000_000))
            file.flush()
            os.fsync(file.fileno())
        (scratch / "deleted").unlink()
        assert 990_000 < disk_of(os.getpid(), scratch) < 1_100_000


@pytest.mark.parametrize("form", ["files", "gz", "tar", "tar.gz"])
def test_more_ranks_than_open_files_are_compared(
    form: str, traces: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(trace_content, "MOST_MAPPED", 8)  # fewer files suffice to exceed the limit
    limit = len(os.listdir("/proc/self/fd")) + trace_content.MOST_MAPPED + 30
    count = limit + 1
    text = next((traces / "same").glob("*_rank_0_*")).read_bytes()
    folder = tmp_path / "ranks"
    folder.mkdir()
    for rank in range(count):
        ranked = text.replace(b'"rank": 0', b'"rank": %d' % rank)
        path = folder / rank_name(rank)
        path.write_bytes(ranked) if form != "gz" else Path(f"{path}.gz").write_bytes(gzip.compress(ranked, 1))
    target = folder
    if form.startswith("tar"):
        target = tmp_path / f"ranks.{form}"
        with tarfile.open(target, "w:gz", compresslevel=1) if form == "tar.gz" else tarfile.open(target, "w") as packed:
            packed.add(folder, "ranks")
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limits[1]))
    try:
        opened = open_inputs(trace_inputs([str(target)]))
        ranks = opened.jobs[0].ranks
        assert (len(ranks), opened.problems) == (count, [])
        compared = compare_ranks(opened.jobs[0], opened.problems, unread=opened.unread)
        assert compared.divergence is None or compared.divergence.kind != "missing rank"
        assert [row.graphs for row in compared.rows] == [2] * count
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_a_full_disk_is_named(traces: Path, tmp_path: Path, small_disk: Path, monkeypatch: pytest.MonkeyPatch):
    """Both if the archive claims more than is free, and if its size is not known before."""
    monkeypatch.setattr(tempfile, "tempdir", str(small_disk))
    for make in (archive("a.tar", claims(50_000_000)), zeros("trace.log.gz", 50_000_000)):
        with pytest.raises(NothingReadError, match=f"no space left in {small_disk}; TMPDIR names another"):
            open_inputs(trace_inputs([make(tmp_path, next((traces / "same").iterdir()))]))


# ---- URLs


@contextmanager
def server(answer: Callable[[socket.socket], None]) -> Iterator[str]:
    """Serve each connection by `answer` in a thread; yield the address."""
    connections: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    connections.append(connection)
                    threading.Thread(target=handle, args=(connection,), daemon=True).start()

        def handle(connection: socket.socket) -> None:
            with suppress(OSError):
                connection.recv(1 << 16)
                answer(connection)

        threading.Thread(target=serve, daemon=True).start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/trace.log"
        listener.shutdown(socket.SHUT_RDWR)
    for connection in connections:
        connection.close()


def head(length: str, kind: str = "text/plain") -> bytes:
    return f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\n{length}\r\n".encode()


def never(_: socket.socket) -> None:
    threading.Event().wait(60)


def stalls(connection: socket.socket) -> None:
    connection.sendall(head("Content-Length: 100000\r\n") + b"x" * 100)
    threading.Event().wait(60)


def endless(connection: socket.socket) -> None:
    connection.sendall(head("Connection: close\r\n"))
    block = b"x" * (1 << 20)
    while True:
        connection.sendall(block)


def redirects(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 302 Found\r\nLocation: /trace.log\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
    connection.close()


def closes(connection: socket.socket) -> None:
    connection.sendall(head("Content-Length: 100000\r\n") + b"x" * 100)
    connection.close()


def nonsense(connection: socket.socket) -> None:
    connection.sendall(b"\0" * 1000)
    connection.close()


def large_head(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.sendall(b"HTTP/1.1 200 OK\r\n" + b"X: " + b"y" * (1 << 24))
    connection.close()


BOMB = gzip.compress(bytes(10_000_000)) * 200


def bomb(connection: socket.socket) -> None:
    connection.sendall(head("Connection: close\r\n") + BOMB)
    connection.close()


REMOTE: dict[str, tuple[Callable[[socket.socket], None], str]] = {
    "never answers": (never, "sent nothing for 1 s"),
    "stalls": (stalls, "sent nothing for 1 s"),
    "is endless": (endless, "at most 0.03 GB are unpacked or downloaded"),
    "redirects to itself": (redirects, ""),
    "closes too early": (closes, ""),
    "sends nonsense": (nonsense, ""),
    "sends a head of 16 MB": (large_head, ""),
    "sends a bomb": (bomb, "at most 0.03 GB are unpacked or downloaded"),
}


@pytest.mark.parametrize("name", REMOTE)
def test_a_hostile_url_is_given_up(name: str, monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("fsspec")
    pytest.importorskip("aiohttp")
    monkeypatch.setattr(trace_content, "STALL_S", 1.0)
    monkeypatch.setattr(trace_content, "LARGEST_UNPACKED", 30_000_000)
    answer, reason = REMOTE[name]
    began = time.monotonic()
    with server(answer) as url, pytest.raises(NothingReadError) as caught:
        open_inputs(trace_inputs([url]))
    assert reason in str(caught.value)
    assert time.monotonic() - began < MOST_S


def test_ctrl_c_ends_the_wait_for_a_stalled_url():
    pytest.importorskip("fsspec")
    pytest.importorskip("aiohttp")
    with server(stalls) as url, Terminal([sys.executable, "-m", "tcexplore", "open", url, "--report"]) as terminal:
        terminal.wait_for("waiting for an answer")
        began = time.monotonic()
        terminal.process.send_signal(signal.SIGINT)
        assert terminal.wait(20) == 130
        assert time.monotonic() - began < 2


def test_progress_is_shown_while_much_is_read(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(trace_content, "SAY_S", 0.0)
    messages: list[str] = []
    trace_content.Scratch(messages.append).copy("trace.log", io.BytesIO(bytes(1_000_000)).read)
    assert messages[-1] == "trace.log: 1 MB read"
