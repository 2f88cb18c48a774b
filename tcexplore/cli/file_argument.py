"""What to run: FILE[:NAME], and the Python of --python."""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import TYPE_CHECKING

from tcexplore.cli.terminal import print_error, terminal_ask
from tcexplore.trust import Consent

if TYPE_CHECKING:
    from tcexplore.cli.options import Request
    from tcexplore.environments import PythonChoice
    from tcexplore.model_python import ModelPython


INSTALL_HINT = "Install torch there, or name another Python with --python."


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


def model_python(request: Request, file: str) -> ModelPython:
    """Return the interpreter for the worker.

    Raises `BadFileError` if `--python` names one that cannot run it, or if none of the file's environments can and
    tcexplore's own Python has no torch either.
    """
    choice = python_choice(request, file)
    if choice.python.own and choice.skipped and find_spec("torch") is None:
        texts = (f"{each.path}: {each.reason}" if each.untrusted else each.reason for each in choice.skipped)
        untrusted = any(each.untrusted for each in choice.skipped)
        hint = "Name another Python with --python." if untrusted else INSTALL_HINT
        raise BadFileError(" ".join(texts), hint, kind="python")
    for skipped in choice.skipped:
        if skipped.untrusted:
            print_error(f"{skipped.path} is not used: {skipped.reason}")
    return choice.python


def model_pythons(request: Request, file: str) -> tuple[ModelPython, ...]:
    """Return the environments of a command that may compare several, usually one. Raises `BadFileError`."""
    if len(request.python) < 2:
        return (model_python(request, file),)
    pythons = named_pythons(request)
    if len({python.executable for python in pythons}) < len(pythons):
        raise BadFileError("--python names the same Python twice.", kind="python")
    return pythons


def python_choice(request: Request, file: str) -> PythonChoice:
    """Return the interpreter for the worker, and the environments that are skipped. Raises `BadFileError`."""
    from tcexplore.environments import PythonChoice, choose_python

    if request.python:
        return PythonChoice(named_pythons(request)[0])
    return choose_python(file, consent=consent(request))


def named_pythons(request: Request) -> tuple[ModelPython, ...]:
    """Return the interpreters that `--python` names. Raises `BadFileError`."""
    from tcexplore.environments import PythonNotUsableError, named_python

    try:
        return tuple(named_python(path, consent=consent(request)) for path in request.python)
    except PythonNotUsableError as error:
        raise BadFileError(str(error), error.hint, kind="python") from None


def consent(request: Request) -> Consent:
    """Return how the user can trust a folder: by `--trust`, or by an answer on a terminal. `doctor` never asks."""
    return Consent(request.trust, None if request.command == "doctor" else terminal_ask())
