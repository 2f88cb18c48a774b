"""Parameters of a script after each of its steps, in a run in which all regions are compiled, or none.

What rounding makes of a run is shown by a third one: eager, with the result of each op changed by one unit in the last
place of its dtype, up or down at random. So it holds for the dtypes in which the program computes, and it grows from
step to step as the errors of a correct compiler would.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from tcexplore.capture.compiled_regions import Region
from tcexplore.capture.hooks import Hooks
from tcexplore.capture.random_state import random_digest
from tcexplore.capture.step_signals import OPTIMIZER
from tcexplore.capture.time_limit import TimeLimitError
from tcexplore.events import StepParameters, StepSide
from tcexplore.numerics.error_bounds import moves_values

FACT = "parameters after each step"

BACKWARD = "torch.autograd:backward"

LEAST_STEPS = 3
"""Steps that a script makes in any case, if it has so many."""

SKETCH = 32
"""Sums that stand for a parameter: their distance between two runs is that of the parameters, within a quarter."""


class StepValues:
    """Records the parameters of a script's optimizers; decides that all of its regions run eagerly, or none."""

    def __init__(self, hooks: Hooks, side: StepSide, steps: int, seed: int, steps_for: float = 0.0) -> None:
        """The script ends after `steps` steps, or `steps_for` seconds after the first one (0: no limit)."""
        self._hooks = hooks
        self._eager = side != "compiled"
        self._noise = RoundingNoise(seed) if side == "perturbed" else None
        self._steps = steps
        self._parameters: dict[int, weakref.ref[Tensor]] = {}
        self._names: dict[int, str] = {}
        self._version = 0
        self._step = 0
        self._entered = False
        self._steps_for = steps_for
        self._losses: list[Tensor] = []
        self._ended = self._first_ended = time.perf_counter()

    def install(self) -> None:
        """Watch the optimizers that are created, and the backwards."""
        self._hooks.watch(FACT, OPTIMIZER, after=lambda _, optimizer, *__, **___: self._add(optimizer))
        self._hooks.watch(FACT, BACKWARD, before=self._add_loss)

    def _add_loss(self, tensors: Any = (), *_: Any, **__: Any) -> None:
        """Keep the values from which a backward begins: to read them now would wait for the device."""
        for tensor in (tensors,) if isinstance(tensors, Tensor) else tensors:
            if tensor.numel() == 1 and not torch.compiler.is_compiling():
                self._losses.append(tensor.detach())

    @property
    def _over(self) -> bool:
        """Whether the script has made all steps that are wanted."""
        late = self._steps_for and time.perf_counter() - self._first_ended > self._steps_for
        return self._step >= self._steps or bool(late and self._step >= LEAST_STEPS)

    def _add(self, optimizer: torch.optim.Optimizer) -> None:
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                self._parameters.setdefault(id(parameter), weakref.ref(parameter))
        self._version = self._read_version()

    def begin_call(self, region: Region, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:  # noqa: ARG002
        """Record the parameters if a step has ended, and return whether the call runs eagerly."""
        if threading.current_thread() is not threading.main_thread():
            return self._eager
        if not self._entered:
            self._entered = True
            if self._noise is not None:
                self._noise.__enter__()
        self._names = _names(region.original) | self._names
        self._record()
        if self._over:
            raise TimeLimitError
        return self._eager

    def end_call(self, graphs: int) -> None:
        """Do nothing: a step ends when the next one begins."""

    def ran_out_of_memory(self) -> None:
        """Do nothing: the call is made again, compiled."""

    def compiles_eagerly(self) -> None:
        """Do nothing."""

    def begin_own_work(self) -> int:
        """Return 0: nothing is timed."""
        return 0

    def end_own_work(self, began_ns: int) -> None:
        """Do nothing."""

    def finish(self) -> None:
        """Record the last step."""
        if self._noise is not None and self._entered:
            self._noise.__exit__(None, None, None)
        if not self._over:
            self._record()

    def _read_version(self) -> int:
        return sum(parameter._version for _, parameter in self._live())

    def _live(self) -> Iterator[tuple[int, Tensor]]:
        for key, reference in self._parameters.items():
            if (parameter := reference()) is not None:
                yield key, parameter

    def _record(self) -> None:
        before, self._version = self._version, self._read_version()
        if self._version == before or not self._parameters:
            return
        self._step += 1
        now = time.perf_counter()
        live = list(self._live())
        with torch.no_grad(), torch.utils._python_dispatch._disable_current_modes():
            sketches = tuple(sketch(parameter, number) for number, (_, parameter) in enumerate(live))
            losses = tuple(float(loss) for loss in self._losses)
        names = tuple(self._names.get(key, f"parameter {number}") for number, (key, _) in enumerate(live))
        seconds, self._losses = now - self._ended, []
        self._hooks.emit(
            StepParameters(
                step=self._step, names=names, sketches=sketches, losses=losses, random=random_digest(), seconds=seconds
            )
        )  # fmt: skip
        self._ended = time.perf_counter()  # without the time of recording
        if self._step == 1:
            self._first_ended = self._ended


def sketch(values: Tensor, seed: int) -> tuple[float, ...]:
    """Return sums of the values with random signs: equal for equal values, and linear in them."""
    flat = values.detach().flatten().to("cpu", torch.float64)
    if flat.numel() > SKETCH:
        signs = torch.randint(0, 2, (flat.numel(),), generator=torch.Generator().manual_seed(seed), dtype=torch.int8)
        flat = flat * (2 * signs - 1)
        rest = -flat.numel() % SKETCH
        flat = torch.nn.functional.pad(flat, (0, rest)).view(-1, SKETCH).sum(0)
    return tuple(torch.nan_to_num(flat, nan=1e300).tolist())


def _names(original: Any) -> dict[int, str]:
    """Return the names of the parameters that a compiled module or function uses, by their ids."""
    names: dict[int, str] = {}
    for variable, module in _modules(original, 3):
        prefix = f"{variable}." if variable else ""
        for name, parameter in module.named_parameters():
            names.setdefault(id(parameter), f"{prefix}{name}".replace("_orig_mod.", ""))
    return names


def _modules(function: Any, depth: int) -> Iterator[tuple[str, torch.nn.Module]]:
    """Yield the modules that a function calls, with the variables that hold them; torch wraps a module in functions."""
    owner = getattr(function, "__self__", function)
    if isinstance(owner, torch.nn.Module):
        yield "", owner
        return
    variables = getattr(getattr(function, "__code__", None), "co_freevars", ())
    for variable, cell in zip(variables, getattr(function, "__closure__", None) or (), strict=False):
        value = cell.cell_contents
        if isinstance(value, torch.nn.Module):
            yield "" if function.__module__.startswith("torch.") else variable, value
        elif callable(value) and depth:
            yield from _modules(value, depth - 1)
    for variable, value in dict(getattr(function, "__globals__", {})).items():
        if isinstance(value, torch.nn.Module):
            yield variable, value


class RoundingNoise(TorchDispatchMode):  # type: ignore[misc]  # torch does not type it
    """Changes the result of each op that rounds by one unit in the last place, up or down at random."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._seed = seed
        self._generators: dict[torch.device, torch.Generator] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        for tensor in self._rounded(func, args, kwargs, result):
            self._change(tensor)
        return result

    @staticmethod
    def _rounded(func: Any, args: Any, kwargs: Any, result: Any) -> list[Tensor]:
        """Return the tensors that an op has rounded: not those that only moved, nor views and random numbers."""
        schema = func._schema
        if moves_values(func) or torch.Tag.nondeterministic_seeded in func.tags:
            return []
        if any(one.alias_info is not None and not one.alias_info.is_write for one in schema.returns):
            return []
        written = [
            args[place] if place < len(args) else kwargs.get(argument.name)
            for place, argument in enumerate(schema.arguments)
            if argument.alias_info is not None and argument.alias_info.is_write
        ]
        leaves = tree_leaves(written or result)
        return [leaf for leaf in leaves if isinstance(leaf, Tensor) and leaf.is_floating_point() and leaf.numel()]

    def _change(self, tensor: Tensor) -> None:
        device = tensor.device
        if device not in self._generators:
            self._generators[device] = torch.Generator(device).manual_seed(self._seed)
        signs = torch.randint(0, 2, tensor.shape, generator=self._generators[device], device=device) * 2 - 1
        tensor.mul_((1 + signs * torch.finfo(tensor.dtype).eps).to(tensor.dtype))
