"""`FILE[:NAME]`, and files that cannot be run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tcexplore.cli.file_argument import BadFileError, read, split
from tcexplore.documents.locations import display_path


@pytest.mark.parametrize(
    ("target", "parts"),
    [
        ("model.py", ("model.py", None)),
        ("model.py:Net", ("model.py", "Net")),
        ("dir:with/colons.py:Net", ("dir:with/colons.py", "Net")),
        ("dir:with/colons.py", ("dir:with/colons.py", None)),
        (r"C:\models\net.py", (r"C:\models\net.py", None)),
        (r"C:\models\net.py:Net", (r"C:\models\net.py", "Net")),
        (":Net", (":Net", None)),
    ],
)
def test_only_a_python_name_after_the_last_colon_is_a_name(target: str, parts: tuple[str, str | None]):
    assert split(target) == parts


def test_an_existing_file_with_a_colon_in_its_name_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "odd.py:Net").write_text("x = 1")
    assert split("odd.py:Net") == ("odd.py:Net", None)


def test_an_invalid_name_is_refused(tmp_path: Path):
    file = tmp_path / "model.py"
    file.write_text("x = 1")
    for name in ("", "12", "a.b", "a b"):
        with pytest.raises(BadFileError) as refused:
            split(f"{file}:{name}")
        assert repr(name) in str(refused.value)


def test_reads_utf8_with_and_without_a_byte_order_mark(tmp_path: Path):
    file = tmp_path / "model.py"
    for mark in (b"", b"\xef\xbb\xbf"):
        file.write_bytes(mark + "π = 3\r\n".encode())
        assert read(str(file)) == "π = 3\r\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b" \n\t\n", "is empty"),
        (b"a = 1\nb = '\xff'\n", "line 2: not UTF-8"),
    ],
)
def test_invalid_content_is_refused(tmp_path: Path, content: bytes, message: str):
    file = tmp_path / "model.py"
    file.write_bytes(content)
    with pytest.raises(BadFileError) as refused:
        read(str(file))
    assert message in str(refused.value)
    assert refused.value.failure.blame == "user"


def test_missing_irregular_and_forbidden_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def refusal(path: str) -> str:
        with pytest.raises(BadFileError) as refused:
            read(path)
        return refused.value.sentence

    assert "does not exist" in refusal(str(tmp_path / "gone.py"))
    assert "is a directory" in refusal(str(tmp_path))
    assert "not a regular file" in refusal(os.devnull)
    assert "does not exist" in refusal("nul\0byte.py")
    forbidden = tmp_path / "secret.py"
    forbidden.write_text("x = 1")

    def forbid(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr("builtins.open", forbid)
    assert "is not readable" in refusal(str(forbidden))


def test_a_path_that_is_not_utf8_is_refused(tmp_path: Path):
    file = os.fsencode(tmp_path) + b"/m\xff.py"
    with open(file, "w") as stream:
        stream.write("x = 1\n")
    with pytest.raises(BadFileError, match=r"m\\udcff\.py' is not a valid UTF-8 path"):
        read(os.fsdecode(file))


INTERRUPTED = """\
import os, signal, sys
from tcexplore.cli import main
class Interrupt:
    def find_spec(self, name, *_):
        if name == "tcexplore.cli.dispatch":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupt())
sys.exit(main(["--version"]))
"""


def test_an_interrupt_while_the_command_is_imported_prints_nothing():
    done = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")


IN_A_CLASS = """\
import os, signal, sys
from tcexplore.cli import dispatch, main
class Interrupt:
    def __set_name__(self, *_):
        os.kill(os.getpid(), signal.SIGINT)
def imports(_):
    class Made:
        field = Interrupt()
dispatch.dispatch = imports
signal.signal(signal.SIGINT, signal.SIG_DFL)
sys.exit(main(["--version"]))
"""
"""Python 3.11 makes a RuntimeError of it."""


def test_an_interrupt_while_a_class_is_made_prints_nothing():
    done = subprocess.run([sys.executable, "-c", IN_A_CLASS], capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")


def test_a_removed_working_directory_leaves_paths_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder = tmp_path / "gone"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    assert display_path("/elsewhere/model.py") == "/elsewhere/model.py"
    assert display_path("model.py") == "model.py"
