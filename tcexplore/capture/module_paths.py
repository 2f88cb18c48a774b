"""Paths of modules from the outermost one, the same for a graph and for an eager call."""

from __future__ import annotations

import sys
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from types import FrameType
from typing import Any, NamedTuple

import torch
from torch.nn import Module

from tcexplore.torch_text.dynamo_names import is_resumed

WRAPPERS: dict[str, str] = {
    "OptimizedModule": "_orig_mod",
    "DistributedDataParallel": "module",
    "DataParallel": "module",
    "FullyShardedDataParallel": "_fsdp_wrapped_module",
    "CheckpointWrapper": "_checkpoint_wrapped_module",
}
"""torch's modules around a module, and the name that they give to it. That name is left out of paths."""

_CALLS = ("forward", "_call_impl", "__call__")

_compiled: list[weakref.ref[Module]] = []
"""Modules that the program compiles."""

_outermost: dict[int, weakref.ref[Module]] = {}
"""Modules whose paths graphs have, by their id."""

_root_names: dict[int, tuple[weakref.ref[Module], str]] = {}
_root_counts: Counter[str] = Counter()


class ModulePath(NamedTuple):
    """A module's place in the program."""

    root: str
    """Class of the outermost module, with a number if the program has several of it."""
    path: str
    """Path from that module; empty for itself."""


def name_modules(root: object) -> None:
    """Name the modules of later frames by their path from this one, if none that runs has them.

    The root may also be a method of a module.
    """
    if (module := module_of(root)) is not None:
        _compiled.append(weakref.ref(module))


def module_of(target: object) -> Module | None:
    """Return the module that a compiled object is, or is a method of."""
    owner = getattr(target, "__self__", target)
    return owner if isinstance(owner, Module) else None


def paths_inside(root: Module) -> dict[int, ModulePath]:
    """Return the path of each module inside a module by its id."""
    name = _name_root(root)
    return {id(module): ModulePath(name, path) for path, module in _walk(root, "", set())}


def unwrapped(module: Module) -> Module:
    """Return the module inside torch's wrappers."""
    while (inner := module._modules.get(_name_of_wrapped(module))) is not None:
        module = inner
    return module


def _name_of_wrapped(module: Module) -> str:
    """Return the name of the module inside one of torch's wrappers; empty for another module.

    `fully_shard` gives a module a class of its own, as `FSDPOptimizedModule`.
    """
    return next((WRAPPERS[base.__name__] for base in type(module).__mro__ if base.__name__ in WRAPPERS), "")


def _name_root(root: Module) -> str:
    root = unwrapped(root)
    reference, name = _root_names.get(id(root), (None, ""))
    if reference is None or reference() is not root:
        kind = type(root).__name__
        _root_counts[kind] += 1
        name = kind if _root_counts[kind] == 1 else f"{kind} {_root_counts[kind]}"
        _root_names[id(root)] = weakref.ref(root), name
    return name


def _walk(module: Module, path: str, seen: set[int]) -> Iterator[tuple[str, Module]]:
    if id(module) in seen:
        return
    seen.add(id(module))
    yield path, module
    wrapped = _name_of_wrapped(module)
    for name, child in module._modules.items():
        if child is not None:
            yield from _walk(child, path if name == wrapped else f"{path}.{name}" if path else name, seen)


def place_of(module: Module) -> RunModule | None:
    """Return the place of a module that is called now; None if no module that runs or is compiled contains it."""
    module = unwrapped(module)
    paths = _first_around(module, _running_or_compiled())
    return None if paths is None else RunModule(paths[id(module)], type(module).__name__)


def _first_around(module: Module, roots: Iterable[Module]) -> dict[int, ModulePath] | None:
    """Return the paths inside the first of the roots that contains a module; None if none does."""
    inside = map(paths_inside, roots)
    return next((paths for paths in inside if id(module) in paths), None)


class FramePaths:
    """Paths of the modules that a compiled frame reads."""

    def __init__(self, output_graph: Any) -> None:
        translator = getattr(output_graph, "root_tx", None)
        values, names = getattr(translator, "f_locals", None) or {}, getattr(translator, "f_globals", None) or {}
        self._scope = {"L": values, "G": names}
        self._resumes = is_resumed(getattr(getattr(translator, "f_code", None), "co_name", ""))
        self._known: list[dict[int, ModulePath]] = []
        self._roots = _running_or_compiled()

    def of_frame(self) -> RunModule | None:
        """Return the module that has the frame as a method, such as `forward`; None for a function.

        A resume function that no longer needs its module is called by the `forward` that it continues.
        """
        module = self._scope["L"].get("self")
        if module is None and self._resumes:
            module = next(_running(), None)
        if not isinstance(module, Module):
            return None
        # Where no module runs, the program calls another method than `forward`.
        return RunModule(self.of_module(module) or self._path_as_root(module), type(module).__name__)

    def of_sources(self, stacks: Iterable[Iterable[str]]) -> dict[str, ModulePath]:
        """Return the path of each module that one of Dynamo's sources reads, as far as it is known.

        Each stack has the sources of a module and of those around it, outermost first.
        """
        found: dict[str, ModulePath] = {}
        for stack in stacks:
            modules = {source: self._evaluate(source) for source in stack if source not in found}
            for source, module in modules.items():
                path = None if module is None else self.of_module(module)
                if path is None and module is not None:  # a function calls it
                    path = self._path_as_root(module)
                if path is not None:
                    found[source] = path
        return found

    def _path_as_root(self, module: Module) -> ModulePath:
        """Return the path of a module that nothing contains, from which those inside it have theirs."""
        self._known.append(_paths_of_graphs(module))
        return self._known[-1][id(module)]

    def _evaluate(self, source: str) -> Module | None:
        try:
            # Dynamo's guards evaluate the same text in each call. Names that are no identifiers are read by `getattr`.
            value = eval(source, {"__builtins__": {"getattr": getattr}}, self._scope)
        except Exception:  # noqa: BLE001  some sources have names of Dynamo's own, and the program's objects may raise
            return None
        return value if isinstance(value, Module) else None

    def of_module(self, module: Module) -> ModulePath | None:
        """Return the path of a module; None if no module that runs or is compiled contains it."""
        for paths in self._all_paths():
            if id(module) in paths:
                return paths[id(module)]
        return None

    def _all_paths(self) -> Iterator[dict[int, ModulePath]]:
        yield from self._known
        for root in self._roots:
            self._known.append(_paths_of_graphs(root))
            yield self._known[-1]


