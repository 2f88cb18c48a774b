"""The entry of the user's file: the rules that find it, and its calls, which its `inputs` or `--input` define."""

from __future__ import annotations

import ast
import difflib
import inspect
import itertools
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cache
from types import ModuleType
from typing import Any, Literal, NamedTuple

import torch
from torch.utils import _pytree as pytree

from tcexplore.capture.tensor_descriptions import dtype_text, tensor_facts
from tcexplore.capture.user_files import UserFiles
from tcexplore.events import Config, Job, Location


class EntryError(Exception):
    """The file or the arguments do not define an entry."""

    def __init__(
        self,
        message: str,
        hint: str = "",
        stage: Literal["file", "arguments"] = "file",
        location: Location | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.stage = stage
        self.location = location


@dataclass(frozen=True, slots=True)
class Call:
    """The arguments of one call."""

    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)

    def map_leaves(self, change: Callable[[Any], Any]) -> Call:
        """Return the call with each leaf of its arguments changed."""
        return Call(pytree.tree_map(change, self.args), pytree.tree_map(change, dict(self.kwargs)))


@dataclass(frozen=True, slots=True)
class CallContext:
    """What surrounds a captured call of a script's region."""

    modes: Callable[[], AbstractContextManager[None]]
    """Returns a context with the grad mode, inference mode and autocast of the call."""
    seed: Callable[[], None]
    """Sets the random generators to their states before the call."""
    grad: bool
    """Whether gradients are on."""
    gradients: Mapping[int, torch.Tensor]
    """The gradients of the outputs that came in the script's backward, by position among the leaves of the result."""
    written_inputs: frozenset[int] = frozenset()
    """Positions of arguments with a gradient that the call writes to: autograd allows that only for copies."""

    def arguments(self, call: Call) -> Call:
        """Return the call with copies of the arguments that it writes to."""
        if not self.written_inputs:
            return call
        positions = itertools.count()
        return call.map_leaves(lambda leaf: leaf.clone() if next(positions) in self.written_inputs else leaf)


@dataclass(frozen=True, slots=True)
class Entry:
    """What to compile, and the calls to make."""

    name: str
    kind: Literal["module", "function"]
    rule: str
    """The rule of the file contract that selected the entry, as a phrase."""
    target: Callable[..., Any]
    """The eager form."""
    calls: tuple[Call, ...]
    compiled: Callable[..., Any] | None = None
    """The target as the file compiled it, or None if the file does not compile it."""
    location: Location | None = None
    notes: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    """Arguments of the file's own torch.compile that are not its defaults."""
    unpadded: tuple[Call, ...] = ()
    """The calls before they were padded, or nothing if they are not padded."""
    context: CallContext | None = None
    """Of a captured call; None if tcexplore makes the calls itself."""


_KINDS = """\
`inputs` may be
  a tuple of positional arguments      inputs = (torch.randn(8, 64),)
  a dict of keyword arguments          inputs = {"x": torch.randn(8, 64)}
  a list of calls, made in order       inputs = [(x, True), (x, False)]
  a function that returns one of these"""
_MAX_LENGTH = 40


def read_calls(inputs: Any) -> tuple[Call, ...]:
    """Return the calls that a file's `inputs` define. Raises `EntryError`, and exceptions of the user's function."""
    if callable(inputs) and not isinstance(inputs, torch.nn.Module | torch.Tensor):
        inputs = inputs()
    if isinstance(inputs, list):
        if not inputs:
            raise EntryError("`inputs` is an empty list: there is no call to make.", _KINDS)
        return tuple(_read_call(value, f"inputs[{index}]") for index, value in enumerate(inputs))
    return (_read_call(inputs, "inputs"),)


def _read_call(value: Any, name: str) -> Call:
    if isinstance(value, tuple):
        return Call(args=tuple(value))
    if isinstance(value, Mapping):
        bad_key = next((key for key in value if not isinstance(key, str)), None)
        if bad_key is not None:
            raise EntryError(f"`{name}` is a dict with the key {bad_key!r}: keyword arguments have names.", _KINDS)
        return Call(kwargs=dict(value))
    type_name = type(value).__name__
    article = "an" if type_name[:1].lower() in "aeiou" else "a"
    raise EntryError(f"`{name}` is {article} {type_name}, not a tuple or dict of arguments.", _KINDS)


