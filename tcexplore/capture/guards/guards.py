"""The guards of each compiled frame: what torch checks before it uses a graph again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

from tcexplore.capture.dynamo.compile_id import current_compile_id
from tcexplore.capture.fx.fx_text import readable_source
from tcexplore.capture.fx.tensor_descriptions import TensorFacts, tensor_facts
from tcexplore.capture.guards.guard_locations import remember
from tcexplore.capture.guards.guard_text import Check, split_check, summary
from tcexplore.capture.guards.guard_tree import LeafGuard, leaf_guards
from tcexplore.capture.guards.structural_guards import is_structural
from tcexplore.capture.hooks import Hooks
from tcexplore.capture.structured_trace import StructuredTrace
from tcexplore.capture.user_files import UserFiles
from tcexplore.events import Guard, GuardsInstalled, Location

_FACT = "guards"
_HOOK = "torch._dynamo.guards:guard_manager_testing_hook_fn"


def install(hooks: Hooks, _trace: StructuredTrace, project: UserFiles) -> None:
    """Emit a `GuardsInstalled` for each compiled frame, with torch's own measurement of one check."""
    observer = _Guards(hooks, project)

    def hooked(before: Callable[..., None] | None) -> Callable[..., None]:
        def hook(manager: Any, scope: Any, builder: Any) -> None:
            if before is not None:
                before(manager, scope, builder)
            hooks.attempt(_FACT, _HOOK, observer.built, manager, builder)

        return hook

    hooks.wrap(_FACT, _HOOK, hooked)
    observer.timed = hooks.watch("guard latency", "torch._dynamo.guards:profile_guard_manager", after=observer.profiled)


class _Guards:
    timed = False
    """Whether torch is going to time the guards after it built them."""

    def __init__(self, hooks: Hooks, project: UserFiles) -> None:
        self._hooks = hooks
        self._project = project
        self._untimed: GuardsInstalled | None = None

    def built(self, manager: Any, builder: Any) -> None:
        made = _Origins(builder, self._project)
        guards = tuple(self._read(leaf, made) for leaf in leaf_guards(manager.root))
        remember(manager, guards)
        installed = GuardsInstalled(graph=current_compile_id() or "", guards=guards)
        if self.timed:
            self._untimed = installed
        else:
            self._hooks.emit(installed)

    def profiled(self, latency_us: float, *_args: Any) -> None:
        """torch times one check, right after the guards were built."""
        installed, self._untimed = self._untimed, None
        if installed is not None:
            self._hooks.emit(GuardsInstalled(graph=installed.graph, guards=installed.guards, latency_us=latency_us))

    def _read(self, leaf: LeafGuard, made: _Origins) -> Guard:
        origin = made.of(leaf)
        checks = [split_check(text, (origin and origin.code_list) or ()) for text in leaf.checks]
        location = made.location(origin, checks)
        return Guard(
            kind=leaf.kind,
            source=leaf.source,
            code=tuple(check.code for check in checks),
            summary=summary(leaf, checks[0], made.tensor(leaf, origin)) if checks else "",
            structural=is_structural(leaf),
            location=location,
            user_code=self._project.line(location),
            name=readable_source(leaf.source),
        )


class _Origins:
    """Dynamo's records of why it made the guards, found again for the leaves of the tree by their source."""

    def __init__(self, builder: Any, project: UserFiles) -> None:
        self._builder = builder
        self._project = project
        output_graph = builder.check_fn_manager.output_graph
        self._traced: dict[Any, Any] = getattr(output_graph, "input_source_to_sizes_strides", {})
        self._by_source: dict[str, list[Any]] = defaultdict(list)
        for guard in output_graph.guards:
            if guard.name:
                self._by_source[guard.name].append(guard)

    def of(self, leaf: LeafGuard) -> Any | None:
        """The record of this kind on this source, else any on it; None for what Dynamo guards of itself."""
        source = leaf.source.removesuffix(".__dict__").removesuffix(".__code__")
        records = self._by_source.get(leaf.source) or self._by_source.get(source) or ()
        fitting = (record for record in records if leaf.kind in (record.create_fn_name(), *(record.guard_types or ())))
        return next(fitting, records[0] if records else None)

    def tensor(self, leaf: LeafGuard, record: Any | None) -> TensorFacts | None:
        """The tensor that is guarded, with the sizes that Dynamo traced: a symbol where any size will do."""
        if leaf.kind != "TENSOR_MATCH" or record is None:
            return None
        facts = tensor_facts(self._builder.get(record))
        traced = self._traced.get(record.originating_source)
        if facts is None or traced is None:
            return facts
        return facts._replace(shape=tuple(map(str, traced["size"])), stride=tuple(map(str, traced["stride"])))

    def location(self, record: Any | None, checks: list[Check]) -> Location | None:
        """The user's line that made the guard necessary: from the record, else from torch's comment."""
        stack = self._project.frames(getattr(record, "user_stack", None))
        if stack:
            return stack[-1]
        places = (check.place for check in checks)
        return next((self._project.find(*place) for place in places if place), None)
