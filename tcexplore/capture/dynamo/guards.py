"""The guards of each compiled frame, with their location in the user's files."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from types import BuiltinFunctionType, MethodDescriptorType, ModuleType
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import torch

from tcexplore.capture.dynamo.trace_position import current_compile_id, shows_libraries
from tcexplore.capture.hooks import Hooks
from tcexplore.capture.structured_trace import StructuredTrace
from tcexplore.capture.tensor_descriptions import TensorFacts, tensor_facts
from tcexplore.capture.user_files import UserFiles
from tcexplore.events import Guard, GuardsInstalled, Location
from tcexplore.torch_text.dynamo_names import name_wrapped, readable_source, wraps_module
from tcexplore.torch_text.guard_text import RELATIONS, Check, GuardedValue, is_structural, split_check, summarize

_FACT = "guards"
_HOOK = "torch._dynamo.guards:guard_manager_testing_hook_fn"

_locations: WeakKeyDictionary[Any, dict[str, Location]] = WeakKeyDictionary()
"""By torch's guard manager, the line of each guarded value."""


def install(hooks: Hooks, _trace: StructuredTrace, user_files: UserFiles) -> None:
    """Emit a `GuardsInstalled` for each compiled frame, with torch's own measurement of one check."""
    observer = _GuardObserver(hooks, user_files)

    def wrap(original: Callable[..., None] | None) -> Callable[..., None]:
        def hook(manager: Any, scope: Any, builder: Any) -> None:
            if original is not None:
                original(manager, scope, builder)
            hooks.observe(_FACT, _HOOK, observer.guards_built, manager, builder)

        return hook

    hooks.wrap(_FACT, _HOOK, wrap)
    observer.profiled = hooks.watch(
        "guard latency", "torch._dynamo.guards:profile_guard_manager", after=observer.guards_profiled
    )


def guard_location(manager: Any, name: str) -> Location | None:
    """Return the line that required a guard on a value (`x`, `self.scale`)."""
    return _locations.get(manager, {}).get(name)


class _GuardObserver:
    profiled = False
    """Whether torch times the guards right after it builds them."""

    def __init__(self, hooks: Hooks, user_files: UserFiles) -> None:
        self._hooks = hooks
        self._user_files = user_files
        self._pending: GuardsInstalled | None = None

    def guards_built(self, manager: Any, builder: Any) -> None:
        records = _GuardRecords(builder, self._user_files)
        guards = tuple(self._read_guard(leaf, records) for leaf in leaf_guards(manager.root))
        located = [guard for guard in reversed(guards) if guard.source and guard.location]
        _locations[manager] = {guard.name: guard.location for guard in located if guard.location}
        installed = GuardsInstalled(graph=current_compile_id() or "", guards=guards)
        if self.profiled:
            self._pending = installed
        else:
            self._hooks.emit(installed)

    def guards_profiled(self, latency_us: float, *_args: Any) -> None:
        installed, self._pending = self._pending, None
        if installed is not None:
            self._hooks.emit(GuardsInstalled(graph=installed.graph, guards=installed.guards, latency_us=latency_us))

    def _read_guard(self, leaf: LeafGuard, records: _GuardRecords) -> Guard:
        record = records.find(leaf)
        checks = [split_check(text, (record and record.code_list) or ()) for text in leaf.checks]
        name = readable_source(name_wrapped(leaf.source) if records.wraps_module else leaf.source)
        location = records.location(record, checks)
        if location is None and leaf.source and not records.is_owned:
            location = self._user_files.reader_or_caller(current_compile_id() or "", name)
        return Guard(
            kind=leaf.kind,
            source=leaf.source,
            code=tuple(check.code.strip() for check in checks),
            summary=_summary(leaf, checks[0], records.tensor(leaf, record)) if checks else "",
            structural=is_structural(
                leaf.kind, leaf.source, leaf.checks, leaf.sibling_kinds, lambda: _is_library_object(leaf)
            ),
            location=location,
            user_code=self._user_files.line(location),
            name=name,
        )


