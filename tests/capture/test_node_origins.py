"""Origins of nodes that passes replace."""

from __future__ import annotations

import operator

import pytest

from tcexplore.capture.hooks import Hooks
from tcexplore.capture.inductor.node_origins import record_replacements, source_nodes
from tcexplore.events import Event


@pytest.mark.torch
def test_a_node_replaced_by_a_number_is_ignored():
    import torch

    graph = torch.fx.Graph()
    rate = graph.placeholder("rate")
    doubled = graph.call_function(operator.mul, (rate, 2))
    earlier = graph.call_function(operator.neg, (doubled,))
    graph.output(earlier)
    events: list[Event] = []
    hooks = Hooks(events.append)
    record_replacements(hooks)
    try:
        rate.replace_all_uses_with(0.1)
        new = graph.call_function(operator.pos, (doubled,))
        earlier.replace_all_uses_with(new)
    finally:
        hooks.remove()
    assert events == []
    assert doubled.args == (0.1, 2)
    assert source_nodes(new) == (earlier,)
