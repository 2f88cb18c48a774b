"""Imports ahead: the process that waits for the next save makes the imports that the model file begins with.

Only what the next run would do anyway in the same way is done: import statements, in their order, of installed
packages. A process in which they had an effect that a run would show otherwise ends, and the run gets another one.
"""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import os
import random
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from tcexplore.capture.user_files import UserFiles
from tcexplore.events.commands import EarlyImports
from tcexplore.events.python_source import imported_packages
from tcexplore.worker import process_setup, torch_settings


@dataclass(frozen=True, slots=True)
class EarlyModules:
    """What was imported before the job arrived."""

    modules: frozenset[str] = frozenset()
    """Names of all modules that the imports loaded."""
    packages: tuple[str, ...] = ()
    """Names of the imported packages, in order."""
    seconds: float = 0.0
    began: float = 0.0
    """Time of the day at which the imports began."""
    output: tuple[bytes, bytes] = (b"", b"")
    """What they wrote to standard output and standard error, for the run to repeat."""

    def outdated(self) -> bool:
        """Return whether a file of a loaded module has changed since."""
        files = {getattr(sys.modules.get(name), "__file__", None) for name in self.modules}
        try:
            return any(os.stat(file).st_mtime >= self.began for file in files if file)
        except OSError:
            return True


ahead = EarlyModules()
"""Of this process."""


def import_steps(early: EarlyImports) -> Iterator[float]:
    """Make the imports, one a step, as the run would. End this process if the run would then show something else.

    Yield the seconds to wait for the job before the next step.
    """
    global ahead
    start, began, loaded, state = time.perf_counter(), time.time(), frozenset(sys.modules), _state()
    user_files = UserFiles(early.file)
    packages: list[str] = []
    output = (b"", b"")
    with _as_run(early):
        for statement in early.statements:
            (node,) = ast.parse(statement).body
            assert isinstance(node, ast.Import | ast.ImportFrom)
            imported = imported_packages(node)
            if not all(_installed(package, user_files) for package in imported):
                break
            packages += imported
            with _compile_watched(), _output_kept() as written:
                try:
                    exec(compile(statement, early.file, "exec", dont_inherit=True), {"__name__": "__main__"})
                except BaseException:  # noqa: BLE001  the run may fail otherwise with modules that are imported in part
                    end_process()
            output = (output[0] + written[0], output[1] + written[1])
            new = frozenset(sys.modules) - loaded
            if _calls or _binds_compile(new) or _state() != state or user_files.imported(since=loaded):
                end_process()
            ahead = EarlyModules(new, tuple(dict.fromkeys(packages)), time.perf_counter() - start, began, output)
            yield 0


def use_imports() -> None:
    """Write what the imports wrote, now that the standard streams are those of the run; end an outdated process."""
    if ahead.outdated():
        end_process()
    for descriptor, text in zip((1, 2), ahead.output, strict=True):
        with contextlib.suppress(OSError):
            while text:
                text = text[os.write(descriptor, text) :]


def end_process() -> None:
    """End this process: without an event, the front end runs the job in another one."""
    os.kill(os.getpid(), signal.SIGKILL)


def _installed(package: str, user_files: UserFiles) -> bool:
    """Return whether a package is found, and not among the user's own modules, which may change before the run."""
    with contextlib.suppress(ImportError, ValueError):
        spec = importlib.util.find_spec(package)
        return spec is not None and bool(spec.origin) and not user_files.owns(str(spec.origin))
    return False


@contextlib.contextmanager
def _as_run(early: EarlyImports) -> Iterator[None]:
    """Have the path and the arguments of a run."""
    argv, path, written = sys.argv, list(sys.path), sys.dont_write_bytecode
    sys.argv, sys.dont_write_bytecode = [early.file, *early.argv], True
    sys.path.insert(0, os.path.dirname(early.file))
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):
            sys.path.remove(os.path.dirname(early.file))
        if sys.path[: len(path)] != path:
            end_process()  # in the run, the file's folder would not come first
        sys.argv, sys.dont_write_bytecode = argv, written


def _state() -> tuple[Any, ...]:
    """Return what a run sets before its imports, or reports if they change it."""
    numpy = sys.modules.get("numpy")
    drawn = (
        None if numpy is None else [bytes(part) if hasattr(part, "data") else part for part in numpy.random.get_state()]
    )
    variables = {name: value for name, value in os.environ.items() if torch_settings.is_read_on_import(name)}
    return (
        random.getstate(), bytes(torch.get_rng_state().numpy()), drawn,
        torch.get_num_threads(), torch.get_default_dtype(), torch.is_grad_enabled(), variables,
        torch_settings.option_values(),
    )  # fmt: skip


_compile = torch.compile

_calls: list[None] = []
"""One item for each call of `torch.compile` in the imports."""


def _watched(*args: Any, **kwargs: Any) -> Any:
    _calls.append(None)
    return _compile(*args, **kwargs)


@contextlib.contextmanager
def _compile_watched() -> Iterator[None]:
    """Note calls of `torch.compile`, which a run observes."""
    torch.compile = _watched
    try:
        yield
    finally:
        torch.compile = _compile


def _binds_compile(modules: frozenset[str]) -> bool:
    """Return whether one of the modules has its own name for `torch.compile`, which a run replaces before imports."""
    names = (getattr(sys.modules.get(name), "__dict__", {}) for name in modules)
    return any(value is _watched for each in names for value in list(each.values()))


@contextlib.contextmanager
def _output_kept() -> Iterator[list[bytes]]:
    """Give a list that has, at the end, what was written to standard output and standard error."""
    written: list[bytes] = [b"", b""]
    process_setup.flush_output()
    files = [os.memfd_create(name) for name in ("stdout", "stderr")]
    originals = [os.dup(1), os.dup(2)]
    for target, file in zip((1, 2), files, strict=True):
        os.dup2(file, target)
    try:
        yield written
    finally:
        process_setup.flush_output()
        for index, (original, file) in enumerate(zip(originals, files, strict=True)):
            os.dup2(original, index + 1)
            os.close(original)
            written[index] = os.pread(file, os.fstat(file).st_size, 0)
            os.close(file)
