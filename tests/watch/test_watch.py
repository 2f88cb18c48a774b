"""Each save is one change in every editor; the same content is not a change."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from tcexplore.watch import FileChange, Watch


class Saves:
    """A watch on `model.py` in a folder that also has `helper.py`, and the changes it yields."""

    def __init__(self, folder: Path) -> None:
        self.model = folder / "model.py"
        self.helper = folder / "helper.py"
        self.model.write_text("first")
        self.helper.write_text("help")
        self.watch = Watch(str(self.model))
        self._changes: AsyncIterator[FileChange] = self.watch.changes()

    async def next(self) -> FileChange:
        async with asyncio.timeout(10):
            return await anext(self._changes)

    async def text(self) -> str | None:
        return (await self.next()).text


@pytest.fixture
def saves(tmp_path: Path) -> Saves:
    folder = tmp_path / "project"
    folder.mkdir()
    return Saves(folder)


def in_place(file: Path, text: str) -> None:
    file.write_text(text)


def atomic_rename(file: Path, text: str) -> None:
    new = file.with_suffix(".tmp")
    new.write_text(text)
    new.replace(file)


def vim_backup(file: Path, text: str) -> None:
    backup = file.with_name(file.name + "~")
    file.rename(backup)
    file.write_text(text)
    backup.unlink()


def removed_and_written(file: Path, text: str) -> None:
    file.unlink()
    file.write_text(text)


def folder_replaced(file: Path, text: str) -> None:
    shutil.rmtree(file.parent)
    file.parent.mkdir()
    file.write_text(text)


EDITORS = [in_place, atomic_rename, vim_backup, removed_and_written, folder_replaced]


@pytest.mark.parametrize("save", EDITORS)
async def test_each_save_is_one_change_in_every_editor(saves: Saves, save: Callable[[Path, str], None]) -> None:
    for text in ("second", "third", "fourth"):
        save(saves.model, text)
        assert await saves.text() == text


async def test_saving_the_same_content_is_not_a_change(saves: Saves) -> None:
    atomic_rename(saves.model, "first")
    os.utime(saves.model)
    saves.model.write_text("second")
    assert await saves.text() == "second"


async def test_other_files_in_the_folder_are_not_watched(saves: Saves) -> None:
    saves.helper.write_text("other")
    saves.model.write_text("second")
    assert (await saves.next()).path == str(saves.model)


async def test_modules_in_other_folders_are_watched(saves: Saves, tmp_path: Path) -> None:
    far = tmp_path / "far" / "away.py"
    far.parent.mkdir()
    far.write_text("far")
    saves.watch.set_modules([str(saves.helper), str(far)])
    saves.helper.write_text("changed")
    assert await saves.next() == FileChange(str(saves.helper), "changed")
    far.write_text("changed too")
    assert await saves.next() == FileChange(str(far), "changed too")
    saves.watch.set_modules([])
    saves.helper.write_text("not watched")
    saves.model.write_text("second")
    assert await saves.text() == "second"


async def test_modules_can_be_added_while_waiting_for_a_change(saves: Saves, tmp_path: Path) -> None:
    far = tmp_path / "far" / "away.py"
    far.parent.mkdir()
    far.write_text("far")
    waiting = asyncio.ensure_future(saves.next())
    await asyncio.sleep(0)
    saves.watch.set_modules([str(far)])
    far.write_text("changed")
    assert (await waiting).text == "changed"


async def test_a_file_that_disappears_and_returns_is_two_changes(saves: Saves) -> None:
    saves.model.unlink()
    gone = await saves.next()
    assert gone.text is None
    assert "does not exist" in gone.problem
    saves.model.write_text("first")
    assert await saves.text() == "first"


async def test_a_folder_that_disappears_and_returns_is_two_changes(saves: Saves) -> None:
    folder = saves.model.parent
    shutil.rmtree(folder)
    assert "does not exist" in (await saves.next()).problem
    folder.mkdir()
    saves.model.write_text("returned")
    assert await saves.text() == "returned"
    saves.model.write_text("saved again")
    assert await saves.text() == "saved again"


async def test_a_file_that_cannot_be_read_gives_the_reason(saves: Saves) -> None:
    saves.model.write_bytes(b"x = 1\ny = '\xff'\n")
    broken = await saves.next()
    assert broken.text is None
    assert "line 2: not UTF-8" in broken.problem
    saves.model.unlink()
    saves.model.mkdir()
    assert "is a directory" in (await saves.next()).problem


async def test_the_last_change_of_a_file_written_in_pieces_has_the_whole_text(saves: Saves) -> None:
    pieces = [f"line {n}\n" for n in range(200)]
    with saves.model.open("w") as file:
        for piece in pieces:
            file.write(piece)
            file.flush()
    while (text := await saves.text()) != "".join(pieces):
        assert text


async def test_files_are_polled_if_the_system_reports_no_changes(saves: Saves, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WATCHFILES_FORCE_POLLING", "1")
    saves.model.write_text("second")
    assert await saves.text() == "second"
    saves.model.write_text("third")
    assert await saves.text() == "third"


async def test_a_file_that_becomes_a_pipe_or_a_device_is_not_waited_for(saves: Saves) -> None:
    saves.watch.set_modules([str(saves.helper)])
    saves.helper.unlink()
    os.mkfifo(saves.helper)
    change = await saves.next()
    assert (change.path, change.text) == (str(saves.helper), None)
    assert "is not a regular file" in change.problem
    saves.model.unlink()
    saves.model.symlink_to("/dev/zero")
    assert "is not a regular file" in (await saves.next()).problem
    atomic_rename(saves.model, "third")
    assert await saves.text() == "third"


async def test_a_huge_file_is_not_read(saves: Saves, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tcexplore.watch.LARGEST_SOURCE", 100)
    saves.model.write_text("#" * 101)
    assert "has more than" in (await saves.next()).problem
