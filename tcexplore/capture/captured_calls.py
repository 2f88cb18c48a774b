"""Calls of the regions of a script, kept to be made again: one for each signature of the inputs."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Any, Protocol

import torch
from torch.utils import _pytree as pytree

from tcexplore.capture.entry import Call, CallContext, Entry, describe_call
from tcexplore.capture.module_paths import module_of
from tcexplore.capture.python_state import ArgumentState, named_leaves, objects_with_tensors, tensors_inside
from tcexplore.capture.random_state import RandomState
from tcexplore.capture.region_queries import CallState
from tcexplore.events import RegionKind
from tcexplore.quantities import size

MAX_CALLS = 4
"""Captured calls of a region: those with its first signatures, and that with the largest inputs."""

MAX_REGIONS = 8
"""Regions of which calls are captured."""

MAX_REPLACED = 16
"""How often a call with larger inputs replaces an earlier one of a region."""

EXAMINED_CALLS = 8
"""After the first eight calls, an eighth of their number passes until the next look at what the program wrote to."""

MAX_SIGNATURES = 1024
"""Signatures of a region that are counted one by one."""

SMALL_BYTES = 64 << 10
"""Tensors up to this size are copied at once: BatchNorm writes to its statistics without counting it as a change."""

KINDS = ("function", "method", "module", "module in place")
"""Regions whose calls can be made again: an optimizer changes its parameters and its own state."""

Signature = tuple[Any, ...]


class NotCapturedError(Exception):
    """A call cannot be kept; the message gives the reason."""


class CompiledRegion(Protocol):
    """What is known of a region."""

    number: int
    name: str
    kind: RegionKind
    calls: int
    eager: int
    original: Callable[..., Any] | None
    target: Any


def signature_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Signature:
    """Return the sizes and types of tensors, and the values of numbers and texts, among the arguments of a call."""
    return (
        torch.is_grad_enabled(),
        *map(_signature, args),
        *((name, _signature(value)) for name, value in kwargs.items()),
    )


_PLAIN = (bool, int, str, type(None))


def _signature(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        # The lengths inside a nested tensor cannot be compared.
        return value.dtype, (value.layout, value.dim(), value.size(0)) if value.is_nested else tuple(value.shape)
    if isinstance(value, _PLAIN):
        return value
    if type(value) in (list, tuple):
        return tuple(map(_signature, value))
    if type(value) is dict:
        return tuple((key, _signature(item)) for key, item in value.items())
    return type(value)


@dataclass(slots=True)
class SignatureCount:
    """How often a region was called with one signature."""

    inputs: tuple[str, ...]
    """Descriptions of the arguments."""
    grad: bool
    calls: int = 0
    compiles: int = 0
    """Graphs that these calls compiled."""
    first_call: int = 0
    """Number of the first of them, from 1."""
    examine_at: int = 0
    """The call at which it is looked again whether the program wrote to what is kept of an earlier one."""
    tensors: tuple[tuple[str, tuple[int, ...]], ...] = ()
    """Position or name, and sizes, of each tensor among the arguments."""


@dataclass(slots=True)
class KeptTensor:
    """A tensor of the program with its version when a call was captured, and its values then if they were copied."""

    tensor: torch.Tensor
    version: int
    copy: torch.Tensor | None = None
    original_version: int = 0
    """Version of the tensor of the program, if `tensor` is a copy or an alias of it."""

    @property
    def changed(self) -> bool:
        """Whether the program has written to it since, and its values of then are gone."""
        return self.copy is None and version_of(self.tensor) != self.version

    def set_back(self) -> bool:
        """Give the tensor its values of the captured call; return whether it has them."""
        if self.copy is not None and self.tensor.shape == self.copy.shape:
            with torch.inference_mode() if self.tensor.is_inference() else torch.no_grad():
                self.tensor.copy_(self.copy)
            return True
        return not self.changed


class ModuleState:
    """Parameters, buffers and modes of a module at the time of a call."""

    def __init__(self, module: torch.nn.Module, copied: Callable[[str, torch.Tensor], bool]) -> None:
        """`copied` tells whether the values of a parameter or buffer are copied."""
        self._module = module
        self.tensors = {name: _keep(tensor, copied(name, tensor)) for name, tensor in named_tensors(module)}
        self._training = [(each, each.training) for each in module.modules()]
        self._requires_grad = [(each, each.requires_grad) for each in module.parameters()]

    def set_back(self) -> bool:
        """Set the module back; return whether all parameters and buffers have their values of the call.

        Raises `NotCapturedError` if FSDP has taken its parameters apart since.
        """
        current = dict(named_tensors(self._module))
        if any(_is_sharded(current.get(name)) and not _is_sharded(kept.tensor) for name, kept in self.tensors.items()):
            raise NotCapturedError("FSDP has its parameters together only while the script calls it")
        for module, training in self._training:
            module.training = training
        for parameter, requires_grad in self._requires_grad:
            if parameter.is_leaf and parameter.requires_grad != requires_grad:
                parameter.requires_grad_(requires_grad)
        present = all(current.get(name) is kept.tensor for name, kept in self.tensors.items())
        were_set_back = [kept.set_back() for kept in self.tensors.values()]  # each of them, also after one that fails
        return all(were_set_back) and present


@dataclass(slots=True, weakref_slot=True)
class CapturedCall:
    """A call of a region, as it was before it ran."""

    region: int
    name: str
    number: int
    """Of the region's calls, from 1."""
    target: Callable[..., Any]
    """The eager form: the module that is compiled, or the function or method."""
    compiled: Callable[..., Any]
    inputs: tuple[str, ...]
    call: Call
    arguments: dict[int, KeptTensor]
    """By position among the leaves of the arguments."""
    modes: CallState
    random: RandomState
    count: SignatureCount
    """How often such a call was made."""
    elements: int
    """Elements of all tensors among the arguments."""
    state: ModuleState | None = None
    objects: ArgumentState | None = None
    """State of the arguments that are objects with tensors, such as a key-value cache."""
    copied_bytes: int = 0
    written_inputs: frozenset[int] = frozenset()
    """Positions of arguments with a gradient that the call itself wrote to."""
    outputs: int = 0
    """Outputs with a gradient to come."""
    gradients: dict[int, KeptTensor] = field(default_factory=dict)
    """The gradients of the outputs that came in the backward, by position among the leaves of the result."""

    @property
    def stale(self) -> bool:
        """Whether the program has since written to what the call is kept by reference."""
        tensors = self.state.tensors.values() if self.state is not None else ()
        return any(kept.changed for kept in (*self.arguments.values(), *tensors))

    @property
    def complete(self) -> bool:
        """Whether all gradients that may come have come, as far as is known."""
        return not self.outputs or bool(self.gradients)

    @property
    def written(self) -> Iterator[str]:
        """The names of what the program has written to."""
        yield from (str(position) for position, kept in self.arguments.items() if kept.changed)
        if self.state is not None:
            yield from (name for name, kept in self.state.tensors.items() if kept.changed)

    def entry(self) -> Entry:
        """Return the call as an entry, for all stages that expect one, with the program's state set back for it.

        Raises `NotCapturedError` if the arguments are gone.
        """
        if any(kept.changed for kept in self.arguments.values()):
            raise NotCapturedError("the program wrote to an argument after the call, and the call was not repeated")
        notes = []
        for kept in self.arguments.values():
            if kept.copy is not kept.tensor:
                kept.set_back()
        if self.objects is not None:
            self.objects.restore()
            self.objects.detach()
        if self.state is not None and not self.state.set_back():
            notes.append("Parameters have their values from the end of the script: a copy of them would be too large.")
        gradients = {position: kept.tensor for position, kept in self.gradients.items() if not kept.changed}
        if self.outputs and not gradients:
            notes.append("No gradient of its outputs came before the end of the script.")
        modes = nullcontext if self.modes == CallState.current() else self.modes.restore
        context = CallContext(
            modes=modes, seed=self.random.restore, grad=self.modes.grad, gradients=gradients,
            written_inputs=self.written_inputs,
        )  # fmt: skip
        return Entry(
            name=self.name,
            kind="module" if isinstance(self.target, torch.nn.Module) else "function",
            rule=f"call {self.number} of this region in the script",
            target=self.target,
            calls=(self.call,),
            compiled=self.compiled,
            notes=tuple(notes),
            context=context,
        )


