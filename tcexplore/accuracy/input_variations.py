"""Other calls than the configured ones (other inputs of the same shapes, gradients, training) and their branches."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import CodeType, FrameType
from typing import Any

import torch
from torch.utils import _pytree as pytree

from tcexplore.accuracy.compared_calls import Function, Subject
from tcexplore.capture.entry.entry import Call
from tcexplore.events import BranchTest, Span

Variation = Callable[[torch.Tensor], torch.Tensor]


def _redrawn(seed: int) -> Variation:
    def redraw(tensor: torch.Tensor) -> torch.Tensor:
        generator = torch.Generator().manual_seed(seed)
        if tensor.is_floating_point():
            return tensor * 0 + torch.randn(tensor.shape, generator=generator).to(tensor)
        order = torch.randperm(tensor.numel(), generator=generator).to(tensor.device)
        return tensor.flatten()[order].view(tensor.shape)

    return redraw


def _floats(change: Variation, discrete: Variation = torch.clone) -> Variation:
    return lambda tensor: change(tensor) if tensor.is_floating_point() else discrete(tensor)


def _filled(value: float) -> Variation:
    """Set the first element."""

    def fill(tensor: torch.Tensor) -> torch.Tensor:
        changed = tensor.clone()
        if changed.numel():
            changed[(0,) * changed.dim()] = value
        return changed

    return fill


def _flipped(tensor: torch.Tensor) -> torch.Tensor:
    return ~tensor if tensor.dtype is torch.bool else _redrawn(0)(tensor)


def _extreme(largest: bool) -> Variation:
    """Set integers to the largest or smallest one that occurs, and booleans to true or false."""

    def extreme(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.dtype is torch.bool or not tensor.numel():
            return torch.full_like(tensor, largest)
        return tensor.clone().fill_(tensor.max() if largest else tensor.min())

    return extreme


VARIATIONS: tuple[Variation, ...] = (
    _floats(torch.neg, _flipped),
    _floats(torch.zeros_like, _extreme(False)),
    _floats(lambda tensor: tensor + 1, _extreme(True)),
    _floats(_redrawn(1), _redrawn(1)),
)
"""Variations whose results are always compared."""

SEARCHED: tuple[Variation, ...] = (
    _floats(torch.abs), _floats(lambda tensor: -tensor.abs()), _floats(lambda tensor: tensor * 100),
    _floats(lambda tensor: tensor * -100), _floats(lambda tensor: tensor * 0.01), _floats(_redrawn(2), _redrawn(2)),
    _floats(_redrawn(3), _redrawn(3)), _floats(lambda tensor: tensor - 1), _floats(torch.ones_like),
    _floats(_filled(torch.nan)), _floats(_filled(torch.inf)), _floats(lambda tensor: tensor.abs() * 1e6),
    _floats(torch.clone, torch.zeros_like), _floats(torch.clone, torch.ones_like),
)  # fmt: skip
"""Variations that are tried as long as a branch is not reached."""

WEIGHTS: tuple[Variation, ...] = (torch.neg, torch.zeros_like, lambda tensor: tensor * 100)
"""Variations of the weights, tried as long as a branch is not reached."""


def vary(call: Call, variation: Variation) -> Call:
    """Return a call with other values of its real, integer and boolean tensors, of the same layout."""

    def varied(leaf: object) -> object:
        if not isinstance(leaf, torch.Tensor) or leaf.is_complex() or leaf.layout != torch.strided:
            return leaf
        changed = torch.empty_like(leaf, requires_grad=False).copy_(variation(leaf.detach()))
        return changed.requires_grad_(leaf.requires_grad)

    return call.map_leaves(varied)


@dataclass(frozen=True, slots=True)
class CallMode:
    """A way to call a program."""

    name: str
    training: bool | None
    """The mode that modules are switched to; None for a function."""

    @contextmanager
    def applied(self, *subjects: Subject) -> Iterator[None]:
        """Switch the modules of all subjects."""
        modules = [m for subject in subjects if subject.module is not None for m in subject.module.modules()]
        previous = [module.training for module in modules]
        try:
            for module in modules:
                module.training = module.training if self.training is None else self.training
            yield
        finally:
            for module, training in zip(modules, previous, strict=True):
                module.training = training


def call_modes(before: Subject, after: Subject) -> tuple[CallMode, ...]:
    """Return the modes to compare besides the configured one."""
    if before.gradient_compiled is None and after.gradient_compiled is None:
        return ()
    if before.module is None:
        return () if after.train else (CallMode("with gradients", None),)
    training = before.module.training
    modes = (CallMode("training mode with gradients", True), CallMode("evaluation mode with gradients", False))
    return tuple(mode for mode in modes if not (after.train and mode.training == training))


def calling_with_gradients(subject: Subject) -> Subject:
    """Return a subject whose calls compute the gradients of parameters and inputs."""

    def call_with_gradients(function: Function, call: Call) -> Any:
        with torch.enable_grad():
            output = function(*call.args, **call.kwargs)
            loss = _weighted_sum(output)
            if loss is not None:
                loss.backward()
        return output

    return replace(subject, call=call_with_gradients, train=True)


def with_gradients(call: Call) -> Call:
    """Return a call whose floating-point tensors compute gradients."""

    def with_gradient(leaf: object) -> object:
        if not isinstance(leaf, torch.Tensor) or not leaf.is_floating_point() or leaf.layout != torch.strided:
            return leaf
        return leaf.detach().clone().requires_grad_()

    return call.map_leaves(with_gradient)


def _weighted_sum(output: Any) -> torch.Tensor | None:
    """Return a sum of all outputs with different weights, so that no gradient cancels out; None without gradients."""
    leaves = [leaf for leaf in pytree.tree_leaves(output) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
    sums = [
        (leaf.double() * torch.arange(1, leaf.numel() + 1, device=leaf.device).cos().view(leaf.shape)).sum()
        for leaf in leaves
        if leaf.is_floating_point() and leaf.layout == torch.strided
    ]
    return sum(sums[1:], start=sums[0]) if sums else None


Position = tuple[int | None, int | None, int | None, int | None]


class BranchCoverage:
    """Records, for each test of a branch or loop, whether it held in calls made in the context.

    The next instruction after the test tells: it is inside the body if the test held.
    """

    def __init__(self, tests: Iterable[BranchTest]) -> None:
        self.tests = tuple(tests)
        self.taken: set[tuple[BranchTest, bool]] = set()
        self._pending: dict[FrameType, BranchTest] = {}
        self._positions: dict[CodeType, list[Position]] = {}
        self._previous: Any = None

    @property
    def missing(self) -> tuple[tuple[BranchTest, bool], ...]:
        """The outcomes that no call had."""
        return tuple((test, held) for test in self.tests for held in (True, False) if (test, held) not in self.taken)

    def __enter__(self) -> None:
        self._previous = sys.gettrace()
        if self.tests:
            sys.settrace(self._trace_call)

    def __exit__(self, *_: object) -> None:
        if self.tests:
            sys.settrace(self._previous)
        self._pending.clear()

    def _trace_call(self, frame: FrameType, event: str, _: object) -> Callable[..., Any] | None:  # noqa: ARG002
        code = frame.f_code
        if not any(test.file == code.co_filename for test in self.tests):
            return None
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        return self._trace_opcode

    def _trace_opcode(self, frame: FrameType, event: str, _: object) -> Callable[..., Any]:
        if event == "opcode":
            code = frame.f_code
            positions = self._positions.get(code)
            if positions is None:
                positions = self._positions[code] = list(code.co_positions())
            index = frame.f_lasti // 2
            if index < len(positions):
                self._record(frame, code.co_filename, positions[index])
        elif event == "exception":
            self._pending.pop(frame, None)
        elif event == "return" and (test := self._pending.pop(frame, None)) is not None:
            self.taken.add((test, False))
        return self._trace_opcode

    def _record(self, frame: FrameType, file: str, position: Position) -> None:
        line, end_line, column, end_column = position
        if line is None or column is None or end_line is None or end_column is None:
            return
        at, end, pending = (line, column), (end_line, end_column), self._pending.get(frame)
        if pending is not None and at < pending.test[:2] and end > pending.test[2:]:
            return  # the jump, which has the position of the statement
        inside = [test for test in self.tests if test.file == file and _within(at, test.test)]
        if pending is not None and pending not in inside:  # the next test may follow at once, as with elif
            del self._pending[frame]
            self.taken.add((pending, _within(at, pending.body)))
        if inside:
            self._pending[frame] = inside[-1]


def _within(at: tuple[int, int], span: Span) -> bool:
    return (span[0], span[1]) <= at < (span[2], span[3])


@contextmanager
def varied_weights(subjects: tuple[Subject, Subject], variation: Variation | None) -> Iterator[None]:
    """Change the floating-point parameters of both programs."""
    modules = [subject.module for subject in subjects if subject.module is not None]
    parameters = [p for module in modules for p in module.parameters() if p.is_floating_point()]
    if variation is None:
        yield
        return
    originals = [parameter.detach().clone() for parameter in parameters]
    try:
        with torch.no_grad():
            for parameter in parameters:
                parameter.copy_(variation(parameter.detach()))
        yield
    finally:
        with torch.no_grad():
            for parameter, original in zip(parameters, originals, strict=True):
                parameter.copy_(original)
