"""The argument `FILE[:NAME]`: the file, a name in it, and whether the file can be read."""

from __future__ import annotations

import os


class BadFileError(Exception):
    """The model file cannot be run. `failure` is the reason for a report, `sentence` the same in one line."""

    def __init__(self, message: str, hint: str = "", kind: str = "file") -> None:
        # Imported here, not before the first frame.
        from tcexplore.events import Failed

        super().__init__(message)
        self.failure = Failed(run=1, stage="file", blame="user", type=kind, message=message, hint=hint)

    @property
    def sentence(self) -> str:
        return f"{self.failure.message} {self.failure.hint}".strip()


def split(target: str) -> tuple[str, str | None]:
    """Split `FILE[:NAME]` into path and name. Raises `BadFileError` if the name is invalid.

    Paths may contain colons: only the last colon separates a name, and only if a Python name follows.
    """
    if os.path.exists(target):
        return target, None
    path, colon, name = target.rpartition(":")
    if colon and name.isidentifier() and path:
        return path, name
    if colon and os.path.isfile(path):
        raise BadFileError(
            f"{name!r} is not a Python name.",
            f"Write {path}:model, with the name of a module, a class or a function in {path}.",
        )
    return target, None


def check_path(path: str) -> None:
    """Raise `BadFileError` unless the path is a file, which may be empty or broken."""
    if "\0" in path or not os.path.exists(path):
        raise BadFileError(f"{path!r} does not exist." if "\0" in path else f"{path} does not exist.")
    if not _is_unicode(whole := os.path.abspath(path)):
        raise BadFileError(f"{whole!r} is not a valid UTF-8 path.", "Rename the file or its folder.")
    if os.path.isdir(path):
        raise BadFileError(f"{path} is a directory.", "Name the Python file in it that defines the model.")
    if not os.path.isfile(path):
        raise BadFileError(f"{path} is not a regular file.")


def _is_unicode(path: str) -> bool:
    """Return whether torch can write the path into its files and logs."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def read(path: str) -> str:
    """Return the text of the model file. Raises `BadFileError` if there is nothing to run."""
    from tcexplore.watch import UnreadableError, read_source

    check_path(path)
    try:
        text = read_source(path)
    except UnreadableError as error:
        raise BadFileError(error.message, error.hint) from None
    if not text.strip():
        raise BadFileError(f"{path} is empty.", "It needs a model and its inputs: samples/ has examples.")
    return text
