"""Changes that might avoid the recompiles of a run, tried: the calls are repeated with each of them.

Each trial has a copy of this process, except on a GPU, which a copy cannot use: there a trial is undone after it.
Trials compile with Dynamo only (`backend="eager"`), which decides alone on recompiles.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import combinations, zip_longest
from types import ModuleType
from typing import Any, NamedTuple

import torch
from torch.utils import _pytree as pytree

from tcexplore.capture.dynamo.frame_entries import forget_frames
from tcexplore.capture.entry import Call, EntryError
from tcexplore.capture.hooks import Hooks
from tcexplore.capture.install_hooks import events_apart
from tcexplore.capture.user_files import UserFiles
from tcexplore.capture.varied_calls import Arguments, vary_calls
from tcexplore.events import (
    Config,
    Event,
    FrameEntered,
    GraphBreak,
    GraphCaptured,
    GuardsInstalled,
    Location,
    RecompileChange,
    Recompiled,
    RecompileFixTried,
)
from tcexplore.events.base import backward_number
from tcexplore.worker.fork_policy import call_in_copy, can_fork
from tcexplore.worker.program import Program

FACT = "recompile fixes that were tried"
SYMBOL = "torch._dynamo:mark_dynamic"

MOST_CHANGES = 5
"""Changes that are added to one that is not enough."""

TRIAL_S = 10.0
"""Seconds for one copy of the process."""

BUDGET_S = 30.0
"""Seconds for all of them; those that are left are not tried."""

_MARK = "_dynamo_propagated_dynamic_indices"

_NAME = re.compile(r"\w+")
_POSITION = re.compile(r"args\[(\d+)\]")
_KEYWORD = re.compile(r"kwargs\['(\w+)'\]")

Changes = tuple[RecompileChange, ...]


class _Compile(NamedTuple):
    """A compile of a frame in one call."""

    call: int
    frame: Location | None
    graph: str


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What the calls compiled."""

    compiles: tuple[_Compile, ...] = ()
    recompiled: frozenset[str] = frozenset()
    breaks: int = 0
    causes: tuple[Recompiled, ...] = ()
    problem: str = ""

    def avoided(self, graphs: Sequence[_Compile]) -> tuple[str, ...]:
        """Return those of the compiles of the unchanged calls that these calls don't make."""
        made = {(compiled.call, compiled.frame) for compiled in self.compiles}
        return tuple(each.graph for each in graphs if (each.call, each.frame) not in made)


