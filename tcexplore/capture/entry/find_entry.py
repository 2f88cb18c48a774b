"""The rules by which model and inputs are found in a module that has been run."""

from __future__ import annotations

import difflib
import inspect
import os
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

import torch

from tcexplore.capture.entry.entry import Call, Entry, EntryError
from tcexplore.capture.entry.entry_inputs import calls_from, moved, tensors_of
from tcexplore.capture.entry.input_specs import call_from
from tcexplore.capture.user_files import UserFiles
from tcexplore.events import Config, Job, Location

EXAMPLE = """\
A file that works, whole:
  import torch

  model = torch.nn.Linear(64, 8)
  inputs = (torch.randn(32, 64),)"""
_RESERVED = {"inputs", "loss"}


class _Found(NamedTuple):
    name: str
    value: Any
    rule: str


def find(module: ModuleType, job: Job, project: UserFiles) -> Entry:
    """The entry of a module, by the file contract's rules 1, 2 and 4.

    Raises `EntryError` with what was looked for; what the user's own code raises on the way passes through.
    """
    found = _target(module, job)
    target = _made(found)
    calls = _calls(module, job.config, target)
    if calls is None:
        raise EntryError(f"`{found.name}` is there, but no inputs to call it with.", _looked_for(module, job))
    notes: tuple[str, ...] = ()
    if job.config.device is not None:
        target, calls = _on_device(target, calls, job.config.device)
    elif torch.cuda.is_available() and not _uses_gpu(target, calls):
        notes = ("A GPU is here, but the file stays on the CPU: --device cuda moves model and inputs.",)
    eager, compiled = _parted(target)
    if compiled is not None:
        notes = (*notes, "The file compiled it itself: its own arguments to torch.compile are used.")
    kind = "module" if isinstance(eager, torch.nn.Module) else "function"
    location = _location(eager, project)
    return Entry(found.name, kind, found.rule, _plain_call(eager), calls, compiled, location, notes)


def _target(module: ModuleType, job: Job) -> _Found:
    if job.name is not None:
        if not hasattr(module, job.name):
            raise EntryError(_no_such_name(module, job.name), _looked_for(module, job), "arguments")
        return _Found(job.name, getattr(module, job.name), f"named on the command line: {job.name}")
    if hasattr(module, "model"):
        with_ = "--input" if job.config.inputs else "`inputs`"
        return _Found("model", module.model, f"module-level `model`, with {with_}")
    classes, functions = candidates(module)
    only = classes if classes else functions
    if len(only) != 1:
        raise EntryError(_none_or_several(module, only), _looked_for(module, job))
    kind = "nn.Module class" if classes else "function"
    return _Found(only[0], getattr(module, only[0]), f"the only {kind} in the file")


def _none_or_several(module: ModuleType, names: list[str]) -> str:
    if not names:
        return f"There is no model in {_file(module)}."
    return f"{_file(module)} has several things that could be meant: {', '.join(names)}."


def candidates(module: ModuleType) -> tuple[list[str], list[str]]:
    """Names of the `nn.Module` classes and of the functions that the file itself defines, in its order."""
    classes, functions = [], []
    for name, value in vars(module).items():
        if name.startswith("_") or name in _RESERVED or getattr(value, "__module__", None) != module.__name__:
            continue
        if isinstance(value, type) and issubclass(value, torch.nn.Module):
            classes.append(name)
        elif inspect.isfunction(value):
            functions.append(name)
    return classes, functions


def _made(found: _Found) -> Callable[..., Any]:
    """The thing to call: itself, or for a module class an instance of it."""
    value = found.value
    if isinstance(value, type) and issubclass(value, torch.nn.Module):
        needed = [
            p.name for p in inspect.signature(value).parameters.values()
            if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
        ]  # fmt: skip
        if needed:
            hint = f"Make one in the file, for instance: model = {value.__name__}({', '.join(needed)})"
            raise EntryError(f"{value.__name__} cannot be made without {', '.join(needed)}.", hint)
        instance: Callable[..., Any] = value()
        return instance
    if not callable(value):
        raise EntryError(
            f"`{found.name}` is of type {type(value).__name__}, which cannot be called.",
            "It must be an nn.Module or a function.",
        )
    made: Callable[..., Any] = value
    return made


def _calls(module: ModuleType, config: Config, target: Callable[..., Any]) -> tuple[Call, ...] | None:
    if config.inputs:
        return (call_from(config.inputs, _device_of(target)),)
    return calls_from(module.inputs) if hasattr(module, "inputs") else None


def _device_of(target: Callable[..., Any]) -> torch.device | None:
    if not isinstance(target, torch.nn.Module):
        return None
    return next((p.device for p in target.parameters()), None)


def _on_device(
    target: Callable[..., Any], calls: tuple[Call, ...], name: str
) -> tuple[Callable[..., Any], tuple[Call, ...]]:
    try:
        device = torch.empty(0, device=name).device
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).partition("\n")[0]
        raise EntryError(f"--device {name}: {reason}", "Leave it out to stay where the file is.", "arguments") from None
    if isinstance(target, torch.nn.Module):
        target = target.to(device)
    return target, moved(calls, device)


def _uses_gpu(target: Callable[..., Any], calls: tuple[Call, ...]) -> bool:
    parameters = list(target.parameters()) if isinstance(target, torch.nn.Module) else []
    return any(tensor.is_cuda for tensor in (*parameters, *tensors_of(calls)))


def _parted(target: Any) -> tuple[Any, Callable[..., Any] | None]:
    """A target that the file compiled itself, as what it was before and what it is now."""
    for attribute in ("_orig_mod", "_torchdynamo_orig_callable"):
        original = getattr(target, attribute, None)
        if original is not None:
            return original, target
    if getattr(target, "_compiled_call_impl", None) is not None:
        return target, target
    return target, None


def _plain_call(eager: Any) -> Callable[..., Any]:
    """How to call it eagerly: a module compiled in place would otherwise compile."""
    compiled_in_place = getattr(eager, "_compiled_call_impl", None) is not None
    call: Callable[..., Any] = eager._call_impl if compiled_in_place else eager
    return call


def _location(eager: Any, project: UserFiles) -> Location | None:
    function = type(eager).forward if isinstance(eager, torch.nn.Module) else inspect.unwrap(eager)
    code = getattr(function, "__code__", None)
    if code is None or not project.owns(code.co_filename):
        return None
    return Location(os.path.abspath(code.co_filename), code.co_firstlineno, code.co_name)


def _no_such_name(module: ModuleType, name: str) -> str:
    close = difflib.get_close_matches(name, vars(module), n=1)
    did_you = f" Did you mean `{close[0]}`?" if close else ""
    return f"{_file(module)} has no `{name}`.{did_you}"


def _looked_for(module: ModuleType, job: Job) -> str:
    """What each rule of the file contract found, and a file that works."""
    classes, functions = candidates(module)
    has = {True: "there", False: "not there"}
    return "\n".join((
        "Looked for:",
        f"  a name, as in {_file(module)}:NAME: {job.name or 'none given'}",
        f"  `model`: {has[hasattr(module, 'model')]}; `inputs`: {has[hasattr(module, 'inputs')]}; "
        f"--input: {' '.join(job.config.inputs) or 'not given'}",
        "  a torch.compile of the file's own: none",
        f"  a single nn.Module class or function: {', '.join((*classes, *functions)) or 'none'}",
        EXAMPLE,
    ))  # fmt: skip


def _file(module: ModuleType) -> str:
    return os.path.basename(module.__file__ or module.__name__)
