"""Recompile checks on the regions of a script, with the calls that they remember."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

import torch

from tcexplore.capture.entry import Call, EntryError, describe_call, describe_value
from tcexplore.capture.typed_calls import base_to_imitate, nearest_texts
from tcexplore.capture.user_files import UserFiles
from tcexplore.events import RecompileAnswer, RegionCreated
from tcexplore.events.commands import RecompileQuery

if TYPE_CHECKING:
    from tcexplore.capture.recompile_check import RecompileCheck

MAX_REGIONS = 16
"""Number of newest regions to keep: each one keeps its compiled code alive."""

MAX_CALLS = 8
"""Number of newest calls that compiled to remember of a region, one for each combination of inputs."""

NOT_COMPILED = "No region is compiled yet."
NO_INPUTS = "{name} is guarded by its own state, not by the inputs of a call."
REPLACED = "{name} is no longer available: it was recompiled, or {limit} other regions were compiled since."
AMBIGUOUS = "There are several regions. Put the name of one in front: {names}"

_KINDS_WITH_INPUTS = ("function", "method", "module", "module in place")


@dataclass(slots=True)
class _KeptRegion:
    created: RegionCreated
    compiled: Callable[..., Any]
    graphs: tuple[str, ...] = ()
    calls: dict[tuple[str, ...], RememberedCall] = field(default_factory=dict)
    """The calls that compiled, by the descriptions of their inputs; the newest is last."""


class RegionQueries:
    """Keeps the newest region of each line of the user's files, without its inputs."""

    def __init__(self, user_files: UserFiles) -> None:
        self._user_files = user_files
        self._kept: dict[int, _KeptRegion] = {}
        self._created: dict[int, RegionCreated] = {}

    def add_region(self, created: RegionCreated, compiled: Callable[..., Any]) -> None:
        """Keep a new region. It replaces an earlier one of the same name and line."""
        self._created[created.region] = created
        if created.kind not in _KINDS_WITH_INPUTS:
            return
        for number, region in list(self._kept.items()):
            if (region.created.name, region.created.location) == (created.name, created.location):
                del self._kept[number]
        self._kept[created.region] = _KeptRegion(created, compiled)
        if len(self._kept) > MAX_REGIONS:
            del self._kept[next(iter(self._kept))]

    def add_compile(self, number: int, graphs: Sequence[str], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Remember a call that compiled these graphs."""
        region = self._kept.get(number)
        if region is not None:
            region.graphs = (*region.graphs, *graphs)
            call = RememberedCall(Call(args, kwargs))
            region.calls.pop(call.texts, None)
            region.calls[call.texts] = call
            if len(region.calls) > MAX_CALLS:
                del region.calls[next(iter(region.calls))]

    def last_inputs(self, number: int) -> tuple[str, ...]:
        """Return descriptions of the inputs of the last call that compiled."""
        region = self._kept.get(number)
        return next(reversed(region.calls), ()) if region is not None else ()

    def prepare(self, query: RecompileQuery) -> tuple[RecompileCheck, RecompileQuery] | RecompileAnswer:
        """Return the check of the region that the query names, or of the only one; an answer if there is none."""
        number, problem = query.region, ""
        if number is None:
            query = self._resolve_name(query)
            number, problem = self._only_region() if query.region is None else (query.region, "")
        region = self._kept.get(number) if number is not None else None
        if region is None or not region.calls:
            problem = problem or self._missing_reason(number)
            return RecompileAnswer(number=query.number, inputs=query.inputs, region=number, problem=problem)
        from tcexplore.capture.recompile_check import RecompileCheck

        number = region.created.region
        remembered = region.calls[nearest_texts(query.inputs, [*reversed(region.calls)])]
        try:
            call = remembered.recreate()
        except EntryError as error:
            return RecompileAnswer(number=query.number, inputs=query.inputs, region=number, problem=error.message)
        modes = remembered.state.restore
        check = RecompileCheck(region.compiled, (call,), self._user_files, region.graphs, modes=modes)
        return check, replace(query, region=number)

    def _resolve_name(self, query: RecompileQuery) -> RecompileQuery:
        """Replace a region's name in front of the inputs (`Net: f32[4]`) by the region's number."""
        name, colon, rest = query.inputs[0].partition(":") if query.inputs else ("", "", "")
        numbers = [number for number, region in self._kept.items() if region.created.name == name.strip()]
        inputs = (*filter(None, (rest.strip(),)), *query.inputs[1:])
        return replace(query, region=numbers[-1], inputs=inputs) if colon and numbers else query

    def _only_region(self) -> tuple[int | None, str]:
        regions = [region.created for region in self._kept.values() if region.calls]
        if len(regions) == 1:
            return regions[0].region, ""
        names = (f"{r.name} (line {r.location.line})" if r.location else r.name for r in regions)
        return None, AMBIGUOUS.format(names=", ".join(names)) if regions else NOT_COMPILED

    def _missing_reason(self, number: int | None) -> str:
        created = self._created.get(-1 if number is None else number)
        if created is None or number in self._kept:
            return NOT_COMPILED
        template = REPLACED if created.kind in _KINDS_WITH_INPUTS else NO_INPUTS
        return template.format(name=created.name, limit=MAX_REGIONS)


_CONSTANTS = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device, type)
_DEVICES = ("cpu", "cuda")


class RememberedCall:
    """The arguments of a call, and its `state`. `texts` describe them; `recreate` returns the call."""

    def __init__(self, call: Call) -> None:
        self.texts = describe_call(call)
        self.state = CallState.current()
        getters: dict[int, Callable[[], Any]] = {}

        def wrap(leaf: Any) -> _Leaf:
            return _Leaf(getters.setdefault(id(leaf), _getter(leaf)))

        self._call = call.map_leaves(wrap)

    def recreate(self) -> Call:
        """Return the original objects if they are still alive. A freed tensor is replaced by a similar one of zeros.

        Indices stay valid so. Raises `EntryError` if any other object was freed.
        """
        values: dict[int, Any] = {}

        def unwrap(leaf: _Leaf) -> Any:
            key = id(leaf.get)
            if key not in values:
                values[key] = leaf.get()
            return values[key]

        return self._call.map_leaves(unwrap)


class _Leaf:
    """One leaf of the arguments, opaque to pytree."""

    def __init__(self, get: Callable[[], Any]) -> None:
        self.get = get


def _getter(leaf: Any) -> Callable[[], Any]:
    if isinstance(leaf, _CONSTANTS):
        return lambda: leaf
    text = describe_value(leaf)
    try:
        reference = weakref.ref(leaf)
    except TypeError:  # the type does not support weak references
        return lambda: _raise_gone(text)
    similar = _similar_tensor(leaf) if type(leaf) is torch.Tensor and leaf.layout is torch.strided else None

    def get() -> Any:
        original = reference()
        if original is not None:
            return original
        return similar() if similar is not None else _raise_gone(text)

    return get


def _similar_tensor(tensor: torch.Tensor) -> Callable[[], torch.Tensor]:
    # A guard may check the base of a view.
    viewed = base_to_imitate(tensor)
    is_view, base = viewed is not None, tensor if viewed is None else viewed
    whole, of_whole, dtype, device = tuple(base.size()), base.stride(), tensor.dtype, tensor.device
    size, stride, offset = tuple(tensor.size()), tensor.stride(), tensor.storage_offset() - base.storage_offset()
    requires_grad, marks = tensor.requires_grad, {n: m for n, m in vars(tensor).items() if n.startswith("_dynamo_")}

    def make() -> torch.Tensor:
        similar = torch.empty_strided(whole, of_whole, dtype=dtype, device=device).zero_()
        if is_view:
            similar = similar.as_strided(size, stride, offset)
        similar.requires_grad_(requires_grad)
        vars(similar).update(marks)
        return similar

    return make


def _raise_gone(text: str) -> Any:
    raise EntryError(f"An argument of that call ({text}) no longer exists, so the call can't be checked.")


@dataclass(frozen=True, slots=True)
class CallState:
    """The torch modes of a call that guards check."""

    grad: bool
    inference: bool
    autocast: tuple[tuple[str, bool, torch.dtype], ...]
    """For each device type: whether autocast is enabled, and its dtype."""

    @classmethod
    def current(cls) -> Self:
        """Return the modes of this thread."""
        cast = tuple((d, torch.is_autocast_enabled(d), torch.get_autocast_dtype(d)) for d in _DEVICES)
        return cls(torch.is_grad_enabled(), torch.is_inference_mode_enabled(), cast)

    @contextmanager
    def restore(self) -> Iterator[None]:
        """Enter the same modes again."""
        current = CallState.current()
        with ExitStack() as modes:
            if self.inference != current.inference:
                modes.enter_context(torch.inference_mode(self.inference))
            for device, enabled, dtype in self.autocast:
                if (device, enabled, dtype) not in current.autocast:
                    modes.enter_context(torch.autocast(device, dtype, enabled))
            modes.enter_context(torch.set_grad_enabled(self.grad))
            yield
