"""A file is written atomically, and only if it has the expected content."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from tcexplore.fixes.file_writes import NotWrittenError, undo, write

OLD = "a = 1\r\n# é\r\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "model.py"
    path.write_bytes(b"\xef\xbb\xbf" + OLD.encode())
    path.chmod(0o640)
    return path


def test_writing_keeps_mode_bom_line_endings_and_links_and_undo_restores_every_byte(file: Path):
    link = file.with_name("link.py")
    link.symlink_to(file)
    before = file.read_bytes()
    written = write(str(link), OLD, OLD.replace("1", "2"))
    assert file.read_bytes() == before.replace(b"1", b"2")
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert link.is_symlink()
    undo(written)
    assert file.read_bytes() == before
    assert set(os.listdir(file.parent)) == {"link.py", "model.py"}


def test_a_file_that_changed_meanwhile_is_not_written(file: Path):
    written = write(str(file), OLD, "b\n")
    with pytest.raises(NotWrittenError, match="has changed since the fix was tried"):
        write(str(file), OLD, "c\n")
    file.write_text("theirs\n")
    with pytest.raises(NotWrittenError, match="Nothing was undone"):
        undo(written)
    assert file.read_text() == "theirs\n"


def test_a_missing_file_has_a_message(tmp_path: Path):
    with pytest.raises(NotWrittenError, match="cannot be read"):
        write(str(tmp_path / "none.py"), "", "a")
