"""Compiled code for another process: torch's portable cache artifacts, or code compiled ahead of the first call."""

from __future__ import annotations

import importlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from tcexplore.capture.dynamo.guards import leaf_guards
from tcexplore.capture.entry import EntryError
from tcexplore.capture.hooks import Emit, Hooks
from tcexplore.events import ArtifactsLoaded, ArtifactsSaved, Job
from tcexplore.events.config import IN_CACHES, Shipping
from tcexplore.worker.program import Program
from tcexplore.worker.regional_compile import compile_arguments

Function = Callable[..., Any]


def use_compiled_ahead(program: Program, job: Job, emit: Emit) -> None:
    """Compile the program ahead of its calls and save it, or load it; its calls then use that.

    Do nothing for artifacts in caches. Propagate exceptions of torch.
    """
    file = job.save_artifacts or job.load_artifacts
    if not file or job.artifacts in IN_CACHES:
        return
    if program.train:
        raise EntryError(f"{job.artifacts} compiles no backward.", "Leave out --train.", "arguments")
    save, load = _WAYS[job.artifacts]
    start = time.perf_counter()
    with program.grad_context():
        if job.save_artifacts:
            guards = save(program, job, file)
            seconds = time.perf_counter() - start
            written = (path for path in (file, _cache_of(file)) if os.path.exists(path))
            emit(ArtifactsSaved(bytes=sum(map(os.path.getsize, written)), seconds=seconds, guards=guards))
        else:
            program.compiled = load(program, file)
            emit(ArtifactsLoaded(seconds=time.perf_counter() - start))


# ---- AOTInductor


def _save_package(program: Program, _job: Job, file: str) -> int:
    """Export the program for its first call, and compile a package, which checks no guards; return 0."""
    call = program.entry.calls[0]
    exported = torch.export.export(_as_module(program), tuple(call.args), dict(call.kwargs))
    torch._inductor.aoti_compile_and_package(exported, package_path=file)
    program.compiled = _load_package(program, file)
    return 0


def _load_package(_program: Program, file: str) -> Function:
    package: Function = torch._inductor.aoti_load_package(file)
    return lambda *args, **kwargs: package(*args, **kwargs)


def _as_module(program: Program) -> nn.Module:
    function, owner = _function_and_owner(program)
    if owner is not None and function == owner.forward:
        return owner
    return _FunctionModule(function, owner)


class _FunctionModule(nn.Module):  # type: ignore[misc]
    """A function as the module that `torch.export` asks for, with the module whose parameters it uses."""

    def __init__(self, function: Function, owner: nn.Module | None) -> None:
        super().__init__()
        self.function = function
        self.owner = owner

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)


# ---- aot_compile


def _save_function(program: Program, job: Job, file: str) -> int | None:
    """Compile the program for its first call; return the number of guards that its calls check."""
    call = program.entry.calls[0]
    target, owner = _function_and_owner(program)
    if getattr(torch._dynamo.config, "enable_aot_compile", None) is False:
        torch._dynamo.config.enable_aot_compile = True  # off by default before torch 2.13
    compiled = torch.compile(target, **{**compile_arguments(job.config), "fullgraph": True})
    if not hasattr(compiled, "aot_compile"):
        message = "This torch has no aot_compile for compiled functions."
        raise EntryError(message, "Leave aot_compile out of --ways.", "arguments")
    function = compiled.aot_compile((tuple(call.args), dict(call.kwargs)))
    function.save_compiled_function(file)
    program.compiled = _bound(function, owner)
    return _guard_count(function)


def _load_function(program: Program, file: str) -> Function:
    target, owner = _function_and_owner(program)
    names = getattr(target, "__globals__", None)
    with open(file, "rb") as data:
        function = torch.compiler.load_compiled_function(data, f_globals=names)
    return _bound(function, owner)


def _function_and_owner(program: Program) -> tuple[Function, nn.Module | None]:
    """Return what to compile, and the module that the compiled function takes as its first argument."""
    target, module = program.entry.target, program.module
    if module is None:
        return target, None
    method = getattr(target, "__name__", "")
    is_call = isinstance(target, nn.Module) or method == "_call_impl"  # of a module that the file compiled in place
    return (module.forward if is_call else target), module


