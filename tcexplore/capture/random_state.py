"""The state of all random generators of a process."""

from __future__ import annotations

import hashlib
import random
import sys
from collections.abc import Callable
from typing import Any

import torch


class RandomState:
    """The states of the generators of torch, Python and NumPy when it was made; `restore` sets them back."""

    def __init__(self) -> None:
        seeds, python = torch.get_rng_state(), random.getstate()
        self._restorers: list[Callable[[], object]] = [
            lambda: torch.set_rng_state(seeds),
            lambda: random.setstate(python),
        ]
        numpy: Any = sys.modules.get("numpy")
        if numpy is not None:
            state = numpy.random.get_state()
            self._restorers.append(lambda: numpy.random.set_state(state))
        if torch.cuda.is_initialized():
            devices = torch.cuda.get_rng_state_all()
            self._restorers.append(lambda: torch.cuda.set_rng_state_all(devices))

    def restore(self) -> None:
        """Set every generator back."""
        for restore in self._restorers:
            restore()


def random_digest() -> str:
    """Return a digest of the states of all generators."""
    digest = hashlib.blake2b(torch.get_rng_state().numpy().tobytes(), digest_size=16)
    digest.update(repr(random.getstate()).encode())
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None:
        name, keys, *rest = numpy.random.get_state()
        digest.update(repr((name, keys.tolist(), *rest)).encode())
    if torch.cuda.is_initialized():
        for state in torch.cuda.get_rng_state_all():
            digest.update(state.cpu().numpy().tobytes())
    return digest.hexdigest()
