"""The model's Python: the interpreter that runs the user's file, and the command that starts tcexplore's worker in it.

Nothing is installed into its environment: the command makes this package, and nothing else, importable there.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

_ROOT = str(Path(__file__).resolve().parents[1])

_START = """\
import importlib, sys
from importlib.machinery import PathFinder
class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        return PathFinder.find_spec(name, [{root!r}]) if name == "tcexplore" else None
sys.meta_path.insert(0, Finder)
sys.exit(importlib.import_module({module!r}).main())
"""
"""Not `python -m`: a file in the current directory must not shadow a module that torch imports. The finder comes first,
since the environment may have another version of tcexplore, and it finds no other package of the front end."""

_NOT_INHERITED = ("PYTHONHOME", "__PYVENV_LAUNCHER__", "VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV")
"""Variables that describe the front end's own Python."""


class ModelPython(NamedTuple):
    """An interpreter for the worker. By default it is the one that runs tcexplore."""

    executable: str = sys.executable
    source: str = ""
    """Where it is named: `--python`, `VIRTUAL_ENV`, `CONDA_PREFIX`, or the folder of an environment; empty for the
    interpreter that runs tcexplore."""
    version: str = ""
    """Version of Python; empty if it was not queried."""
    torch: str = ""
    """Version of torch; empty if it was not queried."""
    prefix: str = ""
    """The environment's folder."""

    @property
    def own(self) -> bool:
        """Whether it is the interpreter that runs tcexplore, and nothing names it."""
        return not self.source

    @property
    def label(self) -> str:
        """Its versions, such as `Python 3.12.4, torch 2.11.0`."""
        return f"Python {self.version}, torch {self.torch}"

    def command(self, module: str, *arguments: str) -> list[str]:
        """Return the command that calls `main` of a module of tcexplore."""
        return [self.executable, "-P", "-c", _START.format(root=_ROOT, module=module), *arguments]

    def environment(self, inherited: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return the environment variables of its processes: those of an activated environment."""
        variables = dict(os.environ if inherited is None else inherited)
        if self.own:
            return variables
        for name in _NOT_INHERITED:
            variables.pop(name, None)
        kinds = {"pyvenv.cfg": "VIRTUAL_ENV", "conda-meta": "CONDA_PREFIX"}
        for mark, variable in kinds.items():
            if self.prefix and os.path.exists(os.path.join(self.prefix, mark)):
                variables[variable] = self.prefix
                programs = os.path.join(self.prefix, "bin")
                variables["PATH"] = os.pathsep.join(filter(None, (programs, variables.get("PATH"))))
        return variables

    def start_worker(self, options: Sequence[str] = ()) -> StartedWorker:
        """Start a worker process, in a session of its own. Raise `OSError` if it cannot be started."""
        control, theirs = socket.socketpair()
        control.setblocking(False)
        output, write = os.pipe()
        arguments = ["--control-fd", str(theirs.fileno()), "--parent", str(os.getpid()), *options]
        try:
            process = subprocess.Popen(
                self.command("tcexplore.worker.__main__", *arguments), stdin=subprocess.DEVNULL, stdout=write,
                stderr=write, pass_fds=[theirs.fileno()], start_new_session=True, cwd=_working_directory(),
                env=self.environment(),
            )  # fmt: skip
        except OSError:
            os.close(output)
            control.close()
            raise
        finally:
            os.close(write)
            theirs.close()
        return StartedWorker(process, control, output)


@dataclass(frozen=True, slots=True)
class StartedWorker:
    """A worker process that imports torch, and this side of its connections."""

    process: subprocess.Popen[bytes]
    control: socket.socket
    """Takes commands and gives reports. It does not block."""
    output: int
    """Descriptor of the pipe with its standard output and standard error."""


def _working_directory() -> str | None:
    """Return None for this process's own; the root if it was removed, in which torch cannot be imported."""
    try:
        os.getcwd()
    except FileNotFoundError:
        return "/"
    return None


OWN_PYTHON = ModelPython()


def install_hint(executable: str) -> str:
    """Return what to do about an interpreter without torch."""
    return f"Install torch, or name another Python with --python: {executable} -m pip install torch"
