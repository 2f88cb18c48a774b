"""The state that the program's calls start from, so that eager calls start where the compiled ones did."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable, Collection, Iterator
from types import ModuleType
from typing import Any

import torch

from tcexplore.accuracy.python_state import PythonState, copy_small, set_values
from tcexplore.capture.user_files import UserFiles

LARGEST_COPIED = 64 << 10
"""Bytes of a tensor above which its values are not copied: to copy a megabyte delays the first graph by 1 ms.

Torch counts the writes to a tensor, so a larger one that was changed is known. The exception is batch norm, whose
statistics are small.
"""


def user_state(
    model: torch.nn.Module | None,
    file: ModuleType,
    user_files: UserFiles,
    loaded: Collection[str],
    *,
    largest_copied: int | None = None,
) -> PythonState:
    """Return the Python state of a program that was just imported: of its model, and of the user's globals.

    `loaded` are the names of modules imported before the model file, `largest_copied` is that of `PythonState`.
    """
    roots: dict[str, object] = {} if model is None else {"self": model}
    # Not those of a library that defines the model: it has hundreds of modules.
    files = {user_files.file, *user_files.imported(since=loaded)}
    for name, imported in (*sys.modules.items(), (file.__name__, file)):
        source = getattr(imported, "__file__", None)
        if name not in loaded and source and os.path.abspath(source) in files:
            roots[name] = imported

    def owned(value: Any) -> bool:
        source = getattr(sys.modules.get(getattr(value, "__module__", None) or ""), "__file__", None) or ""
        return bool(source) and user_files.owns(os.path.abspath(source))

    return PythonState(roots, owned, largest_copied=largest_copied)


class ProgramState:
    """Python state, parameters, buffers and random generators before the program's first call.

    `model` is compiled, None for a function; the other arguments are those of `user_state`.
    """

    def __init__(
        self, model: torch.nn.Module | None, file: ModuleType, user_files: UserFiles, loaded: Collection[str]
    ) -> None:
        self._python = user_state(model, file, user_files, loaded, largest_copied=LARGEST_COPIED)
        self._generators = _generators()
        self._copies, self._versions = copy_small(_registered(model), LARGEST_COPIED)

    def restore(self) -> tuple[str, ...]:
        """Set the state back, and return the paths of what has changed and cannot be set back."""
        self._python.restore()
        with torch.no_grad():
            for tensor, values in self._copies:
                set_values(tensor, values)
                if tensor.grad_fn is not None and not tensor._is_view():
                    # A buffer that was updated with gradients would keep the graph of the calls.
                    tensor.detach_()
        for restore in self._generators:
            restore()
        return (*self._python.not_restored(), *self._versions.changed())


def _registered(module: torch.nn.Module | None) -> Iterator[tuple[str, torch.Tensor]]:
    if module is not None:
        yield from module.named_parameters()
        yield from module.named_buffers()


def _generators() -> list[Callable[[], object]]:
    """Return functions that set the random generators back to their present states."""
    seeds, python = torch.get_rng_state(), random.getstate()
    restorers: list[Callable[[], object]] = [lambda: torch.set_rng_state(seeds), lambda: random.setstate(python)]
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None:
        state = numpy.random.get_state()
        restorers.append(lambda: numpy.random.set_state(state))
    if torch.cuda.is_initialized():
        devices = torch.cuda.get_rng_state_all()
        restorers.append(lambda: torch.cuda.set_rng_state_all(devices))
    return restorers