class CallCapture:
    """Counts the calls of each region by signature, and captures one call for each of a few signatures.

    Tensors are kept by reference. Those that the program turns out to write to, by their version counters, are copied
    when a call with the same signature comes again.
    """

    def __init__(self, limit: Callable[[torch.device], int], *, only: str = "", replay: bool = False) -> None:
        """`limit` returns the bytes that captured calls may hold; `only` names or numbers the one region to capture.

        `replay`: the script runs for this call alone, eagerly. So all tensors are copied, if they fit.
        """
        self._replay = replay
        self.counts: dict[int, dict[Signature, SignatureCount]] = {}
        self.other_calls: dict[int, int] = {}
        """Calls of each region with further signatures."""
        self.calls: dict[int, dict[Signature, CapturedCall]] = {}
        self.reasons: dict[str, str] = {}
        """Why nothing was captured of a region, by its name."""
        self.open = True
        self.total_bytes = 0
        self._limit = limit
        self._limit_bytes: int | None = None
        self._only = only
        self._written: dict[int, set[str]] = {}
        """Names of what the program writes to between calls of a region."""
        self._replaced: dict[int, int] = {}

    def begin(
        self,
        region: CompiledRegion,
        compiled: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        *,
        keep: bool = True,
    ) -> CapturedCall | None:
        """Count a call that is about to run; return it if it is captured, which needs `keep`."""
        if not self.open:
            return None
        signature = signature_of(args, kwargs)
        count = self._count(region, signature, args, kwargs)
        if count is None or not (keep or self._replay) or not self._wanted(region, signature, count, args, kwargs):
            return None
        try:
            captured = self._capture(region, compiled, Call(args, kwargs), count)
        except NotCapturedError as error:
            self.reasons.setdefault(region.name, str(error))
            return None
        self._add(signature, captured)
        return captured

    def end(self, captured: CapturedCall, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        """Have autograd keep the gradients of the outputs of a captured call, and note which arguments it wrote to."""
        given = pytree.tree_leaves((args, kwargs))
        captured.written_inputs = frozenset(
            position
            for position, kept in captured.arguments.items()
            if kept.tensor.requires_grad and version_of(given[position]) != kept.original_version
        )
        if not torch.is_grad_enabled() or torch.is_inference_mode_enabled() or _compiles_autograd():
            return
        reference = weakref.ref(captured)
        for position, leaf in enumerate(pytree.tree_leaves(result)):
            if isinstance(leaf, torch.Tensor) and leaf.requires_grad and leaf.grad_fn is not None:
                captured.outputs += 1
                leaf.register_hook(partial(_keep_gradient, reference, position))

    def discard(self, captured: CapturedCall) -> None:
        """Forget a call that raised an exception."""
        for calls in self.calls.values():
            for signature in [key for key, kept in calls.items() if kept is captured]:
                del calls[signature]

    def note_compiles(self, region: CompiledRegion, args: tuple[Any, ...], kwargs: dict[str, Any], graphs: int) -> None:
        """Count the graphs that a call compiled."""
        count = self.counts.get(region.number, {}).get(signature_of(args, kwargs))
        if count is not None:
            count.compiles += graphs

    def first(self, region: int | None = None) -> CapturedCall | None:
        """Return the first captured call, of a region or of any."""
        calls = self.calls.values() if region is None else [self.calls.get(region, {})]
        return next((captured for kept in calls for captured in kept.values()), None)

    def close(self) -> None:
        """Count and capture no further call."""
        self.open = False

    def clear(self) -> None:
        """Release what is kept."""
        self.calls.clear()

    def _count(
        self, region: CompiledRegion, signature: Signature, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> SignatureCount | None:
        counts = self.counts.setdefault(region.number, {})
        count = counts.get(signature)
        if count is None:
            if len(counts) == MAX_SIGNATURES:
                self.other_calls[region.number] = self.other_calls.get(region.number, 0) + 1
                return None
            call = Call(args, kwargs)
            count = counts[signature] = SignatureCount(
                describe_call(call),
                torch.is_grad_enabled(),
                first_call=region.calls + region.eager + 1,
                tensors=_sizes(args, kwargs),
            )
        count.calls += 1
        return count

    def _examine(self, region: CompiledRegion, count: SignatureCount, kept: CapturedCall) -> bool:
        """Return whether the program has written to something since the capture that it was not known to write to.

        The longer it has not, the more calls pass before the next look, which takes time for each parameter.
        """
        known = self._written.setdefault(region.number, set())
        written = set(kept.written) - known
        known |= written
        count.examine_at = count.calls + 1 if written else count.calls + max(1, count.calls // EXAMINED_CALLS)
        return bool(written)

    def _wanted(
        self,
        region: CompiledRegion,
        signature: Signature,
        count: SignatureCount,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> bool:
        if self._only and self._only not in (region.name, str(region.number)):
            return False
        if region.kind not in KINDS or region.original is None:
            if region.kind == "optimizer":
                self.reasons.setdefault(region.name, "an optimizer changes its parameters and its own state")
            return False
        calls = self.calls.get(region.number)
        if calls is None:
            return len(self.calls) < MAX_REGIONS
        kept = calls.get(signature)
        if kept is not None:
            return count.calls >= count.examine_at and self._examine(region, count, kept)
        if len(calls) < MAX_CALLS:
            return True
        largest = max(captured.elements for captured in calls.values())
        if _elements(args, kwargs) <= largest or self._replaced.get(region.number, 0) == MAX_REPLACED:
            return False
        self._replaced[region.number] = self._replaced.get(region.number, 0) + 1
        del calls[next(reversed(calls))]
        return True

    def _add(self, signature: Signature, captured: CapturedCall) -> None:
        calls = self.calls.setdefault(captured.region, {})
        calls.pop(signature, None)
        calls[signature] = captured
        self.total_bytes = sum(kept.copied_bytes for calls in self.calls.values() for kept in calls.values())

    def _capture(
        self, region: CompiledRegion, compiled: Callable[..., Any], call: Call, count: SignatureCount
    ) -> CapturedCall:
        assert region.original is not None
        target = region.target if region.kind == "module" else region.original
        written = self._written.get(region.number, set())
        budget = self._budget(call)
        arguments = _Arguments(written, copied=self._replay)
        kept = call.map_leaves(arguments.keep)
        objects = objects_with_tensors(pytree.tree_leaves((call.args, dict(call.kwargs))))
        inside = {id(tensor): tensor for tensor in chain(*map(tensors_inside, objects))}
        spent = arguments.bytes + sum(map(_bytes, inside.values()))
        if spent > budget:
            raise NotCapturedError(
                f"its inputs take {size(spent)}; captured calls may hold {size(self._limit_bytes or 0)}"
            )
        module = module_of(target)
        if module is None and not arguments.kept and not objects:
            raise NotCapturedError("it has no tensor among its arguments, so what it reads and writes is not known")
        captured = CapturedCall(
            region=region.number, name=region.name, number=region.calls + region.eager + 1, target=target,
            compiled=compiled, inputs=count.inputs, call=kept, arguments=arguments.kept, modes=CallState.current(),
            random=RandomState(), count=count, elements=_elements(call.args, dict(call.kwargs)),
            objects=ArgumentState(objects) if objects else None,
        )  # fmt: skip
        if module is not None:
            changing = {name: tensor for name, tensor in named_tensors(module) if self._replay or name in written}
            copies = sum(map(_bytes, changing.values()))
            fits = spent + copies <= budget
            captured.state = ModuleState(
                module, lambda name, tensor: _bytes(tensor) <= SMALL_BYTES or (fits and name in changing)
            )
            spent += copies if fits else 0
        captured.copied_bytes = spent
        return captured

    def _budget(self, call: Call) -> int:
        """Return the bytes that a further captured call may hold."""
        if self._limit_bytes is None:
            tensors = [leaf for leaf in pytree.tree_leaves(call.args) if isinstance(leaf, torch.Tensor)]
            self._limit_bytes = self._limit(next((t.device for t in tensors), torch.device("cpu")))
        return self._limit_bytes - self.total_bytes


class _Arguments:
    """Keeps the leaves of the arguments of a call."""

    def __init__(self, written: set[str], *, copied: bool) -> None:
        """`written` are the positions of what the program writes to; `copied` tells whether all values are copied."""
        self._copied = copied
        self.kept: dict[int, KeptTensor] = {}
        self.bytes = 0
        self._written = written
        self._position = -1
        self._known: dict[int, torch.Tensor] = {}

    def keep(self, leaf: Any) -> Any:
        """Return a leaf for the captured call. A tensor that is passed twice stays one."""
        self._position += 1
        if not isinstance(leaf, torch.Tensor):
            return leaf
        if id(leaf) not in self._known:
            self._known[id(leaf)] = self._keep_tensor(leaf)
        return self._known[id(leaf)]

    def _keep_tensor(self, tensor: torch.Tensor) -> torch.Tensor:
        if isinstance(tensor, torch.nn.Parameter) or type(tensor) is not torch.Tensor or tensor.is_nested:
            # The call reads the program's own tensor, which is set back for it.
            copied = not tensor.is_nested and (self._copied or str(self._position) in self._written)
            self.bytes += _bytes(tensor) if copied else 0
            copy = _copy(tensor) if copied else None
            self.kept[self._position] = KeptTensor(tensor, version_of(tensor), copy, version_of(tensor))
            return tensor
        # Memory of CUDA graphs is written to without a change of the version.
        copied = (
            self._copied or tensor.is_inference() or tensor.is_cuda or _bytes(tensor) <= SMALL_BYTES
            or str(self._position) in self._written
        )  # fmt: skip
        alias = _copy(tensor) if copied else tensor.detach()
        if tensor.requires_grad:
            alias.requires_grad_()
        for name, mark in vars(tensor).items():
            if name.startswith("_dynamo_"):
                setattr(alias, name, mark)
        self.bytes += _bytes(tensor)
        copy = alias if copied else None
        self.kept[self._position] = KeptTensor(alias, version_of(alias), copy, version_of(tensor))
        return alias


def version_of(tensor: torch.Tensor) -> int:
    """Return how often a tensor was written to; 0 for an inference tensor, which does not count it."""
    return 0 if tensor.is_inference() else tensor._version


def named_tensors(module: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the parameters and buffers of a module."""
    yield from module.named_parameters()
    yield from module.named_buffers()


def _is_sharded(tensor: torch.Tensor | None) -> bool:
    return type(tensor).__name__ == "DTensor"


def _keep(tensor: torch.Tensor, copied: bool) -> KeptTensor:
    return KeptTensor(tensor, version_of(tensor), _copy(tensor) if copied else None)


def _copy(tensor: torch.Tensor) -> torch.Tensor:
    """Return a copy with the same layout, which guards check; of an inference tensor an inference tensor."""
    with torch.inference_mode() if tensor.is_inference() else _normal_tensors():
        if tensor.layout is not torch.strided or type(tensor) not in (torch.Tensor, torch.nn.Parameter):
            return tensor.detach().clone()
        # A clone of a slice would be contiguous. What is expanded is copied once.
        values = tensor.detach()
        for dim, stride in enumerate(tensor.stride()):
            if not stride and tensor.size(dim) > 1:
                values = values.narrow(dim, 0, 1)
        return _empty_like(values).copy_(values).expand(tensor.size())


def _empty_like(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor of the same sizes and strides, and at the same offset in its memory unless that is large."""
    offset = tensor.storage_offset()
    if not offset or offset * tensor.element_size() > SMALL_BYTES:
        return torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device=tensor.device)
    last = sum((size - 1) * stride for size, stride in zip(tensor.size(), tensor.stride(), strict=True))
    memory = tensor.new_empty(offset + (last + 1 if tensor.numel() else 0)).untyped_storage()
    return tensor.new_empty(0).set_(memory, offset, tensor.size(), tensor.stride())


@contextmanager
def _normal_tensors() -> Iterator[None]:
    """Make tensors that are no inference tensors, without gradients."""
    with torch.inference_mode(False), torch.no_grad():
        yield


def _bytes(tensor: torch.Tensor) -> int:
    return int(tensor.numel() * tensor.element_size())


def _keep_gradient(reference: weakref.ref[CapturedCall], position: int, gradient: torch.Tensor | None) -> None:
    """Keep the gradient of an output. It is None for an output of a graph that has a gradient for others only."""
    captured = reference()
    if captured is not None and gradient is not None and position not in captured.gradients:
        captured.gradients[position] = _keep(gradient.detach(), copied=_bytes(gradient) <= SMALL_BYTES)


def _compiles_autograd() -> bool:
    """Return whether compiled autograd would trace a hook of a tensor."""
    from torch._dynamo import compiled_autograd, config

    enabled = getattr(compiled_autograd, "compiled_autograd_enabled", False)
    return bool(enabled or getattr(config, "compiled_autograd", False))


def _elements(args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
    return sum(leaf.numel() for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor))


def _sizes(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """Return position or name, and sizes, of each tensor among the arguments: `0`, `0[1]`, `mask`.

    Nested tensors have no sizes.
    """
    named = [(str(index), value) for index, value in enumerate(args)]
    return tuple(
        (path, tuple(leaf.shape))
        for name, value in (*named, *kwargs.items())
        for path, leaf in named_leaves(value, name)
        if isinstance(leaf, torch.Tensor) and not leaf.is_nested
    )