class _GuardRecords:
    """Dynamo's records of the guards that it made, looked up by the source of a leaf."""

    def __init__(self, builder: Any, user_files: UserFiles) -> None:
        self._builder = builder
        self._user_files = user_files
        self._libraries = shows_libraries(user_files)
        output_graph = builder.check_fn_manager.output_graph
        code = getattr(builder, "f_code", None)
        self.wraps_module = code is not None and wraps_module(code)
        self.is_owned = code is None or user_files.owns(code.co_filename)
        """Whether the frame is the user's; that of a `Sequential` is not."""
        self._traced: dict[Any, Any] = getattr(output_graph, "input_source_to_sizes_strides", {})
        self._commented: dict[str, Location | None] = {}
        self._by_source: dict[str, list[Any]] = defaultdict(list)
        for guard in output_graph.guards:
            if name := guard.name:  # torch composes it
                self._by_source[name].append(guard)

    def find(self, leaf: LeafGuard) -> Any | None:
        """Return the record of this kind and source, or any record of the source, or None."""
        source = leaf.source.removesuffix(".__dict__").removesuffix(".__code__")
        records = self._by_source.get(leaf.source) or self._by_source.get(source) or ()
        for record in records:
            if leaf.kind == record.create_fn_name() or leaf.kind in (record.guard_types or ()):
                return record
        return records[0] if records else None

    def tensor(self, leaf: LeafGuard, record: Any | None) -> TensorFacts | None:
        """Return the guarded tensor with the sizes that Dynamo traced, a symbol where a dimension is dynamic."""
        if leaf.kind != "TENSOR_MATCH" or record is None:
            return None
        facts = tensor_facts(self._builder.get(record))
        traced = self._traced.get(record.originating_source)
        if facts is None or traced is None:
            return facts
        return facts._replace(shape=tuple(map(str, traced["size"])), stride=tuple(map(str, traced["stride"])))

    def location(self, record: Any | None, checks: list[Check]) -> Location | None:
        """Return the user's line that required the guard, from the record or from torch's comment."""
        stack = self._user_files.frames(getattr(record, "user_stack", None), libraries=self._libraries)
        if stack:
            return stack[-1]
        return next(filter(None, (self._line_in_comment(check.comment) for check in checks)), None)

    def _line_in_comment(self, comment: str) -> Location | None:
        """Return the user's line that torch's comment names. Most guards share their comment with others."""
        if comment not in self._commented:
            place = Check("", comment).place
            self._commented[comment] = self._user_files.find(*place) if place else None
        return self._commented[comment]


_LIBRARY_TYPES = (
    ModuleType, BuiltinFunctionType, MethodDescriptorType, torch.nn.Module, torch.Tensor, type(torch.Tensor),
)  # fmt: skip


def _is_library_object(leaf: LeafGuard) -> bool:
    """Return whether the guarded object is torch's, Python's or a module. A tensor's type is part of its match."""
    return leaf.in_module or issubclass(leaf.guarded, _LIBRARY_TYPES)


def _summary(leaf: LeafGuard, check: Check, tensor: TensorFacts | None) -> str:
    if tensor is not None:
        return tensor.text
    return summarize(leaf.kind, GuardedValue(leaf.source, leaf.guarded.__name__), check)


class LeafGuard(NamedTuple):
    """One leaf of the guard tree."""

    kind: str
    source: str
    """The guarded object as a Dynamo source, empty if the guard belongs to no object."""
    checks: tuple[str, ...]
    """torch's text for each expression."""
    guarded: type
    """The type of the guarded object."""
    sibling_kinds: frozenset[str]
    """The kinds of all leaves of the object."""
    in_module: bool
    """Whether the object was reached through a Python module."""


def leaf_guards(root: Any) -> Iterator[LeafGuard]:
    """Yield all leaves below the root manager, in the order of the tree. A relation of several objects is yielded once.

    torch checks conditions on symbolic shapes (here of kind `SHAPE_ENV`) and duplicate inputs last, so they come last.
    """
    leaves: list[LeafGuard] = []
    _collect_leaves(root, "", leaves, in_module=False)
    seen = set()
    for leaf in (*leaves, *_epilogue(root)):
        key = (leaf.kind, "" if leaf.kind in RELATIONS else leaf.source, leaf.checks)
        if key not in seen:
            seen.add(key)
            yield leaf


_SAME_OBJECT = " is "


def _epilogue(root: Any) -> Iterator[LeafGuard]:
    for guard in root.get_epilogue_lambda_guards():
        for check in guard.verbose_code_parts():
            kind = "DUPLICATE_INPUT" if _SAME_OBJECT in check.split("  # ")[0] else "SHAPE_ENV"
            yield LeafGuard(kind, "", (check,), type(None), frozenset(), in_module=False)


def _collect_leaves(manager: Any, source: str, leaves: list[LeafGuard], *, in_module: bool) -> None:
    """Append the leaves of a manager and of those below it. Most managers have none."""
    guarded, own = manager.get_type_of_guarded_value(), manager.get_leaf_guards()
    if own:
        kinds = frozenset(type(leaf).__name__ for leaf in own)
        for leaf in own:
            checks = tuple(leaf.verbose_code_parts())
            leaves.append(LeafGuard(type(leaf).__name__, source, checks, guarded, kinds, in_module))
    in_module = in_module or guarded is ModuleType
    for child in _children(manager):
        _collect_leaves(child, child.get_source(), leaves, in_module=in_module)


def _children(manager: Any) -> list[Any]:
    children: list[Any] = manager.get_child_managers()
    if hasattr(manager, "get_key_value_managers"):
        pairs = manager.get_key_value_managers()
        children = [*children, *(child for index in sorted(pairs) for child in pairs[index] if child is not None)]
    return children
