"""C++ libraries in torch's cache that are whole or not there, whenever a run is ended.

torch lets the linker write a library into the cache, and takes any file of that name for a finished one. A save ends
the run before it, often while it links: an empty library would stay behind, and each later program with this kernel
would fail to load it ("file too short"), also without tcexplore.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from tcexplore.capture.hooks import Hooks
from tcexplore.capture.structured_trace import StructuredTrace
from tcexplore.capture.user_files import UserFiles

FACT = "C++ libraries that are written in one step"
_BUILD = "torch._inductor.cpp_builder:CppBuilder.build"
_COMPILE = "torch._inductor.codecache:_worker_compile_cpp"

PART = ".part"
"""Ends the name of a file that is being written. torch locks a library that it compiles: there is one such file."""

LOCK_S = 1.0
"""Seconds to wait for the lock: another process that holds it for longer compiles the library."""


def install(hooks: Hooks, trace: StructuredTrace, user_files: UserFiles) -> None:  # noqa: ARG001
    """Write whole libraries in a run."""
    write_whole(hooks)


def write_whole(hooks: Hooks) -> None:
    """Let each compile write to another file, which is renamed at its end, and replace libraries that are empty."""
    hooks.wrap(FACT, _BUILD, _renamed_at_end)
    hooks.wrap(FACT, _COMPILE, _without_empty_files)


@contextmanager
def whole_libraries() -> Iterator[None]:
    """Write whole libraries inside this context, where no run has installed its hooks."""
    hooks = Hooks(lambda _: None)
    write_whole(hooks)
    try:
        yield
    finally:
        hooks.remove()


def _renamed_at_end(build: Callable[[Any], None]) -> Callable[[Any], None]:
    @functools.wraps(build)
    def build_and_rename(builder: Any) -> None:
        target, output = builder.get_target_file_path(), getattr(builder, "_output", "")
        if not isinstance(output, str) or not output.endswith(f" {target}"):  # a remote build, or another torch
            return build(builder)
        builder._output = output + PART
        try:
            build(builder)
        finally:
            builder._output = output
        os.replace(target + PART, target)
        return None

    return build_and_rename


def _without_empty_files(compile_cpp: Callable[[str, Sequence[Any]], None]) -> Callable[[str, Sequence[Any]], None]:
    @functools.wraps(compile_cpp)
    def compile_missing(lock_path: str, builders: Sequence[Any]) -> None:
        remove_empty(lock_path, [builder.get_target_file_path() for builder in builders])
        return compile_cpp(lock_path, builders)

    return compile_missing


def remove_empty(lock_path: str, targets: Sequence[str]) -> None:
    """Remove empty files that nobody is writing: who compiles a library holds its lock."""
    if not any(map(_is_empty, targets)):
        return
    with suppress(Exception):  # if it fails, torch reports what is wrong
        from torch.utils._filelock import FileLock

        with FileLock(lock_path, timeout=LOCK_S):
            for target in filter(_is_empty, targets):
                os.unlink(target)


def _is_empty(path: str) -> bool:
    try:
        return os.stat(path).st_size == 0
    except OSError:
        return False