def _bound(function: Function, owner: nn.Module | None) -> Function:
    return function if owner is None else lambda *args, **kwargs: function(owner, *args, **kwargs)


# ---- precompile.capture


def _save_capture(program: Program, _job: Job, file: str) -> int:
    """Trace, compile and run the first call; return 0, since its inputs are checked without guards."""
    call = program.entry.calls[0]
    target, owner = _function_and_owner(program)
    names = tuple(call.kwargs)
    modules = () if owner is None else (owner,)

    def computation(*values: Any) -> Any:
        arguments = values[len(modules) :]
        positional, named = arguments[: len(call.args)], arguments[len(call.args) :]
        return target(*positional, **dict(zip(names, named, strict=True)))

    capture = _precompile().capture(computation, artifact_path=file, cache_path=_cache_of(file))
    with capture as captured:
        captured(*modules, *call.args, *call.kwargs.values())
    program.compiled = _load_capture(program, file)
    return 0


def _load_capture(program: Program, file: str) -> Function:
    function: Function = _precompile().load(file, _cache_of(file))
    _, owner = _function_and_owner(program)
    bound = _bound(function, owner)
    return lambda *args, **kwargs: bound(*args, *kwargs.values())


def _precompile() -> Any:
    try:
        return importlib.import_module("torch.compiler.precompile")
    except ImportError:
        message = "This torch has no torch.compiler.precompile.capture."
        raise EntryError(message, "Leave precompile_capture out of --ways.", "arguments") from None


def _cache_of(file: str) -> str:
    """Return the path of the kernels that belong to a captured call."""
    return f"{file}.cache"


_WAYS: dict[Shipping, tuple[Callable[[Program, Job, str], int | None], Callable[[Program, str], Function]]] = {
    "aot_compile": (_save_function, _load_function),
    "precompile_capture": (_save_capture, _load_capture),
    "aotinductor": (_save_package, _load_package),
}
"""How to save a program, which returns the number of its guards, and how to load it."""


def _guard_count(function: Any) -> int | None:
    """Return the number of leaf guards of a compiled function; None if this torch does not show them."""
    manager = getattr(getattr(function, "_artifacts", None), "guard_manager", None)
    root = getattr(manager, "root", None)
    return None if root is None else sum(1 for _ in leaf_guards(root))


FACT = "cache artifacts"


def load_artifacts(job: Job, hooks: Hooks) -> None:
    """Load the artifacts of `job.load_artifacts`, before anything is compiled, and emit `ArtifactsLoaded`."""
    if job.load_artifacts and job.artifacts in IN_CACHES:
        hooks.attempt(FACT, "torch.compiler:load_cache_artifacts", _load_artifacts, job.load_artifacts, hooks)


def save_artifacts(job: Job, hooks: Hooks) -> None:
    """Save the artifacts of everything compiled so far to `job.save_artifacts`, and emit `ArtifactsSaved`."""
    if job.save_artifacts and job.artifacts in IN_CACHES:
        hooks.attempt(FACT, "torch.compiler:save_cache_artifacts", _save_artifacts, job.save_artifacts, hooks)


def _load_artifacts(file: str, hooks: Hooks) -> None:
    data, start = Path(file).read_bytes(), time.perf_counter()
    info = torch.compiler.load_cache_artifacts(data)
    hooks.emit(ArtifactsLoaded(seconds=time.perf_counter() - start, kinds=_kinds(info)))


def _save_artifacts(file: str, hooks: Hooks) -> None:
    start = time.perf_counter()
    artifacts = torch.compiler.save_cache_artifacts()
    if artifacts is None:
        hooks.emit(ArtifactsSaved(bytes=0))
        return
    data, info = artifacts
    Path(file).write_bytes(data)
    hooks.emit(ArtifactsSaved(bytes=len(data), kinds=_kinds(info), seconds=time.perf_counter() - start))


def _kinds(info: Any) -> tuple[tuple[str, int], ...]:
    artifacts = getattr(info, "artifacts", None) or {}
    return tuple(sorted((str(kind), len(keys)) for kind, keys in artifacts.items()))
