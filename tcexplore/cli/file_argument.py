"""What to run: FILE[:NAME], and the Python of --python."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tcexplore.environments import PythonChoice
    from tcexplore.model_python import ModelPython


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


def model_python(named: Sequence[str], file: str) -> ModelPython:
    """Return the interpreter for the worker.

    Raises `BadFileError` if `--python` names one that cannot run it, or if none of the file's environments can and
    tcexplore's own Python has no torch either.
    """
    choice = python_choice(named, file)
    if choice.python.own and choice.skipped and find_spec("torch") is None:
        reasons = " ".join(skipped.reason for skipped in choice.skipped)
        raise BadFileError(reasons, "Install torch there, or name another Python with --python.", kind="python")
    return choice.python


def model_pythons(named: Sequence[str], file: str) -> tuple[ModelPython, ...]:
    """Return the environments of a command that may compare several, usually one. Raises `BadFileError`."""
    if len(named) < 2:
        return (model_python(named, file),)
    pythons = named_pythons(named)
    if len({python.executable for python in pythons}) < len(pythons):
        raise BadFileError("--python names the same Python twice.", kind="python")
    return pythons


def python_choice(named: Sequence[str], file: str) -> PythonChoice:
    """Return the interpreter for the worker, and the environments that are skipped. Raises `BadFileError`."""
    from tcexplore.environments import PythonChoice, choose_python

    return PythonChoice(named_pythons(named)[0]) if named else choose_python(file)


def named_pythons(named: Sequence[str]) -> tuple[ModelPython, ...]:
    """Return the interpreters that `--python` names. Raises `BadFileError`."""
    from tcexplore.environments import PythonNotUsableError, named_python

    try:
        return tuple(map(named_python, named))
    except PythonNotUsableError as error:
        raise BadFileError(str(error), error.hint, kind="python") from None
