"""The option `--python`, and the default Python without it."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING

from tcexplore.cli.file_argument import BadFileError

if TYPE_CHECKING:
    from tcexplore.environments import PythonChoice
    from tcexplore.model_python import ModelPython


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
