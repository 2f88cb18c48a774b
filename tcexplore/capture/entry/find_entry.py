"""The rules that find the model and its inputs in a module that has been run."""

from __future__ import annotations

import difflib
import inspect
import os
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

import torch

from tcexplore.capture.entry.entry import Call, Entry, EntryError
from tcexplore.capture.entry.entry_inputs import collect_tensors, move_calls, parse_call, read_calls
from tcexplore.capture.user_files import UserFiles
from tcexplore.events import Config, Job, Location

EXAMPLE = """\
A complete file that works:
  import torch

  model = torch.nn.Linear(64, 8)
  inputs = (torch.randn(32, 64),)"""
_RESERVED = {"inputs", "loss"}


class _Candidate(NamedTuple):
    name: str
    value: Any
    rule: str


def find_entry(module: ModuleType, job: Job, user_files: UserFiles) -> Entry:
    """Return the entry of a module, by rules 1, 2 and 4 of the file contract.

    Raises `EntryError` with the names that were looked up, and exceptions of the user's code.
    """
    candidate = _find_candidate(module, job)
    target = _make_target(candidate)
    calls = _make_calls(module, job.config, target)
    if calls is None:
        raise EntryError(f"There are no inputs to call `{candidate.name}` with.", _lookup_report(module, job))
    notes: tuple[str, ...] = ()
    if job.config.device is not None:
        target, calls = _move_to_device(target, calls, job.config.device)
    elif torch.cuda.is_available() and not _uses_gpu(target, calls):
        notes = ("A GPU is available, but the file uses the CPU: --device cuda moves model and inputs.",)
    eager, compiled = _split_compiled(target)
    if compiled is not None and not job.config.override:
        notes = (*notes, "The file compiled it itself; its own arguments to torch.compile apply.")
    return Entry(
        name=candidate.name,
        kind="module" if isinstance(eager, torch.nn.Module) else "function",
        rule=candidate.rule,
        target=_eager_call(eager),
        calls=calls,
        compiled=compiled,
        location=_location(eager, user_files),
        notes=notes,
    )


def _find_candidate(module: ModuleType, job: Job) -> _Candidate:
    if job.name is not None:
        if not hasattr(module, job.name):
            raise EntryError(_unknown_name(module, job.name), _lookup_report(module, job), "arguments")
        return _Candidate(job.name, getattr(module, job.name), f"named on the command line: {job.name}")
    if hasattr(module, "model"):
        inputs = "--input" if job.config.inputs else "`inputs`"
        return _Candidate("model", module.model, f"module-level `model`, with {inputs}")
    classes, functions = _defined_names(module)
    names = classes or functions
    if len(names) != 1:
        several = f"{_file_name(module)} has several candidates: {', '.join(names)}."
        message = several if names else f"There is no model in {_file_name(module)}."
        raise EntryError(message, _lookup_report(module, job))
    kind = "nn.Module class" if classes else "function"
    return _Candidate(names[0], getattr(module, names[0]), f"the only {kind} in the file")


def _defined_names(module: ModuleType) -> tuple[list[str], list[str]]:
    """Return the names of the `nn.Module` classes and of the functions that the file itself defines, in its order."""
    classes, functions = [], []
    for name, value in vars(module).items():
        if name.startswith("_") or name in _RESERVED or getattr(value, "__module__", None) != module.__name__:
            continue
        if isinstance(value, type) and issubclass(value, torch.nn.Module):
            classes.append(name)
        elif inspect.isfunction(value):
            functions.append(name)
    return classes, functions


