"""State that is stored in neither attributes nor items: random generators, arrays, streams and iterators."""

from __future__ import annotations

import io
import itertools
import operator
import random
import sys
import zlib
from collections.abc import Callable
from typing import Any

import torch

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
