"""`FILE[:NAME]`: which file, which name in it, and whether the file can be read at all."""

from __future__ import annotations

import os


class BadFileError(Exception):
    """The user's file cannot be run. `failure` says why, as a report does; `sentence` in one line."""

    def __init__(self, message: str, hint: str = "") -> None:
        # Read only now: the first frame does not wait for the events.
        from tcexplore.events import Failed

        super().__init__(message)
        self.failure = Failed(run=1, stage="file", blame="user", type="file", message=message, hint=hint)

    @property
    def sentence(self) -> str:
        return f"{self.failure.message} {self.failure.hint}".strip()


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
            f"{name!r} is no Python name.",
            f"Write {path}:model, with the name of a module, a class or a function in {path}.",
        )
    return target, None


def refuse(path: str) -> None:
    """Raises `BadFileError` where there is no file that could be run, now or after an edit."""
    if "\0" in path or not os.path.exists(path):
        raise BadFileError(f"{path!r} does not exist." if "\0" in path else f"{path} does not exist.")
    if os.path.isdir(path):
        raise BadFileError(f"{path} is a directory.", "Name the Python file in it that defines the model.")
    if not os.path.isfile(path):
        raise BadFileError(f"{path} is not a regular file.")


def read(path: str) -> str:
    """The text of the user's file. Raises `BadFileError` with one clear sentence where there is none to run."""
    from tcexplore.watch import UnreadableError, read_source

    refuse(path)
    try:
        text = read_source(path)
    except UnreadableError as error:
        raise BadFileError(error.message, error.hint) from None
    if not text.strip():
        raise BadFileError(f"{path} is empty.", "It needs a model and its inputs: samples/ has examples.")
    return text
