"""When did the user's files change, and to what text."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from typing import Self

QUIET_MS = 25
"""A change is looked at once nothing has happened in the folder for this long."""

LONGEST_MS = 250
"""It is looked at after this long even if the folder never comes to rest."""

SETTLE_S = 0.1
"""A file that is missing or empty gets this long to come back: editors replace files in two steps."""

CHECK_MS = 2_000
"""The files are also looked at this often, for file systems that report nothing (network shares, containers)."""


class UnreadableError(Exception):
    """A file cannot be read as source; says why, with `hint` on what to do."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


def read_source(path: str) -> str:
    """The text of a source file. Raises `UnreadableError`."""
    try:
        with open(path, "rb") as file:
            raw = file.read()
    except FileNotFoundError:
        raise UnreadableError(f"{path} does not exist.", "It is picked up as soon as it is there.") from None
    except IsADirectoryError:
        raise UnreadableError(f"{path} is a directory.", "Name a Python file in it.") from None
    except PermissionError:
        raise UnreadableError(f"{path} may not be read.", f"chmod u+r {path}") from None
    except OSError as error:
        raise UnreadableError(f"{path} cannot be read: {error.strerror}.") from None
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise UnreadableError(f"{path}, line {line}: not UTF-8 ({error.reason}).", "Save it as UTF-8.") from None


@dataclass(frozen=True, slots=True)
class FileChange:
    """A file has new content. `text` is None where it cannot be read, and `problem` and `hint` say why."""

    path: str
    text: str | None
    problem: str = ""
    hint: str = ""


def look(path: str) -> FileChange:
    """A file as it is now."""
    try:
        return FileChange(path, read_source(path))
    except UnreadableError as error:
        return FileChange(path, None, error.message, error.hint)


class Watch:
    """Watches the model file and whatever else `follow` names."""

    def __init__(self, file: str) -> None:
        self._file = os.path.abspath(file)
        self._seen: dict[str, bytes] = {}
        self._restart = asyncio.Event()
        self.follow(())

    def follow(self, files: Iterable[str]) -> None:
        """Watch these files beside the model file, and no others."""
        wanted = {self._file, *map(os.path.abspath, files)}
        before = self._folders()
        self._seen = {path: self._seen.get(path) or _digest(look(path)) for path in sorted(wanted)}
        if self._folders() != before:
            self._restart.set()

    async def changes(self) -> AsyncIterator[FileChange]:
        """Each change of content, the model file's first; saving the same content again is none.

        A file that disappears is a change, and one more when it is back.
        """
        while True:
            self._restart = asyncio.Event()
            folders = self._folders()
            watched = _identities(folders)
            async with _Activity(folders, self._restart) as activity:
                while await activity.next():
                    changed = await self._changed()
                    if _identities(self._folders()) != watched:
                        self._restart.set()
                    for change in changed:
                        yield change

    async def _changed(self) -> list[FileChange]:
        changed = self._differing()
        if any(not (change.text or "").strip() for change in changed):
            await asyncio.sleep(SETTLE_S)
            changed = self._differing()
        for change in changed:
            self._seen[change.path] = _digest(change)
        return changed

    def _differing(self) -> list[FileChange]:
        ordered = sorted(self._seen, key=lambda path: path != self._file)
        return [now for now in map(look, ordered) if _digest(now) != self._seen[now.path]]

    def _folders(self) -> tuple[str, ...]:
        return tuple(sorted({_standing(os.path.dirname(path)) for path in self._seen}))


def _digest(change: FileChange) -> bytes:
    return hashlib.sha256((change.problem if change.text is None else f"\n{change.text}").encode()).digest()


def _standing(folder: str) -> str:
    """The folder or, where it does not exist now, the nearest one above it that does."""
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    return folder


def _identities(folders: tuple[str, ...]) -> list[tuple[str, int, int]]:
    """Which folders these are on disk: one that was replaced by another of its name must be watched anew."""
    found = []
    for folder in folders:
        with contextlib.suppress(OSError):
            status = os.stat(folder)
            found.append((folder, status.st_dev, status.st_ino))
    return found


class _Activity:
    """Tells when something may have happened in folders: once they are watched, at each change, every `CHECK_MS`.

    It goes on looking while nobody waits for `next`, and ends when `stop` is set.
    """

    def __init__(self, folders: tuple[str, ...], stop: asyncio.Event) -> None:
        self._folders = folders
        self._stop = stop
        self._happened = asyncio.Event()

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._look())
        # One step of the loop sets the watch up: whatever changed before that is found by the first look.
        await asyncio.sleep(0)
        self._happened.set()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._stop.set()
        await self._task

    async def next(self) -> bool:
        """Wait for the next time; False when there will be none."""
        await self._happened.wait()
        self._happened.clear()
        return not self._stop.is_set()

    async def _look(self) -> None:
        try:
            await self._watch()
        except FileNotFoundError:
            pass
        except OSError:
            # The system has no watches left to give.
            await self._watch(force_polling=True)
        finally:
            self._stop.set()
            self._happened.set()

    async def _watch(self, force_polling: bool | None = None) -> None:
        from watchfiles import awatch

        async for _ in awatch(
            *self._folders,
            watch_filter=None,
            step=QUIET_MS,
            debounce=LONGEST_MS,
            rust_timeout=CHECK_MS,
            yield_on_timeout=True,
            recursive=False,
            stop_event=self._stop,
            force_polling=force_polling,
        ):
            self._happened.set()