@dataclass(slots=True)
class RecompileTrials:
    """Tries changes for the recompiles of a program. What was compiled in this process may be forgotten by that."""

    program: Program
    config: Config
    module: ModuleType
    hooks: Hooks
    user_files: UserFiles
    restore: Callable[[], object]
    """Sets the program's state back to that before its first call."""
    _before: _Outcome = field(default_factory=_Outcome)
    _until: float = 0.0
    _left: dict[Changes, tuple[Recompiled, ...]] = field(default_factory=dict)
    """Causes of the recompiles that the changes leave."""
    _arguments: Arguments = field(init=False)
    _single: list[RecompileFixTried] = field(default_factory=list)
    _combined: list[RecompileFixTried] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._arguments = Arguments(self.program.entry)

    def run(self) -> None:
        """Try the changes one by one, then together if no one suffices, and emit the results."""
        self._until = time.monotonic() + BUDGET_S
        self.restore()
        self._before = self._make_calls(())
        if self._before.problem:
            self.hooks.report_missing(FACT, SYMBOL, f"the unchanged calls cannot be repeated: {self._before.problem}")
            return
        for changes in self._single_changes(self._before.causes):
            self._single += self._try(changes)
        for tried in list(self._single):
            self._combined += self._extended(tried.changes)
        known = {tried.changes for tried in self._single}
        for changes in self._combined_changes():
            if self._solved or not self._targets:
                break
            if changes not in known:
                known.add(changes)
                self._combined += self._try(changes)
        for tried in self._useful():
            self.hooks.emit(tried)

    # ---- results

    @property
    def _targets(self) -> tuple[_Compile, ...]:
        """The recompiles of the unchanged calls."""
        return tuple(each for each in self._before.compiles if each.graph in self._before.recompiled)

    @property
    def _solved(self) -> bool:
        """Whether changes of what is named avoid all recompiles: `dynamic=True` is for all sizes of all calls."""
        named = (tried for tried in (*self._single, *self._combined) if _is_of_names(tried.changes))
        return any(len(tried.avoids) == len(self._targets) for tried in named)

    def _useful(self) -> Iterator[RecompileFixTried]:
        """Yield single changes, and the smallest combination that avoids more than each that names what it changes."""
        yield from self._single
        most = max((len(tried.avoids) for tried in self._single if _is_of_names(tried.changes)), default=0)
        best = max(self._combined, key=lambda tried: (len(tried.avoids), -len(tried.changes)), default=None)
        if best is not None and len(best.avoids) > most:
            yield best

    def _try(self, changes: Changes) -> Iterator[RecompileFixTried]:
        """Yield the result, nothing if the time for all is over."""
        if time.monotonic() > self._until:
            return
        before = len(self._before.compiles)
        after = self._make_calls(changes)
        problem = after.problem
        self._left[changes] = after.causes
        if not problem and after.breaks > self._before.breaks:
            problem = f"it adds {after.breaks - self._before.breaks} graph breaks"
        avoids = () if problem else after.avoided(self._targets)
        if len(after.compiles) >= before:
            avoids = ()
        yield RecompileFixTried(
            changes=changes, avoids=avoids, graphs_before=before, problem=problem,
            graphs_after=None if after.problem else len(after.compiles),
        )  # fmt: skip

    # ---- changes

    def _extended(self, changes: Changes) -> Iterator[RecompileFixTried]:
        """Try changes with others for the causes that they leave, as long as there is one: a guard names only one."""
        for _ in range(MOST_CHANGES):
            left = self._left.get(changes, ())
            others = (each for each in self._single_changes(left) if each[0].kind != "dynamic")
            added = next((each for each in others if not set(each) & set(changes)), None)
            if self._solved or added is None:
                return
            changes = tuple(dict.fromkeys((*changes, *added)))
            yield from self._try(changes)

    def _single_changes(self, causes: Sequence[Recompiled]) -> Iterator[Changes]:
        """Yield the changes for each cause; sizes that are equal in all calls are marked together."""
        dynamic = self.config.dynamic is None
        sizes = dict.fromkeys((c.name, c.dim) for c in causes if self._is_size(c))
        for name, dim in sizes:
            linked = self._linked(name, dim or 0)
            marks = tuple(RecompileChange("mark_dynamic", *size) for size in linked)
            if dynamic:
                yield marks
            if {0, 1} & set(self._sizes(name, dim or 0)):
                yield tuple(replace(mark, kind="mark_unbacked") for mark in marks)
        if dynamic and any(cause.kind in ("size", "stride", "condition", "int") for cause in causes):
            yield (RecompileChange("dynamic"),)
        for name in dict.fromkeys(c.name for c in causes if c.kind == "float" and self._is_argument(c)):
            yield (RecompileChange("tensor", name),)
        for cause in {c.name: c for c in causes if c.origin == "attribute"}.values():
            if cause.kind in ("int", "float") and self._owners(cause):
                yield (RecompileChange("attribute", cause.name),)
                if cause.kind == "int":
                    yield (RecompileChange("unspec_int", cause.name),)

    def _combined_changes(self) -> Iterator[Changes]:
        """Yield all changes of different causes together, the smallest sets first."""
        usable = [tried.changes for tried in self._single if not tried.problem or "Constraint" in tried.problem]
        groups = [
            [changes for changes in usable if changes[0].kind in kinds]
            for kinds in (("mark_dynamic", "tensor", "attribute"), ("mark_dynamic", "tensor", "unspec_int"),
                          ("mark_unbacked", "tensor", "attribute"), ("dynamic", "tensor", "attribute"),
                          ("dynamic", "tensor", "unspec_int"))
        ]  # fmt: skip
        widest = max(map(len, groups), default=0)
        for number in range(2, widest + 1):
            for group in groups:
                for parts in combinations(group, number):
                    if number in (2, len(group)):  # pairs, and all of a kind
                        yield tuple(dict.fromkeys(change for part in parts for change in part))

    def _is_argument(self, cause: Recompiled) -> bool:
        is_name = _NAME.fullmatch(_argument(cause.name)) is not None
        return cause.origin == "argument" and is_name and not backward_number(cause.graph)

    def _is_size(self, cause: Recompiled) -> bool:
        return cause.kind == "size" and cause.dim is not None and self._is_argument(cause) and bool(
            self._sizes(cause.name, cause.dim)
        )  # fmt: skip

    def _sizes(self, name: str, dim: int) -> tuple[int, ...]:
        """Return the size of an argument in each call; empty if a call lacks it."""
        sizes = []
        for call in self.program.entry.calls:
            value = self._value(call, name)
            if not isinstance(value, torch.Tensor) or value.dim() <= dim:
                return ()
            sizes.append(value.shape[dim])
        return tuple(sizes)

    def _value(self, call: Call, name: str) -> Any:
        """Return an argument of a call; None if the call lacks it."""
        try:
            return self._arguments.value(call, _argument(name))
        except EntryError:
            return None

    def _tensors(self, call: Call) -> Iterator[tuple[str, torch.Tensor]]:
        positions = map(str, range(len(call.args)))
        names = [name or position for name, position in zip_longest(self._arguments.names, positions, fillvalue="")]
        for name, value in (*zip(names, call.args, strict=False), *call.kwargs.items()):
            if isinstance(value, torch.Tensor):
                yield name, value

    def _linked(self, name: str, dim: int) -> tuple[tuple[str, int], ...]:
        """Return a size with the other sizes of arguments that are the same number in each call."""
        own, linked = self._sizes(name, dim), [(name, dim)]
        first = self.program.entry.calls[0]
        argument = self._value(first, name)
        for other, value in self._tensors(first):
            sizes = ((other, index) for index in range(value.dim()) if self._sizes(other, index) == own)
            linked += [size for size in sizes if value is not argument or size[1] != dim]
        return tuple(linked)

    def _owners(self, cause: Recompiled) -> list[tuple[Any, str]]:
        """Return the objects that have the attribute behind a recompile, with its name."""
        root, path = cause.name.partition(".")[::2]
        if root != "self" or self.program.module is None or not path:
            return []
        owners = []
        for module in self.program.module.modules():
            *parents, name = path.split(".")
            owner: Any = module
            for parent in parents:
                owner = getattr(owner, parent, None)
            if type(getattr(owner, name, None)) in (int, float):
                owners.append((owner, name))
        return list({(id(owner), name): (owner, name) for owner, name in owners}.values())

    # ---- calls

    def _make_calls(self, changes: Changes) -> _Outcome:
        """Repeat the calls with changes."""
        try:
            answer = self._answer(changes)
        except (OSError, RuntimeError, ValueError) as error:
            return _Outcome(problem=_first_line(str(error)))
        return _Outcome(
            tuple(_Compile(call, Location(**frame) if frame else None, graph) for call, frame, graph in answer["made"]),
            frozenset(answer["recompiled"]),
            answer["breaks"],
            tuple(Recompiled(**cause) for cause in answer["causes"]),
        )

    def _answer(self, changes: Changes) -> dict[str, Any]:
        """Return what the calls compile, tried in a copy of this process where that is possible."""
        if self.program.device.type != "cpu" or not can_fork():
            return self._calls_undone(changes)
        limit = min(TRIAL_S, max(1.0, self._until - time.monotonic()))
        answer: dict[str, Any] = call_in_copy(lambda: self._calls_with(changes), limit)
        return answer

    def _calls_undone(self, changes: Changes) -> dict[str, Any]:
        """Make the calls in this process, then set back what they and the changes changed. Raises `RuntimeError`."""
        dynamo = torch._dynamo.config
        unspec_int = dynamo.allow_unspec_int_on_nn_module
        attributes = [(owner, name, getattr(owner, name)) for owner, name in self._changed_attributes(changes)]
        marks = [(tensor, _copied(vars(tensor))) for tensor in _with_bases(self.program.entry.calls)]
        try:
            return self._calls_with(changes)
        except Exception as error:
            raise RuntimeError(f"{type(error).__name__}: {error}") from error
        finally:
            dynamo.allow_unspec_int_on_nn_module = unspec_int
            for owner, name, value in attributes:
                setattr(owner, name, value)
            for tensor, before in marks:
                vars(tensor).clear()
                vars(tensor).update(before)
            self.restore()
            forget_frames()

    def _changed_attributes(self, changes: Changes) -> list[tuple[Any, str]]:
        """Return the attributes that changes make tensors, each with its object."""
        names = {change.name for change in changes if change.kind == "attribute"}
        causes = {cause.name: cause for causes in (self._before.causes, *self._left.values()) for cause in causes}
        return [attribute for name, cause in causes.items() if name in names for attribute in self._owners(cause)]

    def _calls_with(self, changes: Changes) -> dict[str, Any]:
        """Make the calls, and return what they compile. Changes the program and this process."""
        with events_apart(self.hooks, self.user_files) as events:
            return _compiled(events, self._compile_with(changes, events))

    def _compile_with(self, changes: Changes, events: Sequence[Event]) -> list[int]:
        """Make the calls with changes; return the number of events after each."""
        forget_frames()
        _forget_marks(self.program.entry.calls)
        for owner, name in self._changed_attributes(changes):
            setattr(owner, name, torch.tensor(getattr(owner, name)))
        if any(change.kind == "unspec_int" for change in changes):
            torch._dynamo.config.allow_unspec_int_on_nn_module = True
        varied = Config(
            mark_dynamic=_marked(changes, "mark_dynamic"),
            as_tensors=tuple(_argument(change.name) for change in changes if change.kind == "tensor"),
        )  # fmt: skip
        dynamic = True if any(change.kind == "dynamic" for change in changes) else self.config.dynamic
        config = replace(self.config, backend="eager", mode="default", dynamic=dynamic)
        entry = replace(vary_calls(self.program.entry, varied), compiled=None)
        for change in changes:
            for call in entry.calls if change.kind == "mark_unbacked" else ():
                # Also of sizes 0 and 1, which `vary_calls` does not mark.
                torch._dynamo.decorators.mark_unbacked(self._value(call, change.name), change.dim or 0)
        program = Program(entry, config, self.module)
        program.grad = self.program.grad
        ends = []
        # No backward: it recompiles nothing that counts here, and cannot run in a copy once torch built for CUDA has
        # compiled something, since the fake tensors of a compile add a device to autograd's.
        make = program.forward if program.train else program.call
        for call in program.entry.calls:
            make(program.compiled, call)
            program.restore()
            ends.append(len(events))
        return ends


