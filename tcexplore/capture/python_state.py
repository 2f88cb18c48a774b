"""Python state that calls may change: attributes of modules and objects, items of containers, globals, closures.

Also what arrays, random generators, streams and iterators hold.
"""

from __future__ import annotations

import inspect
import io
import itertools
import operator
import random
import sys
import zlib
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import nullcontext, suppress
from types import FunctionType, GeneratorType, MethodType, ModuleType
from typing import Any, NamedTuple

import torch
from torch.nn.parameter import is_lazy
from torch.utils import _pytree as pytree

SIMPLE = (bool, int, float, complex, str, bytes, type(None))
NODE_LIMIT = 20_000
"""Number of values after which no more state is followed."""

TENSOR_BYTES = 256 << 20
"""Total size of tensors above which they are not part of the state."""

_INTERNAL = frozenset(vars(torch.nn.Module())) - {"training", "_buffers", "_parameters", "_modules"}
"""Attributes of `torch.nn.Module` that are no state of the user's."""


class StateValues(NamedTuple):
    """What the state holds now, by path."""

    leaves: dict[str, Any]
    """The values other than tensors, in a form that can be compared across programs."""
    tensors: dict[str, torch.Tensor]
    """The tensors, without those that a module has registered."""
    single: dict[str, torch.Tensor]
    """The tensors with one element, registered ones too."""


