"""Writing a change to the user's file, whole or not at all, and taking it back."""

from __future__ import annotations

import os
import stat
import tempfile
from codecs import BOM_UTF8
from contextlib import suppress
from typing import NamedTuple


class NotWrittenError(Exception):
    """Nothing was written; says why, in a sentence."""


class Written(NamedTuple):
    """A file that was written, with its bytes before and after."""

    file: str
    before: bytes
    after: bytes


def write(file: str, expected: str, text: str) -> Written:
    """Put `text` in the place of `expected`, what the file should have. Its mode, its line ends, a byte order mark and
    a link to it stay.

    Raises `NotWrittenError` where the file has changed since, or cannot be written.
    """
    before = _read(file)
    mark = BOM_UTF8 if before.startswith(BOM_UTF8) else b""
    if before != mark + expected.encode():
        raise NotWrittenError(f"{os.path.basename(file)} has changed since the change was tried: nothing was written.")
    after = mark + text.encode()
    _replace(file, after)
    return Written(file, before, after)


def undo(written: Written) -> None:
    """Put the file back as it was. Raises `NotWrittenError` where it is not what was written any more."""
    if _read(written.file) != written.after:
        raise NotWrittenError(f"{os.path.basename(written.file)} has changed since it was written: nothing was undone.")
    _replace(written.file, written.before)


def _read(file: str) -> bytes:
    try:
        with open(file, "rb") as opened:
            return opened.read()
    except OSError as error:
        raise NotWrittenError(f"{file} cannot be read: {error.strerror}.") from None


def _replace(file: str, content: bytes) -> None:
    """In one step, by a file beside it: a reader sees the old one or the new one."""
    real = os.path.realpath(file)
    beside = ""
    try:
        mode = stat.S_IMODE(os.stat(real).st_mode)
        descriptor, beside = tempfile.mkstemp(prefix=".", suffix=".tcexplore", dir=os.path.dirname(real))
        with os.fdopen(descriptor, "wb") as opened:
            opened.write(content)
            opened.flush()
            os.fsync(opened.fileno())
        os.chmod(beside, mode)
        os.replace(beside, real)
    except OSError as error:
        with suppress(OSError):
            os.unlink(beside)
        raise NotWrittenError(f"{file} cannot be written: {error.strerror}.") from None
