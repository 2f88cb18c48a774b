"""The modes of torch that a call is made under, and that guards look at."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Self

import torch

_DEVICES = ("cpu", "cuda")


@dataclass(frozen=True, slots=True)
class CallState:
    """Grad mode, inference mode, and autocast by device: whether it is on, and its dtype."""

    grad: bool
    inference: bool
    autocast: tuple[tuple[str, bool, torch.dtype], ...]

    @classmethod
    def now(cls) -> Self:
        """The modes of this thread."""
        cast = tuple((d, torch.is_autocast_enabled(d), torch.get_autocast_dtype(d)) for d in _DEVICES)
        return cls(torch.is_grad_enabled(), torch.is_inference_mode_enabled(), cast)

    @contextmanager
    def again(self) -> Iterator[None]:
        """The same modes once more."""
        now = CallState.now()
        with ExitStack() as modes:
            if self.inference != now.inference:
                modes.enter_context(torch.inference_mode(self.inference))
            for device, enabled, dtype in self.autocast:
                if (device, enabled, dtype) not in now.autocast:
                    modes.enter_context(torch.autocast(device, dtype, enabled))
            modes.enter_context(torch.set_grad_enabled(self.grad))
            yield