class PythonState:
    """State that can be reached from named roots; `restore` sets it back to what it was at the start.

    `owned` decides whether the attributes of an object are followed, by the object's type or function. Tensors of more
    than `largest_copied` bytes are not copied, and so not set back; without it, all are copied or none. Something else
    sets the tensors with the ids `restored` back.
    """

    def __init__(
        self,
        roots: Mapping[str, object],
        owned: Callable[[Any], bool],
        *,
        largest_copied: int | None = None,
        restored: Collection[int] = (),
    ) -> None:
        self._roots = dict(roots)
        self._owned = owned
        # One walk: a first graph waits for it.
        containers: list[Any] = []
        leaves = list(self._walk(containers))
        self._saved = [(container, _contents(container)) for container in containers if _is_mutable(container)]
        own = [(path, tensor) for path, tensor in self._without_registered(leaves) if id(tensor) not in restored]
        self._tensors, self._versions = copy_small(
            _limited(own).items() if largest_copied is None else own, largest_copied or TENSOR_BYTES
        )
        self._restorers: list[Callable[[], object]] = []
        self._fixed: list[tuple[str, Any, Any]] = []
        """Path, object and state of what cannot be set back, such as iterators."""
        for path, value in leaves:
            if isinstance(value, (*SIMPLE, torch.Tensor, _Registry)):
                continue
            if (restore := restorer(value)) is not None:
                self._restorers.append(restore)
            elif (state := opaque_state(value)) != type(value).__qualname__:
                self._fixed.append((path, value, state))

    def values(self) -> StateValues:
        """Return what the state holds, from one walk: a large model has many thousands of values."""
        leaves = list(self._walk())
        tensors = [(path, value) for path, value in leaves if isinstance(value, torch.Tensor)]
        return StateValues(
            {path: _leaf(value) for path, value in leaves if not isinstance(value, torch.Tensor)},
            _limited(self._without_registered(tensors)),
            {path: tensor for path, tensor in tensors if tensor.numel() == 1},
        )

    def _without_registered(self, leaves: Iterable[tuple[str, Any]]) -> list[tuple[str, torch.Tensor]]:
        """Return the tensors among the leaves that no module has registered."""
        registered = {id(t) for _, m in self._walk_modules() for t in (*m.parameters(False), *m.buffers(False))}
        return [
            (path, value) for path, value in leaves if isinstance(value, torch.Tensor) and id(value) not in registered
        ]

    def restore(self) -> None:
        """Set all containers, tensors and opaque objects back."""
        for container, contents in self._saved:
            _set_contents(container, contents)
        with torch.no_grad():
            for tensor, value in self._tensors:
                set_values(tensor, value)
        for restore in self._restorers:
            restore()

    def keep_values(self, chosen: Callable[[torch.Tensor], bool]) -> None:
        """Let `restore` set the chosen tensors to their present values from now on."""
        self._tensors = [
            (tensor, tensor.detach().clone() if chosen(tensor) else value) for tensor, value in self._tensors
        ]

    def detach(self) -> None:
        """Cut tensors off the graphs that computed them, whose backward has run; they still require a gradient."""
        for _, tensor in self._walk():
            if isinstance(tensor, torch.Tensor) and tensor.grad_fn is not None:
                with suppress(RuntimeError):
                    if tensor._is_view():
                        torch.utils.swap_tensors(tensor, tensor.detach().requires_grad_())
                    else:
                        tensor.detach_().requires_grad_()

    def not_restored(self) -> tuple[str, ...]:
        """Return the paths of objects whose state has changed and cannot be set back."""
        fixed = (path for path, value, state in self._fixed if opaque_state(value) != state)
        return (*fixed, *self._versions.changed())

    def _walk_modules(self) -> Iterator[tuple[str, torch.nn.Module]]:
        for root in self._roots.values():
            if isinstance(root, torch.nn.Module):
                yield from root.named_modules()

    def _walk(self, containers: list[Any] | None = None) -> Iterator[tuple[str, Any]]:
        """Yield leaves with their paths, each object once, and add the containers to a list."""
        known: set[int] = set()
        waiting: deque[tuple[str, Any]] = deque(self._roots.items())
        while waiting and len(known) < NODE_LIMIT:
            path, value = waiting.popleft()
            children = None if isinstance(value, SIMPLE) else self._children(path, value)
            if children is None:
                yield path, value
                continue
            if id(value) in known:
                continue
            known.add(id(value))
            if containers is not None:
                containers.append(value)
            if isinstance(value, list | deque | dict | set):
                yield f"len({path})", len(value)
            waiting.extend(children)

    def _children(self, path: str, value: Any) -> Iterator[tuple[str, Any]] | None:
        """Return what is inside a container; None for a leaf."""
        match value:
            case dict():
                return ((f"{path}[{key!r}]" if isinstance(key, SIMPLE) else f"{path}[{type(key).__name__}]", item)
                        for key, item in dict.items(value))  # fmt: skip
            case list() | tuple() | deque() | set() | frozenset():
                items = _builtin_type(value).__iter__(value)
                if isinstance(value, set | frozenset):
                    return ((f"{path}{{{item!r}}}", item) for item in items if isinstance(item, SIMPLE))
                return ((f"{path}[{index}]", item) for index, item in enumerate(items))
            case torch.nn.Module():
                return _module_children(path, value)
            case ModuleType():
                return _globals(path, value) if path in self._roots else iter(())
            case MethodType():
                return iter([(f"{path}.__self__", value.__self__)])
            case FunctionType():
                return _function_children(path, value) if self._owned(value) else iter(())
            case type():
                own = _class_state(value) if self._owned(value) else {}
                return ((f"{path}.{name}", item) for name, item in own.items())
        if _has_attributes(value) and self._owned(type(value)):
            return (
                (f"{path}.{name}", item) for name, item in {**getattr(value, "__dict__", {}), **_slots(value)}.items()
            )
        return None


class ArgumentState(PythonState):
    """State of objects among the arguments of a call, such as a key-value cache. All of their tensors are copied.

    Modules, classes and functions that they refer to are not part of it.
    """

    def __init__(self, objects: Iterable[object]) -> None:
        roots = {f"object {number}": value for number, value in enumerate(objects)}
        super().__init__(roots, lambda _: True, largest_copied=sys.maxsize)

    @property
    def copied(self) -> list[torch.Tensor]:
        """The tensors that are set back."""
        return [tensor for tensor, _ in self._tensors]

    def _children(self, path: str, value: Any) -> Iterator[tuple[str, Any]] | None:
        return None if isinstance(value, _NO_OBJECTS) else super()._children(path, value)


_NO_OBJECTS = (torch.Tensor, torch.nn.Module, ModuleType, MethodType, FunctionType, type)

OBJECT_DEPTH = 5
"""Levels of attributes and items of an object that are searched for tensors."""


