"""Find the Python environment of a model file, and check whether its interpreter can run the worker."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from tcexplore.events import clean
from tcexplore.model_python import OWN_PYTHON, ModelPython, install_hint
from tcexplore.processes import NoAnswerError, run_bounded
from tcexplore.trust import NOBODY, Consent, RepositoryText, refusal, root_of

ANSWER_S = 20.0
"""Seconds for an interpreter to start and answer."""

PYTHONS = ((3, 11), (3, 14))
TORCHES = ((2, 11), (2, 15))
"""Supported versions, both ends included."""

_MARK = "tcexplore:"

_QUERY = """\
import sys
if sys.path and not sys.path[0]:
    del sys.path[0]
import os, re
from importlib.util import find_spec
spec = find_spec("torch")
folder = os.path.dirname(spec.origin) if spec and spec.origin else ""
version = ""
if folder:
    try:
        with open(os.path.join(folder, "version.py"), encoding="utf-8") as file:
            version = (re.findall(r"__version__ = ['\\"](.+?)['\\"]", file.read()) or ["?"])[0]
    except OSError:
        version = "?"
python = ".".join(map(str, sys.version_info[:3]))
sys.stdout.write("\\n" + "\\n".join(("tcexplore:", str(os.getpid()), sys.executable, sys.prefix, python, version)))
"""
"""Program that prints the versions without importing torch, which takes seconds."""


class PythonNotUsableError(Exception):
    """An interpreter cannot run the worker; the message is a sentence, `hint` what to do."""

    def __init__(self, message: str, hint: str = "Name another Python with --python.") -> None:
        super().__init__(message)
        self.hint = hint


class SkippedPython(NamedTuple):
    """An environment that is not used."""

    path: str
    source: str
    reason: str
    untrusted: bool = False
    """Whether the user did not consent to run it."""


class PythonChoice(NamedTuple):
    """The interpreter to use, and the environments before it that cannot run the worker."""

    python: ModelPython
    skipped: tuple[SkippedPython, ...] = ()


# ---- the option


def named_python(path: str, variables: Mapping[str, str] = os.environ, consent: Consent = NOBODY) -> ModelPython:
    """Return the interpreter that `--python PATH` names. Raises `PythonNotUsableError`.

    PATH is an interpreter, the folder of a virtual or conda environment, or the name of a conda environment. One that
    the configuration of a project names is run only with the user's consent.
    """
    executable = _executable(path, variables)
    if isinstance(path, RepositoryText):
        purpose = f"run the model with {executable} ({path.place})"
        if reason := refusal(executable, path.root, consent, purpose):
            raise PythonNotUsableError(f"{path.place}: python = {str(path)!r} is not run.", reason)
    return _queried(ModelPython(executable, "--python"), shown=path)


def _executable(path: str, variables: Mapping[str, str]) -> str:
    path = os.path.expanduser(path)
    if os.path.isdir(path):
        return _interpreter(path)
    if os.path.exists(path) or os.sep in path:
        return os.path.abspath(path)
    program = shutil.which(path) or next((_interpreter(env) for env in _conda_environments(path, variables)), None)
    if program is None:
        raise PythonNotUsableError(
            f"--python {path}: there is no such file, program or conda environment.",
            "Name an interpreter, such as .venv/bin/python, or the folder of its environment.",
        )
    return program


def _interpreter(folder: str) -> str:
    """Return the interpreter of an environment. Raises `PythonNotUsableError`."""
    for name in ("python", "python3"):
        if os.path.exists(program := os.path.join(os.path.abspath(folder), "bin", name)):
            return program
    raise PythonNotUsableError(f"{folder} is not a Python environment: it has no bin/python.")


def _conda_environments(name: str, variables: Mapping[str, str]) -> Iterator[str]:
    """Yield the folders of conda environments with this name."""
    if conda := variables.get("CONDA_EXE"):
        yield from filter(os.path.isdir, [os.path.join(os.path.dirname(os.path.dirname(conda)), "envs", name)])
    with suppress(OSError, UnicodeDecodeError):
        known = Path("~/.conda/environments.txt").expanduser().read_text(encoding="utf-8").splitlines()
        yield from (folder for folder in known if os.path.basename(folder) == name and os.path.isdir(folder))


# ---- the search


def choose_python(file: str, variables: Mapping[str, str] = os.environ, consent: Consent = NOBODY) -> PythonChoice:
    """Return the first of the candidates that can run the worker, else the interpreter that runs tcexplore.

    An environment that nobody named is run only with the user's consent.
    """
    skipped: list[SkippedPython] = []
    for folder, source in candidates(file, variables):
        try:
            if _same(folder, sys.prefix):
                return PythonChoice(_own(), tuple(skipped))
            if source == folder and (reason := _refusal(folder, consent)):
                skipped.append(SkippedPython(folder, source, reason, untrusted=True))
                continue
            return PythonChoice(_queried(ModelPython(_interpreter(folder), source)), tuple(skipped))
        except PythonNotUsableError as error:
            skipped.append(SkippedPython(folder, source, str(error)))
    return PythonChoice(OWN_PYTHON, tuple(skipped))


def _own() -> ModelPython:
    """Return the interpreter that runs tcexplore. Raises `PythonNotUsableError` if it has no torch."""
    if find_spec("torch") is None:
        raise PythonNotUsableError(f"{sys.executable} has no torch.")
    return OWN_PYTHON


def candidates(file: str, variables: Mapping[str, str] = os.environ) -> Iterator[tuple[str, str]]:
    """Yield the folder of each environment for a file and where it is named: the active one, then those near it."""
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        if variables.get(name):
            yield variables[name], name
    for folder in _project_folders(os.path.dirname(os.path.abspath(file))):
        for name in (".venv", "venv"):
            path = os.path.join(folder, name)
            if os.path.exists(os.path.join(path, "pyvenv.cfg")):
                yield path, path


def _project_folders(folder: str) -> list[str]:
    """Return the file's folder, and those above it up to the repository's root, or to the home folder."""
    home, above = os.path.expanduser("~"), [folder, *map(str, Path(folder).parents)]
    for number, path in enumerate(above):
        if path == home or os.path.exists(os.path.join(path, ".git")):
            return above[: number + 1]
    return above[:1]


def _refusal(folder: str, consent: Consent) -> str:
    """Return why an environment that nobody named may not be run; empty if it may."""
    interpreter = _interpreter(folder)
    # The root is that of the folder that holds the environment, which may itself be a link to another place.
    root = root_of(os.path.dirname(os.path.abspath(folder)))
    return refusal(interpreter, root, consent, f"run the model with {interpreter}")


def _same(folder: str, other: str) -> bool:
    return os.path.realpath(folder) == os.path.realpath(other)


# ---- the query of an interpreter


def _queried(python: ModelPython, shown: str = "") -> ModelPython:
    """Return an interpreter with its versions. Raises `PythonNotUsableError` if it can't run a worker."""
    name = f"--python {shown}" if shown else python.executable
    answer = _query(python, name)
    if not _within(answer.version, PYTHONS):
        raise PythonNotUsableError(f"{name} is Python {answer.version}; tcexplore needs {_span(PYTHONS)}.")
    if not answer.torch:
        raise PythonNotUsableError(f"{name} (Python {answer.version}) has no torch.", install_hint(python.executable))
    if not _within(answer.torch, TORCHES):
        raise PythonNotUsableError(f"{name} has torch {answer.torch}; tcexplore needs {_span(TORCHES)}.")
    return answer


def _query(python: ModelPython, name: str) -> ModelPython:
    """Return an interpreter with the folder and the versions that it reports; without torch, that version is empty."""
    try:
        answer = run_bounded([python.executable, "-c", _QUERY], ANSWER_S, env=python.environment())
    except OSError as error:
        raise PythonNotUsableError(f"{name} cannot be run: {(error.strerror or str(error)).lower()}.") from None
    except NoAnswerError as error:
        raise PythonNotUsableError(f"{name} {error}.") from None
    output, errors = (text.decode("utf-8", "replace") for text in (answer.output, answer.errors))
    lines = output.rpartition(f"\n{_MARK}\n")[2].splitlines()
    if answer.status or len(lines) not in (4, 5):
        reason = (_last_line(errors) or _last_line(output) or "no output")[:200]
        raise PythonNotUsableError(f"{name} is not a working Python (status {answer.status}): {reason}")
    number, executable, prefix, version = lines[:4]
    # A wrapper that sets variables stays; one that starts a second process would hide the worker's parent.
    program = python.executable if number == str(answer.pid) else executable
    return python._replace(executable=program, prefix=prefix, version=version, torch="".join(lines[4:]))


def _last_line(text: str) -> str:
    return next((clean(line).strip() for line in reversed(text.splitlines()) if line.strip()), "")


def parse_version(text: str) -> tuple[int, ...]:
    """Return the numbers of a version, such as (2, 13, 0) for `2.13.0+cu130`; empty if it has none."""
    match = re.match(r"\d+(\.\d+)*", text)
    return tuple(map(int, match.group().split("."))) if match else ()


def _within(version: str, span: Sequence[tuple[int, int]]) -> bool:
    return span[0] <= parse_version(version)[:2] <= span[1]


def _span(span: Sequence[tuple[int, int]]) -> str:
    return " to ".join(f"{major}.{minor}" for major, minor in span)
