"""The measured cost of graph breaks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("torch")

import torch

from tcexplore.capture.dynamo import break_costs
from tcexplore.capture.hooks import Hooks
from tcexplore.capture.structured_trace import StructuredTrace
from tcexplore.capture.user_files import UserFiles
from tcexplore.events import BreakCosts
from tests.capture import break_programs
from tests.capture.dynamo_capture import capture_events, line_number

pytestmark = pytest.mark.torch


def measure_costs(program: Callable[..., Any], *, train: bool = False) -> BreakCosts:
    hooks = Hooks(lambda _: None)
    with capture_events(break_programs.__file__):
        break_costs.install(hooks, StructuredTrace(hooks), UserFiles(break_programs.__file__))
        try:
            compiled = torch.compile(program, backend="eager")
            x = torch.ones(4, 4, requires_grad=train)

            def unit(function: Callable[..., Any]) -> None:
                result = function(x)
                if train:
                    result.sum().backward()

            unit(compiled)
            return break_costs.measure_break_costs(unit, compiled, lambda: None)
        finally:
            hooks.remove()


def test_the_cost_of_a_break_is_the_time_and_the_eager_ops_between_its_graphs():
    costs = measure_costs(break_programs.breaks_twice)
    lines = {line_number(break_programs.breaks_twice, text) for text in ('print("first")', 'print("second")')}
    assert {cost.location.line for cost in costs.costs} == lines
    assert all(cost.us > 0 and cost.gaps == 1 and cost.ops == () for cost in costs.costs)
    assert sum(cost.us for cost in costs.costs) + costs.around_us < costs.total_us
    assert costs.units >= 3
    (disabled,) = measure_costs(break_programs.calls_a_disabled_function).costs
    assert [(name, times) for name, times, _ in disabled.ops] == [("aten.add", 1)]


def test_ops_after_the_call_are_not_at_its_last_break():
    (cost,) = measure_costs(break_programs.breaks_at_its_end, train=True).costs
    assert cost.ops == ()


def test_a_skipped_function_has_no_break_costs():
    costs = measure_costs(break_programs.breaks_in_a_loop)
    assert costs.costs == ()
    assert costs.around_us == costs.total_us
    assert break_costs.any_graph_broke()
