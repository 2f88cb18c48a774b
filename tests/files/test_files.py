"""Files of the user: written atomically, never lost, never through a link."""

from __future__ import annotations

import errno
import os
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from unittest.mock import Mock

import pytest

from tcexplore.files import NotWrittenError, create, create_all, replace, require_unused_folder, undo
from tcexplore.fixes.fix import write_change
from tests.files.checksums import tree_checksum

OLD = "a = 1\r\n# é\r\n"
NEW = OLD.replace("1", "2")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "model.py"
    path.write_bytes(b"\xef\xbb\xbf" + OLD.encode())
    path.chmod(0o640)
    return path


# ---- fixes of the user's file


def test_a_fix_keeps_mode_bom_line_endings_and_links_and_undo_restores_every_byte(file: Path):
    link = file.with_name("link.py")
    link.symlink_to(file)
    before = file.read_bytes()
    written = write_change(str(link), OLD, NEW)
    assert file.read_bytes() == before.replace(b"1", b"2")
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert link.is_symlink()
    undo(written)
    assert file.read_bytes() == before
    assert set(os.listdir(file.parent)) == {"link.py", "model.py"}


def test_a_file_that_changed_meanwhile_is_not_written(file: Path):
    written = write_change(str(file), OLD, "b\n")
    with pytest.raises(NotWrittenError, match="has changed meanwhile"):
        write_change(str(file), OLD, "c\n")
    file.write_text("theirs\n")
    with pytest.raises(NotWrittenError, match="has changed meanwhile"):
        undo(written)
    assert file.read_text() == "theirs\n"