def _make_target(candidate: _Candidate) -> Callable[..., Any]:
    """Return the object to call. A module class is instantiated."""
    value = candidate.value
    if isinstance(value, type) and issubclass(value, torch.nn.Module):
        required = [
            p.name for p in inspect.signature(value).parameters.values()
            if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
        ]  # fmt: skip
        if required:
            hint = f"Create one in the file, for example: model = {value.__name__}({', '.join(required)})"
            raise EntryError(f"{value.__name__} can't be created without {', '.join(required)}.", hint)
        instance: Callable[..., Any] = value()
        return instance
    if not callable(value):
        raise EntryError(
            f"`{candidate.name}` is of type {type(value).__name__}, which can't be called.",
            "It must be an nn.Module or a function.",
        )
    target: Callable[..., Any] = value
    return target


def _make_calls(module: ModuleType, config: Config, target: Callable[..., Any]) -> tuple[Call, ...] | None:
    if config.inputs:
        return (parse_call(config.inputs, _parameter_device(target)),)
    return read_calls(module.inputs) if hasattr(module, "inputs") else None


def _parameter_device(target: Callable[..., Any]) -> torch.device | None:
    if not isinstance(target, torch.nn.Module):
        return None
    return next((p.device for p in target.parameters()), None)


def _move_to_device(
    target: Callable[..., Any], calls: tuple[Call, ...], name: str
) -> tuple[Callable[..., Any], tuple[Call, ...]]:
    try:
        device = torch.empty(0, device=name).device
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).partition("\n")[0]
        raise EntryError(f"--device {name}: {reason}", "Omit it to use the file's own device.", "arguments") from None
    if isinstance(target, torch.nn.Module):
        target = target.to(device)
    return target, move_calls(calls, device)


def _uses_gpu(target: Callable[..., Any], calls: tuple[Call, ...]) -> bool:
    parameters = list(target.parameters()) if isinstance(target, torch.nn.Module) else []
    return any(tensor.is_cuda for tensor in (*parameters, *collect_tensors(calls)))


def _split_compiled(target: Any) -> tuple[Any, Callable[..., Any] | None]:
    """Return the original and the compiled form of a target. The latter is None if the file did not compile it."""
    for attribute in ("_orig_mod", "_torchdynamo_orig_callable"):
        original = getattr(target, attribute, None)
        if original is not None:
            return original, target
    if getattr(target, "_compiled_call_impl", None) is not None:
        return target, target
    return target, None


def _eager_call(eager: Any) -> Callable[..., Any]:
    """Return a callable that runs eagerly: calling a module that was compiled in place would compile."""
    compiled_in_place = getattr(eager, "_compiled_call_impl", None) is not None
    call: Callable[..., Any] = eager._call_impl if compiled_in_place else eager
    return call


def _location(eager: Any, user_files: UserFiles) -> Location | None:
    function = type(eager).forward if isinstance(eager, torch.nn.Module) else inspect.unwrap(eager)
    code = getattr(function, "__code__", None)
    if code is None or not user_files.owns(code.co_filename):
        return None
    return Location(os.path.abspath(code.co_filename), code.co_firstlineno, code.co_name)


def _unknown_name(module: ModuleType, name: str) -> str:
    matches = difflib.get_close_matches(name, vars(module), n=1)
    suggestion = f" Did you mean `{matches[0]}`?" if matches else ""
    return f"{_file_name(module)} has no `{name}`.{suggestion}"


def _lookup_report(module: ModuleType, job: Job) -> str:
    """Return the result of each rule of the file contract, and an example of a valid file."""
    classes, functions = _defined_names(module)

    def presence(name: str) -> str:
        return "defined" if hasattr(module, name) else "not defined"

    return "\n".join((
        "Looked for:",
        f"  a name, as in {_file_name(module)}:NAME: {job.name or 'none given'}",
        f"  `model`: {presence('model')}; `inputs`: {presence('inputs')}; "
        f"--input: {' '.join(job.config.inputs) or 'not given'}",
        "  a use of torch.compile in the file: none",
        f"  a single nn.Module class or function: {', '.join((*classes, *functions)) or 'none'}",
        EXAMPLE,
    ))  # fmt: skip


def _file_name(module: ModuleType) -> str:
    return os.path.basename(module.__file__ or module.__name__)
