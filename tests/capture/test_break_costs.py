"""What a break costs is measured where it is lost: from the graph that it ends to the next one."""

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
from tests.capture import breaking
from tests.capture.dynamo import line_of, watching

pytestmark = pytest.mark.torch


def costs(program: Callable[..., Any]) -> BreakCosts:
    hooks = Hooks(lambda _: None)
    with watching(breaking.__file__):
        break_costs.install(hooks, StructuredTrace(hooks), UserFiles(breaking.__file__))
        try:
            compiled = torch.compile(program, backend="eager")
            x = torch.ones(4, 4)
            compiled(x)
            return break_costs.measure_break_costs(lambda function: function(x), compiled, lambda: None)
        finally:
            hooks.remove()


def test_each_break_has_the_time_and_the_ops_between_its_graphs():
    found = costs(breaking.breaks_twice)
    lines = {line_of(breaking.breaks_twice, said) for said in ('print("first")', 'print("second")')}
    assert {cost.location.line for cost in found.costs} == lines
    assert all(cost.us > 0 and cost.gaps == 1 and cost.ops == () for cost in found.costs)
    assert sum(cost.us for cost in found.costs) + found.around_us < found.total_us
    assert found.units >= 3
    (outside,) = costs(breaking.calls_what_is_disabled).costs
    assert [(name, times) for name, times, _ in outside.ops] == [("aten.add", 1)]


def test_where_a_function_is_given_up_all_of_it_is_around():
    found = costs(breaking.breaks_in_a_loop)
    assert found.costs == ()
    assert found.around_us == found.total_us
    assert break_costs.any_graph_broke()