def test_a_file_that_changes_during_the_write_is_not_written(file: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(os, "fsync", lambda _: file.write_text("theirs\n"))
    with pytest.raises(NotWrittenError, match="has changed meanwhile"):
        write_change(str(file), OLD, NEW)
    assert file.read_text() == "theirs\n"
    assert os.listdir(file.parent) == ["model.py"]


def make_read_only(file: Path) -> None:
    file.chmod(0o444)


def make_hard_link(file: Path) -> None:
    file.with_name("other.py").hardlink_to(file)


def make_link_elsewhere(file: Path) -> None:
    folder = file.with_name("elsewhere")
    folder.mkdir()
    file.rename(folder / "real.py")
    file.symlink_to(folder / "real.py")


def make_pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


def make_latin(file: Path) -> None:
    file.write_bytes("# -*- coding: latin-1 -*-\na = 1  # é\n".encode("latin-1"))


def make_missing(file: Path) -> None:
    file.unlink()


REFUSED: tuple[tuple[Callable[[Path], None], str], ...] = (
    (make_read_only, "read-only"),
    (make_hard_link, "hard links"),
    (make_link_elsewhere, "in another folder"),
    (make_pipe, "not a regular file"),
    (make_latin, "has changed meanwhile"),
    (make_missing, "cannot be read"),
)


@pytest.mark.parametrize(("make", "message"), REFUSED, ids=lambda value: getattr(value, "__name__", ""))
def test_files_that_cannot_be_replaced_safely_are_refused(file: Path, make: Callable[[Path], None], message: str):
    make(file)
    before = tree_checksum(file.parent)
    with pytest.raises(NotWrittenError, match=message):
        write_change(str(file), OLD, NEW)
    assert tree_checksum(file.parent) == before


@pytest.mark.parametrize("call", ["fsync", "utime", "replace"])
def test_a_process_killed_while_it_writes_loses_nothing(file: Path, call: str):
    code = (
        "import os, signal, sys; from tcexplore import files\n"
        f"os.{call} = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)\n"
        "old = files.read(sys.argv[1]); files.replace(sys.argv[1], old, b'new')"
    )
    before = file.read_bytes()
    done = subprocess.run([sys.executable, "-c", code, str(file)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert file.read_bytes() == before
    assert replace(str(file), before, b"new").after == file.read_bytes() == b"new"


FULL = OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("call", ["fsync", "replace", "utime"])
def test_a_full_disk_loses_nothing(file: Path, monkeypatch: pytest.MonkeyPatch, call: str):
    before = tree_checksum(file.parent)
    monkeypatch.setattr(os, call, Mock(side_effect=FULL))
    with pytest.raises(NotWrittenError, match="No space left on device"):
        write_change(str(file), OLD, NEW)
    assert tree_checksum(file.parent) == before


def test_nothing_is_lost_on_a_disk_without_space(small_disk: Path):
    """A real file system that is full, whatever call notices it first."""
    file = small_disk / "model.py"
    file.write_text(OLD)
    with suppress(OSError), open(small_disk / "rest", "wb") as rest:
        while True:
            rest.write(bytes(4096))
            rest.flush()
    before = tree_checksum(small_disk)
    for size in (1, 100_000):
        with pytest.raises(NotWrittenError, match="No space left on device"):
            write_change(str(file), OLD, "b = 2\n" * size)
        with pytest.raises(NotWrittenError, match="No space left on device"):
            create(small_disk / "report.json", "x" * size)
        with pytest.raises(NotWrittenError, match="No space left on device"):
            create_all(small_disk / "new", {"a": "1" * size, "b": "2"})
    assert tree_checksum(small_disk) == before


AS_ANOTHER_USER = """\
import os, sys
from tcexplore.files import NotWrittenError, create
from tcexplore.fixes.fix import write_change
os.setgroups([])
os.setgid(54321)
os.setuid(54321)
file, text = sys.argv[1:]
for call in (lambda: write_change(file, text, "b"), lambda: create(file, "b", force=True)):
    try:
        call()
    except NotWrittenError as error:
        print(error)
"""


@pytest.mark.skipif(os.getuid() != 0, reason="becomes another user")
def test_a_file_of_another_user_is_not_written():
    """The user may write into the folder, so that the file could be replaced, but not change the file."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)
        file = Path(folder) / "model.py"
        file.write_text(OLD, newline="")
        file.chmod(0o644)
        before = tree_checksum(Path(folder))
        command = [sys.executable, "-c", AS_ANOTHER_USER, str(file), OLD]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert done.stdout.count("is read-only. Nothing was written.") == 2
        assert tree_checksum(Path(folder)) == before


@pytest.mark.parametrize("writes", [1, 2])
def test_a_full_disk_leaves_no_file_of_several(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writes: int):
    monkeypatch.setattr(os, "fsync", Mock(side_effect=[None] * (writes - 1) + [FULL]))
    with pytest.raises(NotWrittenError, match="No space left on device"):
        create_all(tmp_path / "new", {"a": "1", "b": "2"})
    assert not list(tmp_path.rglob("*"))


def test_a_folder_that_takes_no_files_is_refused():
    with pytest.raises(NotWrittenError, match="cannot be written"):
        create("/proc/self/report.txt", "x")


# ---- new files


def test_a_new_file_has_the_default_mode_and_is_overwritten_only_with_force(tmp_path: Path):
    plain = tmp_path / "plain"
    plain.touch()
    path = create(tmp_path / "report.json", "{}")
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)
    with pytest.raises(NotWrittenError, match=r"report.json already exists.*--force"):
        create(path, "[]")
    assert path.read_text() == "{}"
    path.chmod(0o600)
    create(path, "[]", force=True)
    assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == ("[]", 0o600)
    assert sorted(os.listdir(tmp_path)) == ["plain", "report.json"]


def test_a_file_that_appears_during_the_write_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "report.json"
    monkeypatch.setattr(os, "fsync", lambda _: path.write_text("theirs"))
    with pytest.raises(NotWrittenError, match="already exists"):
        create(path, "{}")
    assert path.read_text() == "theirs"


@pytest.mark.parametrize("force", [False, True])
def test_links_folders_and_pipes_are_never_written_to(tmp_path: Path, force: bool):
    outside, folder = tmp_path / "outside", tmp_path / "folder"
    outside.mkdir()
    folder.mkdir()
    (outside / "theirs").write_text("theirs")
    (folder / "link").symlink_to(outside / "theirs")
    (folder / "dangling").symlink_to(outside / "none")
    (folder / "subfolder").symlink_to(outside)
    os.mkfifo(folder / "pipe")
    before = tree_checksum(tmp_path)
    for name in ("link", "dangling", "subfolder", "pipe", "subfolder/new", "../new", str(outside / "new")):
        with pytest.raises(NotWrittenError):
            create_all(folder, {"first": "", name: ""}, force=force)
    assert tree_checksum(tmp_path) == before


def test_several_files_are_written_together_or_not_at_all(tmp_path: Path):
    (tmp_path / "README.md").write_text("theirs")
    (tmp_path / "model.py").write_text("source")
    contents: dict[str, str | bytes] = {"a/b.txt": b"\xff", "README.md": "ours"}
    before = tree_checksum(tmp_path)
    with pytest.raises(NotWrittenError, match=r"README.md already in .*--force"):
        create_all(tmp_path, contents)
    with pytest.raises(NotWrittenError, match="is a source of this run"):
        create_all(tmp_path, {**contents, "model.py": "copy"}, force=True, keep=[str(tmp_path / "model.py")])
    assert tree_checksum(tmp_path) == before
    paths = create_all(tmp_path, contents, force=True)
    assert [path.read_bytes() for path in paths] == [b"\xff", b"ours"]


def test_a_folder_in_use_is_refused(tmp_path: Path):
    require_unused_folder(tmp_path / "new")
    (tmp_path / "file").touch()
    for path in (tmp_path, tmp_path / "file"):
        with pytest.raises(NotWrittenError, match="already exists"):
            require_unused_folder(path)