def named_leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the leaves of nested containers with their paths from `path` on, as `pytree.keystr` writes them: `x[0]`."""
    try:
        named = pytree.tree_flatten_with_path(value)[0]
    except ValueError:  # torch knows the parts of one of the containers, not their names, as of outputs of `diffusers`
        parts = pytree.tree_flatten(value, is_leaf=lambda part: part is not value)[0]
        for key, part in value.items() if isinstance(value, Mapping) else enumerate(parts):
            yield from named_leaves(part, f"{path}[{key!r}]")
    else:
        yield from ((path + pytree.keystr(keys), leaf) for keys, leaf in named)


def tensors_inside(value: object) -> Iterator[torch.Tensor]:
    """Yield each tensor that an object has as an attribute, or inside of one."""
    known: set[int] = set()
    waiting = deque([(value, OBJECT_DEPTH)])
    while waiting and len(known) < NODE_LIMIT:
        value, depth = waiting.popleft()
        if isinstance(value, SIMPLE) or id(value) in known:
            continue
        known.add(id(value))
        if isinstance(value, torch.Tensor):
            yield value
        elif depth and not isinstance(value, _NO_OBJECTS):
            waiting.extend((item, depth - 1) for item in _inside(value))


def _inside(value: Any) -> Iterator[Any]:
    match value:
        case dict():
            return iter(dict.values(value))
        case list() | tuple() | deque():
            return iter(_builtin_type(value).__iter__(value))
        case set() | frozenset():
            return iter(())
    return iter({**getattr(value, "__dict__", {}), **_slots(value)}.values())


def argument_state(leaves: Iterable[object]) -> ArgumentState | None:
    """Return the state of the objects among the leaves of arguments that hold tensors.

    Return None if there are none, or if their attributes raise.
    """
    try:
        objects = objects_with_tensors(leaves)
        return ArgumentState(objects) if objects else None
    except Exception:  # noqa: BLE001  the program's own attributes may raise anything
        return None


def objects_with_tensors(leaves: Iterable[object]) -> list[object]:
    """Return the objects among the leaves of arguments that hold tensors, without duplicates."""
    objects = {id(leaf): leaf for leaf in leaves if not isinstance(leaf, (*SIMPLE, *_NO_OBJECTS))}
    return [leaf for leaf in objects.values() if any(True for _ in tensors_inside(leaf))]


def _is_mutable(container: object) -> bool:
    return isinstance(container, dict | list | set | deque) or _has_attributes(container)


def _limited(tensors: Iterable[tuple[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
    """Return tensors by path; none if they are too large to be part of the state."""
    own = dict(tensors)
    return own if sum(t.numel() * t.element_size() for t in own.values()) <= TENSOR_BYTES else {}


class TensorVersions:
    """Versions of tensors, which grow with each write to them."""

    def __init__(self, tensors: Iterable[tuple[str, torch.Tensor]]) -> None:
        self._before: list[tuple[str, torch.Tensor, int]] = []
        self._lazy: list[tuple[str, torch.Tensor]] = []
        """Parameters that are created by the first call, and cannot be removed again."""
        for path, tensor in tensors:
            if is_lazy(tensor):
                self._lazy.append((path, tensor))
            elif not tensor.is_inference():  # inference tensors have no version, and cannot be changed in place either
                self._before.append((path, tensor, tensor._version))

    def changed(self) -> Iterator[str]:
        """Yield the paths of the tensors that were written to or created."""
        yield from (path for path, tensor, version in self._before if tensor._version != version)
        yield from (path for path, tensor in self._lazy if not is_lazy(tensor))


def copy_small(
    tensors: Iterable[tuple[str, torch.Tensor]], largest: int
) -> tuple[list[tuple[torch.Tensor, torch.Tensor]], TensorVersions]:
    """Copy the dense tensors of at most `largest` bytes, and note the versions of the others."""
    copies, others = [], []
    for path, tensor in tensors:
        dense = type(tensor) in (torch.Tensor, torch.nn.Parameter) and tensor.layout is torch.strided
        dense = dense and not tensor.is_meta
        if dense and not tensor.is_nested and tensor.numel() * tensor.element_size() <= largest:
            copies.append((tensor, tensor.detach().clone()))
        else:
            others.append((path, tensor))
    return copies, TensorVersions(others)


def set_values(tensor: torch.Tensor, value: torch.Tensor) -> None:
    """Set the values of a tensor back; values of another shape or type stay."""
    if tensor.shape == value.shape and tensor.dtype is value.dtype and not torch.equal(tensor, value):
        with torch.inference_mode() if tensor.is_inference() else nullcontext():
            tensor.copy_(value)


def _module_children(path: str, module: torch.nn.Module) -> Iterator[tuple[str, Any]]:
    for name, item in list(vars(module).items()):
        if name in ("_buffers", "_parameters", "_modules"):
            yield from ((f"{path}.{key}", value) for key, value in item.items())
            yield f"{path}.{name}", _Registry(item)
        elif name not in _INTERNAL and not name.startswith(("_dynamo", "__", "_compiled_call")):
            yield f"{path}.{name}", item


def _builtin_type(container: Any) -> Any:
    """Return the built-in type of a container, whose methods a subclass may have overridden to run code."""
    return next(kind for kind in (dict, list, tuple, deque, set, frozenset) if isinstance(container, kind))


class _Registry:
    """The parameters, buffers or submodules of a module, whose entries may be replaced."""

    def __init__(self, entries: dict[str, Any]) -> None:
        self.entries = entries


def _globals(path: str, module: ModuleType) -> Iterator[tuple[str, Any]]:
    for name, item in list(vars(module).items()):
        # Dynamo adds names that start with two underscores.
        if not name.startswith("__") and not isinstance(item, ModuleType):
            yield f"{path}.{name}", item


def _function_children(path: str, function: FunctionType) -> Iterator[tuple[str, Any]]:
    yield from ((f"{path}.{name}", item) for name, item in vars(function).items() if not name.startswith("_"))
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield f"{path}.{name}", cell.cell_contents
        except ValueError:
            continue


def _class_state(kind: type) -> dict[str, Any]:
    """Return the attributes of a class that are neither methods nor Python's own."""
    methods = (FunctionType, classmethod, staticmethod, property, type)
    own = {name: item for name, item in vars(kind).items() if not name.startswith("_")}
    return {n: item for n, item in own.items() if not isinstance(item, methods) and not hasattr(type(item), "__set__")}