def _forget_marks(calls: Iterable[Call]) -> None:
    """Remove the mark of sizes that were dynamic in an earlier call, which torch leaves on what a backward needs."""
    for tensor in _with_bases(calls):
        vars(tensor).pop(_MARK, None)


def _copied(attributes: dict[str, Any]) -> dict[str, Any]:
    """Return the attributes of a tensor, with copies of the sets in which torch adds its marks."""
    return {name: set(value) if isinstance(value, set) else value for name, value in attributes.items()}


def _with_bases(calls: Iterable[Call]) -> Iterator[torch.Tensor]:
    """Yield the tensors of calls, and those of which they are views."""
    for tensor in pytree.tree_leaves([(call.args, call.kwargs) for call in calls]):
        if isinstance(tensor, torch.Tensor):
            yield tensor
            if tensor._base is not None:
                yield tensor._base


def _compiled(events: Sequence[Event], ends: Sequence[int]) -> dict[str, Any]:
    """Return the compiles of calls, whose events end at these indices, as JSON."""
    frames = {event.graph: event.frame for event in events if isinstance(event, FrameEntered)}
    made: dict[str, tuple[int, Any, str]] = {}
    for index, event in enumerate(events):
        if isinstance(event, GuardsInstalled | GraphCaptured) and event.graph and not backward_number(event.graph):
            frame = frames.get(event.graph)
            call = sum(end <= index for end in ends)
            made.setdefault(event.graph, (call, asdict(frame) if frame else None, event.graph))
    causes = [event for event in events if isinstance(event, Recompiled) and not backward_number(event.graph)]
    return {
        "made": list(made.values()),
        "recompiled": sorted({cause.graph for cause in causes if cause.graph in made}),
        "breaks": len({(event.location, event.kind) for event in events if isinstance(event, GraphBreak)}),
        "causes": [_plain(cause) for cause in causes],
    }


def _is_of_names(changes: Changes) -> bool:
    return all(change.kind != "dynamic" for change in changes)


def _plain(cause: Recompiled) -> dict[str, Any]:
    fields = ("graph", "failed_entry", "failed_guard", "reason", "old", "new", "kind", "name", "dim", "origin")
    return {name: getattr(cause, name) for name in fields}


def _marked(changes: Changes, kind: str) -> tuple[str, ...]:
    return tuple(f"{_argument(change.name)}.{change.dim}" for change in changes if change.kind == kind)


def _argument(name: str) -> str:
    """Return the name or position of an argument, which Dynamo may call `args[0]` or `kwargs['x']`."""
    found = _POSITION.fullmatch(name) or _KEYWORD.fullmatch(name)
    return found[1] if found else name


def _first_line(text: str) -> str:
    return next(iter(text.strip().splitlines()), "")[:300]
