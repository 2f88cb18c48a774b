"""`FILE[:NAME]`: which file, which name in it, and whether the file can be read at all."""

from __future__ import annotations

import os
import stat

from tcexplore.events.run import Failed


class BadFileError(Exception):
    """The person's file cannot be run; `failure` says why, in the words of a report."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.failure = Failed(run=1, stage="file", blame="person", type="file", message=message, hint=hint)


def split(target: str) -> tuple[str, str | None]:
    """The path and the name in `FILE[:NAME]`. Raises `BadFileError` where the name is none.

    Only the last colon can part them, and only when what follows is a Python name: paths may contain colons.
    """
    if os.path.exists(target):
        return target, None
    path, colon, name = target.rpartition(":")
    if colon and name.isidentifier() and path:
        return path, name
    if colon and os.path.isfile(path):
        raise BadFileError(
            f"{name!r} is no Python name",
            f"write {path}:model, with the name of a module, a class or a function in {path}",
        )
    return target, None


def read(path: str) -> str:
    """The text of the person's file. Raises `BadFileError` with one clear sentence where there is none to run."""
    try:
        mode = os.stat(path).st_mode
        if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
            raise BadFileError(f"{path} is not a regular file")
        with open(path, "rb") as file:
            raw = file.read()
    except FileNotFoundError:
        raise BadFileError(f"{path}: there is no such file") from None
    except IsADirectoryError:
        raise BadFileError(f"{path} is a directory", "name the Python file in it that defines the model") from None
    except PermissionError:
        raise BadFileError(f"{path}: not allowed to read it", f"chmod u+r {path}") from None
    except (OSError, ValueError) as error:
        raise BadFileError(f"{path}: cannot be read: {error}") from None
    if not raw.strip():
        raise BadFileError(f"{path} is empty", "it needs a model and its inputs; samples/ has examples")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise BadFileError(f"{path}, line {line}: not UTF-8 text ({error.reason})", "save it as UTF-8") from None