def _has_attributes(value: object) -> bool:
    return hasattr(value, "__dict__") or any("__slots__" in vars(kind) for kind in type(value).__mro__)


def _slots(value: object) -> dict[str, Any]:
    """Return the attributes of an object that its classes list in `__slots__`."""
    listed = (vars(kind).get("__slots__", ()) for kind in type(value).__mro__)
    names = (name for slots in listed for name in ((slots,) if isinstance(slots, str) else tuple(slots)))
    return {name: getattr(value, name) for name in names if not name.startswith("__") and hasattr(value, name)}


def _leaf(value: Any) -> Any:
    """Return a form of a value that can be compared."""
    if isinstance(value, SIMPLE):
        return value
    if isinstance(value, _Registry):
        return sorted(value.entries)
    return opaque_state(value)


def _contents(container: Any) -> Any:
    """Return a shallow copy of what a container holds."""
    match container:
        case dict():
            return dict(dict.items(container))
        case list() | deque():
            return list(_builtin_type(container).__iter__(container))
        case set():
            return set(set.__iter__(container))
        case FunctionType():
            cells = [(cell, cell.cell_contents) for cell in container.__closure__ or () if _filled(cell)]
            return dict(vars(container)), cells
        case type():
            return _class_state(container)
        case torch.nn.Module():
            own = dict(vars(container))
            return (
                type(container),
                own,
                {name: dict(own[name]) for name in ("_buffers", "_parameters", "_modules") if name in own},
            )
    return dict(getattr(container, "__dict__", {})), _slots(container)


def _filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018  an empty cell raises
    except ValueError:
        return False
    return True


def _set_contents(container: Any, contents: Any) -> None:
    """Restore what a container holds, without touching entries that are the same."""
    match container:
        case FunctionType() | type() | ModuleType() | torch.nn.Module():
            _set_definition(container, contents)
        case dict():
            _set_entries(container, contents)
        case list() | deque():
            if len(container) != len(contents) or any(a is not b for a, b in zip(container, contents, strict=True)):
                container.clear()
                container.extend(contents)
        case set():
            if container != contents:
                container.clear()
                container.update(contents)
        case _:
            own, slots = contents
            _set_entries(getattr(container, "__dict__", {}), own)
            _set_attributes(container, _slots(container), slots)


