"""What passes put in the place of a node."""

from __future__ import annotations

import operator

import pytest

from tcexplore.capture.hooks import Hooks
from tcexplore.capture.inductor import replaced_nodes as replaced
from tcexplore.events import Event


@pytest.mark.torch
def test_a_number_in_the_place_of_a_node_costs_nothing_that_is_known():
    import torch

    graph = torch.fx.Graph()
    rate = graph.placeholder("rate")
    doubled = graph.call_function(operator.mul, (rate, 2))
    earlier = graph.call_function(operator.neg, (doubled,))
    graph.output(earlier)
    told: list[Event] = []
    hooks = Hooks(told.append)
    replaced.install(hooks)
    try:
        rate.replace_all_uses_with(0.1)  # type: ignore[arg-type]
        new = graph.call_function(operator.pos, (doubled,))
        earlier.replace_all_uses_with(new)
    finally:
        hooks.remove()
    assert told == []
    assert doubled.args == (0.1, 2)
    assert replaced.sources(new) == (earlier,)
