"""Watch the model file and the local modules that it imports, and read them when they change."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass

from tcexplore.events import clean
from tcexplore.file_activity import FolderActivity
from tcexplore.files import NotRegularError, open_regular
from tcexplore.notebook import is_notebook, to_python

SETTLE_S = 0.1
"""Maximum seconds to wait for a file that is missing or empty: some editors replace a file in two steps."""


LARGEST_SOURCE = 10_000_000
"""Maximum bytes of a source file."""


class UnreadableError(Exception):
    """A file cannot be read as source; `hint` suggests a remedy."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


def read_source(path: str) -> str:
    """Return the text of a source file, of a notebook that of its code cells. Raise `UnreadableError`."""
    try:
        raw = _read_regular(path)
    except FileNotFoundError:
        raise UnreadableError(f"{path} does not exist.", "It runs once it exists.") from None
    except IsADirectoryError:
        raise UnreadableError(f"{path} is a directory.", "Name a Python file in it.") from None
    except PermissionError:
        raise UnreadableError(f"{path} is not readable (permission denied).", f"chmod u+r {path}") from None
    except OSError as error:
        raise UnreadableError(f"{path} cannot be read: {error.strerror}.") from None
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise UnreadableError(f"{path}, line {line}: not UTF-8 ({error.reason}).", "Save it as UTF-8.") from None
    return _read_notebook(path, text) if is_notebook(path) else text


def _read_notebook(path: str, text: str) -> str:
    try:
        return to_python(text)
    except ValueError as error:
        reason = clean(str(error))
        raise UnreadableError(f"{path} cannot be read as a notebook: {reason}.", "Name a Python file.") from None


def _read_regular(path: str) -> bytes:
    """Return the content of a regular file of a reasonable size."""
    try:
        with open_regular(path) as file:
            raw = file.read(LARGEST_SOURCE + 1)
    except NotRegularError:
        raise UnreadableError(f"{path} is not a regular file.", "It runs once it is one.") from None
    if len(raw) > LARGEST_SOURCE:
        raise UnreadableError(f"{path} has more than {LARGEST_SOURCE:,} bytes.", "Name a smaller Python file.")
    return raw


@dataclass(frozen=True, slots=True)
class FileChange:
    """The content of a file after a change."""

    path: str
    text: str | None
    """None if the file cannot be read; `problem` and `hint` give the reason."""
    problem: str = ""
    hint: str = ""


def read_file(path: str) -> FileChange:
    """Return the current content of a file."""
    try:
        return FileChange(path, read_source(path))
    except UnreadableError as error:
        return FileChange(path, None, error.message, error.hint)


class Watch:
    """Watches the model file and the modules given to `set_modules`. `known` is the already read content."""

    def __init__(self, file: str, known: FileChange | None = None) -> None:
        self._file = os.path.abspath(file)
        self._digests = {self._file: _digest(known or read_file(self._file))}
        self._restart = asyncio.Event()

    def set_modules(self, files: Iterable[str]) -> None:
        """Watch these files in addition to the model file, and no others."""
        wanted = {self._file, *map(os.path.abspath, files)}
        before = self._folders()
        self._digests = {path: self._digests.get(path) or _digest(read_file(path)) for path in sorted(wanted)}
        if self._folders() != before:
            self._restart.set()

    async def changes(self) -> AsyncIterator[FileChange]:
        """Yield each change of content, the model file's first.

        A file that disappears is a change, and its reappearance is another. Saving the same content is not a change.
        """
        while True:
            self._restart = asyncio.Event()
            folders = self._folders()
            watched = _identities(folders)
            async with FolderActivity(folders, self._restart) as activity:
                while await activity.next():
                    changed = await self._changed(activity)
                    if _identities(self._folders()) != watched:
                        self._restart.set()
                    for change in changed:
                        yield change

    async def _changed(self, activity: FolderActivity) -> list[FileChange]:
        changed = self._differing()
        clock = asyncio.get_running_loop().time
        deadline = clock() + SETTLE_S
        while clock() < deadline and any(not (change.text or "").strip() for change in changed):
            await activity.wait(deadline - clock())
            changed = self._differing()
        for change in changed:
            self._digests[change.path] = _digest(change)
        return changed

    def _differing(self) -> list[FileChange]:
        ordered = sorted(self._digests, key=lambda path: path != self._file)
        return [file for file in map(read_file, ordered) if _digest(file) != self._digests[file.path]]

    def _folders(self) -> tuple[str, ...]:
        return tuple(sorted({_existing(os.path.dirname(path)) for path in self._digests}))


def _digest(change: FileChange) -> bytes:
    return hashlib.sha256(
        (change.problem if change.text is None else f"\n{change.text}").encode(errors="surrogatepass")
    ).digest()


def _existing(folder: str) -> str:
    """Return the folder, or the nearest parent that exists."""
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    return folder


def _identities(folders: tuple[str, ...]) -> list[tuple[str, int, int]]:
    """Return the device and inode of each folder, since a folder that was replaced must be watched again."""
    identities = []
    for folder in folders:
        with contextlib.suppress(OSError):
            status = os.stat(folder)
            identities.append((folder, status.st_dev, status.st_ino))
    return identities
