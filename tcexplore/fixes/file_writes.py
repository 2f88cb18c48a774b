"""Atomic writes to the user's file, and their undo."""

from __future__ import annotations

import os
import stat
import tempfile
from codecs import BOM_UTF8
from contextlib import suppress
from typing import NamedTuple


class NotWrittenError(Exception):
    """Nothing was written; the message says why."""


class Written(NamedTuple):
    """A file that was written, with its old and new bytes."""

    file: str
    before: bytes
    after: bytes


def write(file: str, expected: str, text: str) -> Written:
    """Replace the text `expected` of a file with `text`, keeping mode, line endings, byte order mark and symlinks.

    Raises `NotWrittenError` if the file has other text, or cannot be written.
    """
    before = _read(file)
    mark = BOM_UTF8 if before.startswith(BOM_UTF8) else b""
    if before != mark + expected.encode():
        raise NotWrittenError(f"{os.path.basename(file)} has changed since the fix was tried. Nothing was written.")
    after = mark + text.encode()
    _replace(file, after)
    return Written(file, before, after)


def undo(written: Written) -> None:
    """Restore the file. Raises `NotWrittenError` if it has changed since."""
    if _read(written.file) != written.after:
        raise NotWrittenError(f"{os.path.basename(written.file)} has changed since it was written. Nothing was undone.")
    _replace(written.file, written.before)


def _read(file: str) -> bytes:
    try:
        with open(file, "rb") as opened:
            return opened.read()
    except OSError as error:
        raise NotWrittenError(f"{file} cannot be read: {error.strerror}.") from None


def _replace(file: str, content: bytes) -> None:
    """Replace the file atomically through a temporary file in the same folder."""
    real = os.path.realpath(file)
    temporary = ""
    try:
        mode = stat.S_IMODE(os.stat(real).st_mode)
        descriptor, temporary = tempfile.mkstemp(prefix=".", suffix=".tcexplore", dir=os.path.dirname(real))
        with os.fdopen(descriptor, "wb") as opened:
            opened.write(content)
            opened.flush()
            os.fsync(opened.fileno())
        os.chmod(temporary, mode)
        os.replace(temporary, real)
    except OSError as error:
        with suppress(OSError):
            os.unlink(temporary)
        raise NotWrittenError(f"{file} cannot be written: {error.strerror}.") from None