def modules_of(target: Callable[..., Any], calls: Sequence[Call]) -> dict[str, torch.nn.Module]:
    """Return the modules that a function of no module uses, by the names that it has for them.

    It may read them from its arguments, from attributes of an object among them or of its own, from the functions
    around it, and from the globals of its file.
    """
    values: list[tuple[str, Any]] = []
    for call in calls:
        leaves, _ = pytree.tree_flatten_with_path((call.args, dict(call.kwargs)))
        values += [(_name_in_call(path), leaf) for path, leaf in leaves]
    values += [("self", owner) for owner in [getattr(target, "__self__", None)] if owner is not None]
    values += [
        (name, value)
        for _, owner in values
        if not isinstance(owner, torch.nn.Module | torch.Tensor)
        for name, value in getattr(owner, "__dict__", {}).items()
    ]
    try:
        read = inspect.getclosurevars(inspect.unwrap(target))
    except (TypeError, ValueError):  # a built-in function, or an object that is called
        pass
    else:
        values += [*read.nonlocals.items(), *read.globals.items()]
    modules: dict[str, torch.nn.Module] = {}
    for name, value in values:
        if isinstance(value, torch.nn.Module) and all(value is not known for known in modules.values()):
            own = str(name).replace(".", "_") or "module"
            modules[f"{own} {len(modules) + 1}" if own in modules else own] = value
    return modules


def _name_in_call(path: Sequence[Any]) -> str:
    """Return `input[0]` or the name of a keyword argument, with the way to a value inside."""
    is_keyword = path[0].idx == 1
    return f"{'' if is_keyword else 'input'}{pytree.keystr(path[1:])}".strip(".")


def collect_tensors(calls: tuple[Call, ...]) -> list[torch.Tensor]:
    """Return every tensor in the arguments, without duplicates."""
    leaves = pytree.tree_leaves([(call.args, dict(call.kwargs)) for call in calls])
    return list({id(leaf): leaf for leaf in leaves if isinstance(leaf, torch.Tensor)}.values())