def _set_definition(container: Any, contents: Any) -> None:
    """Restore the attributes of a function, class or module."""
    match container:
        case FunctionType():
            own, cells = contents
            _set_entries(vars(container), own)
            for cell, value in cells:
                if not _filled(cell) or cell.cell_contents is not value:
                    cell.cell_contents = value
        case torch.nn.Module():
            kind, own, registries = contents
            if type(container) is not kind:  # a lazy module becomes another class when it gets its parameters
                return
            _set_entries(vars(container), own)
            for name, entries in registries.items():
                _set_entries(vars(container)[name], entries)
        case ModuleType():
            _set_entries(vars(container), contents[0], added=False)
        case type():
            _set_attributes(container, _class_state(container), contents)


def _set_attributes(owner: Any, current: dict[str, Any], contents: dict[str, Any]) -> None:
    for name in current.keys() - contents.keys():
        delattr(owner, name)
    for name, value in contents.items():
        if name not in current or current[name] is not value:
            setattr(owner, name, value)


def _set_entries(entries: dict[Any, Any], contents: dict[Any, Any], *, added: bool = True) -> None:
    """Set entries of a dict back, and remove the added ones, except for those that Dynamo keeps."""
    # Read without methods of a subclass, which may run code, such as that of a default.
    for key in [key for key in dict.__iter__(entries) if key not in contents]:
        if added and not (isinstance(key, str) and key.startswith(("_dynamo", "__", "_compiled_call"))):
            del entries[key]
    for key, value in contents.items():
        if not dict.__contains__(entries, key) or dict.__getitem__(entries, key) is not value:
            entries[key] = value


SHOWN_ELEMENTS = 100
"""Most elements of an array that is compared as readable text."""


def opaque_state(value: Any) -> Any:
    """Return a comparable form of the state of an object, or the name of its type if none is known."""
    if isinstance(value, itertools.count | torch.dtype | torch.device | torch.Size):
        return repr(value)
    if isinstance(value, random.Random):
        return _state_text(value, repr(value.getstate()).encode())
    if isinstance(value, torch.Generator):
        return _state_text(value, value.get_state().numpy().tobytes())
    if isinstance(value, io.StringIO | io.BytesIO) and not value.closed:
        return value.getvalue()
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.ndarray):
        content = repr(value.tolist()) if value.dtype.hasobject or value.size <= SHOWN_ELEMENTS else value.tobytes()
        return content, value.shape, str(value.dtype)
    if numpy is not None and isinstance(value, numpy.random.Generator | numpy.random.RandomState):
        return _state_text(value, repr(_bit_generator(value).state).encode())
    if isinstance(value, GeneratorType):
        own = value.gi_frame.f_locals if value.gi_frame else {}
        simple = {name: repr(item) for name, item in own.items() if isinstance(item, SIMPLE)}
        return f"{type(value).__qualname__}, {inspect.getgeneratorstate(value)} {simple}"
    if hasattr(type(value), "__length_hint__"):
        return f"{type(value).__qualname__}, {operator.length_hint(value)} left"
    return type(value).__qualname__


def restorer(value: Any) -> Callable[[], object] | None:
    """Return a function that sets an object back to its present state; None if that is not possible."""
    if isinstance(value, random.Random):
        state = value.getstate()
        return lambda: value.setstate(state)
    if isinstance(value, torch.Generator):
        seeds = value.get_state()
        return lambda: value.set_state(seeds)
    if isinstance(value, io.StringIO | io.BytesIO) and not value.closed:
        return _stream_restorer(value)
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.ndarray) and value.flags.writeable:
        copied = value.copy()
        return lambda: numpy.copyto(value, copied)
    if numpy is not None and isinstance(value, numpy.random.Generator | numpy.random.RandomState):
        bits = _bit_generator(value)
        internal = bits.state
        return lambda: setattr(bits, "state", internal)
    return None


def _state_text(value: object, content: bytes) -> str:
    return f"{type(value).__qualname__}, state {zlib.crc32(content):08x}"


def _bit_generator(generator: Any) -> Any:
    """Return the source of random bits of one of numpy's generators."""
    return generator.bit_generator if hasattr(generator, "bit_generator") else generator._bit_generator


def _stream_restorer(stream: Any) -> Callable[[], object]:
    content, position = stream.getvalue(), stream.tell()

    def restore() -> None:
        if stream.closed or stream.getvalue() == content:
            return
        stream.seek(0)
        stream.truncate()
        stream.write(content)
        stream.seek(position)

    return restore