def _paths_of_graphs(root: Module) -> dict[int, ModulePath]:
    """Return the paths inside a module from which graphs have theirs, and remember the module.

    The module inside a wrapper is remembered, too: the wrapper that `torch.compile` returns may be gone when a call of
    the module is repeated.
    """
    for module in (root, unwrapped(root)):
        _outermost[id(module)] = weakref.ref(module)
    return paths_inside(root)


def known_paths() -> dict[int, ModulePath]:
    """Return the path of each module inside those whose paths graphs have, and those that the program compiles."""
    known: dict[int, ModulePath] = {}
    for root in (*_alive(_outermost.values()), *_alive(_compiled)):
        known = paths_inside(root) | known
    return known


def _running_or_compiled() -> Iterator[Module]:
    """Yield the modules that run, outermost first, then those that the program compiles."""
    yield from reversed(list(_running()))
    yield from _alive(_compiled)


def _alive(references: Iterable[weakref.ref[Module]]) -> Iterator[Module]:
    """Yield the modules that still exist. Their truth is not asked: it may be a length of the user's own."""
    return (module for reference in references if (module := reference()) is not None)


def _running() -> Iterator[Module]:
    """Yield the modules that run, innermost first."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name in _CALLS:
            module = frame.f_locals.get("self")
            if isinstance(module, Module):
                yield module
        frame = frame.f_back


def _paths_around(module: Module) -> dict[int, ModulePath]:
    """Return the paths inside the outermost module of the graphs that contains a module; inside it if none does."""
    return _first_around(module, _alive(_outermost.values())) or paths_inside(module)


class RunModule(NamedTuple):
    """A module that ran."""

    place: ModulePath
    type: str
    """Name of its class."""


def running_module() -> RunModule | None:
    """Return the innermost module one of whose methods runs, with the path that it has in graphs; None outside all."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        module = frame.f_locals.get("self")
        if isinstance(module, Module):
            module = unwrapped(module)
            return RunModule(_paths_around(module)[id(module)], type(module).__name__)
        frame = frame.f_back
    return None


class ModuleStack:
    """The modules that run in eager calls, while it is entered."""

    def __init__(self) -> None:
        self.ran: dict[RunModule, None] = {}
        """In the order of execution."""
        self._running: list[tuple[Module, RunModule | None]] = []
        self._paths: dict[int, ModulePath] = {}
        self._handles: list[Any] = []
        self._has_hooks: Callable[[], bool] | None = None
        """torch's function that tells a compiled module whether there are hooks on all modules."""

    @property
    def innermost(self) -> RunModule | None:
        """The module that runs now; None outside all modules."""
        return self._running[-1][1] if self._running else None

    def __enter__(self) -> None:
        hooks: Any = torch.nn.modules.module
        # torch warns of such hooks at each call of a compiled module: only the user's count.
        self._has_hooks = getattr(hooks, "_has_any_global_hook", None)
        if self._has_hooks is not None:
            of_user = self._has_hooks()
            hooks._has_any_global_hook = lambda: of_user
        self._handles = [
            hooks.register_module_forward_pre_hook(self._begin),
            hooks.register_module_forward_hook(self._end, always_call=True),
        ]

    def __exit__(self, *_: object) -> None:
        for handle in self._handles:
            handle.remove()
        if self._has_hooks is not None:
            torch.nn.modules.module._has_any_global_hook = self._has_hooks
        self._running.clear()

    def _begin(self, module: Module, _args: object) -> None:
        if not self._running and id(module) not in self._paths:
            self._paths |= _paths_around(module)
        place = self._paths.get(id(module))
        # A module that is an attribute of none belongs to the one that calls it.
        run = self.innermost if place is None else RunModule(place, type(unwrapped(module)).__name__)
        if run is not None:
            self.ran.setdefault(run)
        self._running.append((module, run))

    def _end(self, module: Module, _args: object, _result: object) -> None:
        if any(running is module for running, _ in self._running):
            while self._running.pop()[0] is not module:
                pass
