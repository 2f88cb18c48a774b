"""Parameters are recorded after each step; noise changes what an op rounds by one unit in the last place."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
import torch

from tcexplore import events as ev
from tcexplore.capture.compiled_regions import ORIGINAL, Region
from tcexplore.capture.hooks import Hooks
from tcexplore.capture.time_limit import TimeLimitError
from tcexplore.numerics.step_values import RoundingNoise, StepValues, _names, sketch


def distance(one: torch.Tensor, other: torch.Tensor) -> float:
    return math.dist(sketch(one, 0), sketch(other, 0))


def test_the_distance_of_sketches_is_about_that_of_the_values():
    generator = torch.Generator().manual_seed(0)
    x, change = torch.randn(64, 64, generator=generator), torch.randn(64, 64, generator=generator)
    assert distance(x, x) == 0
    assert distance(x, x + 1e-3 * change) == pytest.approx(1e-3 * float(change.norm()), rel=0.5)
    assert distance(x[0, :4], x[0, :4] + 1) == pytest.approx(2)


X = torch.linspace(0.1, 1, 64)
LOW = X.bfloat16()

ROUNDED: dict[str, Callable[[], torch.Tensor]] = {
    "exp": lambda: torch.exp(X),
    "in place": lambda: X.clone().mul_(0.3),
    "foreach": lambda: torch._foreach_mul([X, X], 0.3)[0],
    "foreach in place": lambda: next(_scaled_in_place()),
    "bfloat16": lambda: LOW * 0.3,
}


def _scaled_in_place() -> Iterator[torch.Tensor]:
    values = [X.clone()]
    torch._foreach_mul_(values, 0.3)
    yield values[0]


@pytest.mark.parametrize("name", ROUNDED)
def test_what_an_op_rounds_changes_by_a_unit_in_the_last_place(name: str):
    program = ROUNDED[name]
    right = program()
    with RoundingNoise(0):
        noisy = program()
    eps = torch.finfo(right.dtype).eps
    assert not torch.equal(noisy, right)
    assert bool(((noisy.double() - right.double()).abs() <= 2.5 * eps * right.double().abs()).all())


def test_values_that_only_move_and_random_numbers_do_not_change():
    with RoundingNoise(0):
        assert torch.equal(X.reshape(8, 8).t().flip(0).clone(), X.reshape(8, 8).t().flip(0))
        torch.manual_seed(0)
        noisy = torch.rand(8)
    torch.manual_seed(0)
    assert torch.equal(noisy, torch.rand(8))


def test_parameters_are_named_by_the_modules_that_a_region_calls():
    inner = torch.nn.Linear(2, 2)

    def wrapper(fn: Callable[..., object]) -> Callable[..., object]:
        return lambda *args: fn(*args)

    def step() -> torch.nn.Module:
        return inner

    weight = id(inner.weight)
    assert _names(inner)[weight] == "weight"
    assert _names(wrapper(inner.__call__))[weight] == "weight"
    assert _names(step)[weight] == "inner.weight"
    assert _names(getattr(torch.compile(inner).forward, ORIGINAL))[weight] == "weight"
    assert _names(None) == {}


def trained(side: ev.StepSide, steps: int) -> list[ev.StepParameters]:
    """Return the events of a loop of four steps."""
    events: list[ev.Event] = []
    hooks = Hooks(events.append)
    values = StepValues(hooks, side, steps, seed=0)
    values.install()
    try:
        torch.manual_seed(0)
        model = torch.nn.Linear(8, 8)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        region = Region(0, counts_graphs=False, original=model)
        for _ in range(4):
            assert values.begin_call(region, (), {}) == (side != "compiled")
            model(torch.ones(2, 8)).square().sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        values.finish()
    except TimeLimitError:
        values.finish()
    finally:
        hooks.remove()
    return [event for event in events if isinstance(event, ev.StepParameters)]


def test_the_parameters_are_recorded_after_each_step_with_their_names():
    recorded = trained("eager", 10)
    assert [event.step for event in recorded] == [1, 2, 3, 4]
    assert recorded[0].names == ("weight", "bias")
    assert recorded[0].sketches != recorded[1].sketches
    assert [replace(step, seconds=0.0) for step in recorded] == [
        replace(step, seconds=0.0) for step in trained("compiled", 10)
    ]  # fmt: skip
    assert all(len(step.losses) == 1 and step.random and step.seconds > 0 for step in recorded)


def test_the_script_ends_after_the_steps_that_are_compared():
    assert [event.step for event in trained("eager", 2)] == [1, 2]


def test_rounding_noise_makes_a_small_difference_after_a_step():
    exact, noisy = trained("eager", 10)[0], trained("perturbed", 10)[0]
    difference = math.dist(exact.sketches[0], noisy.sketches[0])
    assert 0 < difference < 1e-4 * math.hypot(*exact.sketches[0])
