"""The arguments and torch modes of a call, stored without keeping the user's tensors or objects alive."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Self

import torch

from tcexplore.capture.entry.entry import Call, EntryError
from tcexplore.capture.entry.entry_inputs import describe_call, describe_value

_CONSTANTS = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device, type)
_DEVICES = ("cpu", "cuda")


class RememberedCall:
    """The arguments of a call. `texts` describe them; `recreate` returns the call."""

    def __init__(self, call: Call) -> None:
        self.texts = describe_call(call)
        getters: dict[int, Callable[[], Any]] = {}

        def wrap(leaf: Any) -> _Leaf:
            return _Leaf(getters.setdefault(id(leaf), _getter(leaf)))

        self._call = call.map_leaves(wrap)

    def recreate(self) -> Call:
        """Return the original objects if they are still alive. A freed tensor is replaced by a similar one.

        Raises `EntryError` if any other object was freed.
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
    size, stride, dtype, device = tuple(tensor.size()), tensor.stride(), tensor.dtype, tensor.device
    requires_grad, marks = tensor.requires_grad, {n: m for n, m in vars(tensor).items() if n.startswith("_dynamo_")}

    def make() -> torch.Tensor:
        similar = torch.empty_strided(size, stride, dtype=dtype, device=device, requires_grad=requires_grad)
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
