"""Eager steps of a training loop by line and module."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode_stack

from tcexplore.capture.user_files import UserFiles
from tcexplore.events import EagerLinesTimed
from tcexplore.timing.eager_steps import EagerSteps


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(torch.relu(self.up(x)))


class Passing(TorchDispatchMode):  # type: ignore[misc,unused-ignore]
    """A mode of the script."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


class OptimizedModule(nn.Module):
    """A module like that of `torch.compile(module)`, called eagerly."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self._orig_mod = module

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self._orig_mod(x)


def train(steps: EagerSteps, number: int = 3) -> EagerLinesTimed:
    """Record training steps; each takes 1 ms with the recorder, and 0.5 ms without."""
    net, loss = OptimizedModule(Net()), nn.MSELoss()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    x = torch.randn(4, 16)
    for _ in range(number):
        steps.start()
        optimizer.zero_grad()
        loss(net(x), x).backward()
        optimizer.step()
        steps.stop()
        steps.add_step(1000.0)
    return steps.lines(500.0)


def test_a_training_step_has_the_time_of_each_module_and_adds_up_to_the_step():
    timed = train(EagerSteps(UserFiles(__file__)))
    assert timed.call_us == 500.0
    assert sum(module.us for module in timed.modules) == pytest.approx(500.0)
    of = {(module.root, module.path): module.us for module in timed.modules}
    assert {("Net", "up"), ("Net", "down"), ("MSELoss", ""), ("", "")} <= set(of)
    assert {module.type for module in timed.modules if (module.root, module.path) == ("Net", "")} == {"Net"}
    assert all(of["Net", path] > 0 for path in ("up", "down"))
    assert of["", ""] > 0, "the optimizer"
    source, first = inspect.getsourcelines(train)
    called = {line.location.line - first: line.phase for line in timed.lines if line.location.function == "train"}
    assert source[min(called)].strip(), "lines of the loop have their ops"
    assert {line.phase for line in timed.lines} == {"forward", "backward"}
    assert not _get_current_dispatch_mode_stack()


def test_ops_of_a_step_that_does_not_count_are_forgotten():
    steps = EagerSteps(UserFiles(__file__))
    steps.start()
    for _ in range(50):
        torch.ones(3).exp()
    steps.stop()
    steps.drop_step()
    timed = train(steps)
    assert not any(line.location.function.startswith("test_ops_of") for line in timed.lines)


def test_nothing_is_recorded_inside_a_mode_of_the_script():
    with Passing(), pytest.raises(RuntimeError, match="mode"):
        EagerSteps(UserFiles(__file__)).start()
    assert not _get_current_dispatch_mode_stack()


def test_a_mode_that_the_script_enters_in_a_step_stays():
    steps, mode = EagerSteps(UserFiles(__file__)), Passing()
    steps.start()
    with mode:
        with pytest.raises(RuntimeError, match="mode"):
            steps.stop()
        assert _get_current_dispatch_mode_stack()[-1] is mode
    with pytest.raises(ValueError, match="no median"):
        steps.lines(1.0)
    for _ in range(len(_get_current_dispatch_mode_stack())):
        torch.utils._python_dispatch._pop_mode()
