"""What tells the steps of a training loop from outside: writes to parameters by optimizers, and waits for batches."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any

import torch

from tcexplore.capture.compiled_regions import skip_in_dynamo
from tcexplore.capture.hooks import Hooks

FACT = "steps of the script"
OPTIMIZER = "torch.optim:Optimizer.__init__"
ITERATOR = "torch.utils.data.dataloader:_BaseDataLoaderIter.__next__"

WATCHED_PARAMETERS = 8
"""Parameters of an optimizer whose version counters are read at each call of a region."""


class OptimizerUpdates:
    """Finds out which optimizers changed their parameters since the last reading.

    The version counters of the step counts in its state tell it, or those of the parameters if it has none: a fused
    optimizer writes to parameters without counting it. A hook of the optimizer would be traced into a compiled
    `optimizer.step`, and change its graph.
    """

    def __init__(self) -> None:
        self._watched: dict[int, _Watched] = {}

    def install(self, hooks: Hooks) -> None:
        """Start to watch the optimizers that are created."""
        hooks.watch(FACT, OPTIMIZER, after=lambda _, optimizer, *__, **___: self._add(optimizer))

    def read(self) -> tuple[int, ...]:
        """Return the numbers of the optimizers that changed a watched parameter since the last reading."""
        return tuple(number for number, watched in self._watched.items() if watched.changed())

    def name(self, number: int) -> str:
        """Return the class name of an optimizer."""
        return self._watched[number].name

    def forget(self) -> None:
        """Forget all optimizers: the script begins again."""
        self._watched.clear()

    def _add(self, optimizer: torch.optim.Optimizer) -> None:
        # A subclass may call `__init__` of several of its bases.
        if all(watched.optimizer() is not optimizer for watched in self._watched.values()):
            self._watched[len(self._watched)] = _Watched(optimizer)


class _Watched:
    """An optimizer with some of its parameters, spread over all of them: not each has a gradient in each step."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self.name = type(optimizer).__name__
        self.optimizer = weakref.ref(optimizer)
        parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        stride = max(1, len(parameters) // WATCHED_PARAMETERS)
        self._parameters = [weakref.ref(parameter) for parameter in parameters[::stride][: WATCHED_PARAMETERS + 1]]
        self._counters: list[weakref.ref[torch.Tensor]] = []
        """The tensors whose version counters are read."""
        self._state = 0, 0
        """Identity and length of the optimizer's state, from which the counters were taken."""
        self._version = self._read()

    def changed(self) -> bool:
        before, self._version = self._version, self._read()
        return self._version != before

    def _read(self) -> int:
        """Return the sum of the version counters: each call of a region waits for it, so it looks up nothing."""
        optimizer = self.optimizer()
        if optimizer is not None and self._state != (id(optimizer.state), len(optimizer.state)):
            self._counters = [*self._step_counts(optimizer)] or self._parameters
            self._state = id(optimizer.state), len(optimizer.state)
        version = 0
        for reference in self._counters:
            if (tensor := reference()) is not None:
                version += tensor._version
            else:
                self._state = 0, 0
        return version

    def _step_counts(self, optimizer: torch.optim.Optimizer) -> Iterator[weakref.ref[torch.Tensor]]:
        for reference in self._parameters:
            if (parameter := reference()) is not None and parameter in optimizer.state:
                steps = optimizer.state[parameter].get("step")
                if isinstance(steps, torch.Tensor):
                    yield weakref.ref(steps)


class DataLoaders:
    """Counts the batches that the main program takes from DataLoaders, and how long it waits for them."""

    def __init__(self) -> None:
        self.batches = 0
        self.waited_ns = 0
        self.length: int | None = None
        """Batches of an epoch of the last one used."""
        self.depth = 0
        """Batches that the workers of the last one used prepare in advance."""
        self._iterator: weakref.ref[Any] | None = None

    def install(self, hooks: Hooks) -> None:
        """Start to watch the iterators of DataLoaders."""
        hooks.wrap(FACT, ITERATOR, self._wrap)

    def _wrap(self, original: Callable[[Any], Any]) -> Callable[[Any], Any]:
        @wraps(original)
        def next_batch(iterator: Any) -> Any:
            began = time.perf_counter_ns()
            batch = original(iterator)
            self.waited_ns += time.perf_counter_ns() - began
            self.batches += 1
            if self._iterator is None or self._iterator() is not iterator:
                self._note(iterator)
            return batch

        return skip_in_dynamo(next_batch)

    def _note(self, iterator: Any) -> None:
        self._iterator = weakref.ref(iterator)
        try:
            self.length = len(iterator)
        except TypeError:  # an IterableDataset without a length
            self.length = None
        workers = getattr(iterator, "_num_workers", 0) or 0
        self.depth = workers * (getattr(iterator, "_prefetch_factor", None) or 2)


MOST_SHAPES = 32
"""Tensors of a call whose shapes are compared."""

Shapes = tuple[tuple[int, ...], ...]


def shapes_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Shapes:
    """Return the shapes of the tensors among the arguments, and in lists and dictionaries of them.

    Of a nested tensor, whose lengths are no numbers, it is the number of its elements.
    """
    shapes: list[tuple[int, ...]] = []
    for value in _values(args, kwargs):
        if isinstance(value, torch.Tensor):
            shapes.append((int(value.numel()),) if value.is_nested else tuple(value.shape))
            if len(shapes) == MOST_SHAPES:
                break
    return tuple(shapes)


def _values(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[Any]:
    for value in (*args, *kwargs.values()):
        if type(value) is dict:
            yield from value.values()
        elif type(value) in (list, tuple):
            yield from value
        else:
            yield value


def is_one_of_several_ranks() -> bool:
    """Return whether the process works with others: what it does alone, such as an eager step, they would wait for."""
    distributed = torch.distributed
    return bool(distributed.is_available() and distributed.is_initialized() and distributed.get_world_size() > 1)