def map_tensors(call: Call, change: Callable[[torch.Tensor], torch.Tensor]) -> Call:
    """Return the call with each tensor changed. A tensor that occurs several times is changed once."""
    changed: dict[int, torch.Tensor] = {}

    def map_leaf(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        if id(leaf) not in changed:
            changed[id(leaf)] = change(leaf)
        return changed[id(leaf)]

    return call.map_leaves(map_leaf)


def move_calls(calls: tuple[Call, ...], device: torch.device) -> tuple[Call, ...]:
    """Return the calls with every tensor on a device, with the marks that Dynamo reads (`mark_dynamic`)."""
    moved: dict[int, torch.Tensor] = {}

    def move(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.device == device:
            return tensor
        if id(tensor) not in moved:
            moved[id(tensor)] = _move_tensor(tensor, device)
        return moved[id(tensor)]

    return tuple(map_tensors(call, move) for call in calls)


def _move_tensor(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    moved = tensor.detach().to(device).requires_grad_(tensor.requires_grad)
    for name, mark in vars(tensor).items():
        if name.startswith("_dynamo_"):
            setattr(moved, name, mark)
    return moved


def describe_call(call: Call) -> tuple[str, ...]:
    """Return one text per argument: `f32[64, 512]`, `mask=b8[64]`, `flag=True`."""
    return (
        *(describe_value(value) for value in call.args),
        *(f"{name}={describe_value(value)}" for name, value in call.kwargs.items()),
    )


def describe_value(value: Any) -> str:
    """Return a short description of an argument."""
    facts = tensor_facts(value)
    if facts is not None:
        device = "" if facts.device == "cpu" else f" {facts.device}"
        return f"{facts.dtype}[{', '.join(facts.shape)}]{device}"
    describe_container = _CONTAINERS.get(type(value))
    if describe_container is not None:
        return describe_container(value)
    text = repr(value) if isinstance(value, bool | int | float | complex | str | None) else type(value).__name__
    return text if len(text) <= _MAX_LENGTH else text[: _MAX_LENGTH - 1] + "…"


_CONTAINERS: dict[type, Callable[[Any], str]] = {
    list: lambda value: f"[{', '.join(map(describe_value, value))}]",
    tuple: lambda value: f"({', '.join(map(describe_value, value))})",
    dict: lambda value: "{" + ", ".join(f"{key}: {describe_value(item)}" for key, item in value.items()) + "}",
}


_NAMED = re.compile(r"\s*([A-Za-z_]\w*)\s*=(?!=)(.*)", re.DOTALL)
_TENSOR = re.compile(r"\s*([a-z]\w*)\s*\[([\d\s,]*)\]\s*(?:<\s*(\d+)\s*)?")
_HINT = "Examples: --input 'f32[64,512]', 'mask=bool[64]', 'i64[2,8]<100', 'flag=True'."

DEFAULT_BOUND = 2
"""The exclusive upper bound of random integers, if the specification gives none."""


def parse_call(specs: Sequence[str], device: torch.device | None = None) -> Call:
    """Return a call with the specified arguments, with tensors on `device`. Raises `EntryError`."""
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for spec in specs:
        name, text = split_name(spec)
        if name is None:
            args.append(parse_value(text, spec, device))
        else:
            kwargs[name] = parse_value(text, spec, device)
    return Call(tuple(args), kwargs)


def split_name(spec: str) -> tuple[str | None, str]:
    """Split `mask=bool[64]` into name and value. The name is None for a positional argument."""
    named = _NAMED.fullmatch(spec)
    return (None, spec) if named is None else (named[1], named[2])


def parse_value(text: str, spec: str, device: torch.device | None) -> Any:
    """Return the value of `text`, which is part of the specification `spec`. Raises `EntryError`."""
    tensor = _TENSOR.fullmatch(text)
    if tensor is not None:
        return _make_tensor(tensor, spec, device)
    try:
        return ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        raise EntryError(f"--input {spec!r} is neither a tensor nor a Python value.", _HINT, "arguments") from None


def _make_tensor(match: re.Match[str], spec: str, device: torch.device | None) -> torch.Tensor:
    name, sizes, bound = match.groups()
    dtype = dtypes_by_name().get(name)
    if dtype is None:
        known = ", ".join(sorted(n for n in dtypes_by_name() if len(n) <= 4))
        raise EntryError(f"--input {spec!r}: there is no dtype {name!r}.", f"torch has {known} and more.", "arguments")
    try:
        shape = tuple(int(size) for size in sizes.split(",")) if sizes.strip() else ()
    except ValueError:
        raise EntryError(f"--input {spec!r}: {sizes!r} is not a shape.", _HINT, "arguments") from None
    if device is not None and device.type == "meta":
        return torch.empty(shape, dtype=dtype, device=device)
    return _random_tensor(dtype, shape, int(bound) if bound else DEFAULT_BOUND).to(device)


def _random_tensor(dtype: torch.dtype, shape: tuple[int, ...], bound: int) -> torch.Tensor:
    if dtype.is_floating_point or dtype.is_complex:
        wide = torch.complex64 if dtype.is_complex else torch.float32
        return torch.randn(shape, dtype=wide).to(dtype)
    return torch.randint(0, max(bound, 1), shape).to(dtype)


@cache
def dtypes_by_name() -> dict[str, torch.dtype]:
    """Return every dtype by torch's name and by its abbreviation."""
    dtypes = {name: value for name, value in vars(torch).items() if isinstance(value, torch.dtype)}
    return dtypes | {dtype_text(value): value for value in dtypes.values()}


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
    if candidate.name == "model" and job.name is None:
        notes += tuple(_callers_not_compiled(module))
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


def _callers_not_compiled(module: ModuleType) -> Iterator[str]:
    """Yield a note for each function with arguments that reads `model`: its own code is not compiled."""
    for name in _defined_names(module)[1]:
        code = getattr(module, name).__code__
        if code.co_argcount and "model" in code.co_names:
            file = _file_name(module)
            yield f"`{name}` is not compiled, only the model that it calls: `tcexplore {file}:{name}` compiles it."


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


def function_of(target: Any) -> Any:
    """Return the function that a call runs, of a module its `forward`; the class of a scripted module has none."""
    if isinstance(target, torch.nn.Module):
        return inspect.getattr_static(type(target), "forward", None)
    return inspect.unwrap(target)


def _location(eager: Any, user_files: UserFiles) -> Location | None:
    code = getattr(function_of(eager), "__code__", None)
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
        "  a use of torch.compile in the file, or in the modules beside it that its main block runs: none",
        f"  a single nn.Module class or function: {', '.join((*classes, *functions)) or 'none'}",
        EXAMPLE,
    ))  # fmt: skip


def _file_name(module: ModuleType) -> str:
    return os.path.basename(module.__file__ or module.__name__)
