"""Accuracy and memory of a run with a real compiler."""

from __future__ import annotations

import pytest

from tcexplore.events import Accuracy, Finished, GraphCaptured, Memory
from tests.supervisor.runs import Runs, only

pytestmark = [pytest.mark.torch, pytest.mark.asyncio(loop_scope="session")]

THREE_OPS = """\
import torch
def model(x):
    a = x * 2
    b = a + 1
    del a
    return b.sin()
inputs = (torch.randn(256, 1024),)
"""

DROPOUT = """\
import torch
from torch import nn
model = nn.Sequential(nn.Linear(64, 64), nn.BatchNorm1d(64), nn.Dropout(0.5))
inputs = (torch.randn(32, 64),)
"""


async def test_memory_peaks_match_a_hand_count(runs: Runs) -> None:
    events = await runs.run(THREE_OPS, backend="inductor")
    (memory,) = only(events, Memory)
    tensor = 256 * 1024 * 4
    assert memory.inputs == tensor
    assert memory.eager_peak == pytest.approx(2 * tensor, rel=0.001)
    assert memory.compiled_peak == pytest.approx(tensor, rel=0.001)
    assert (memory.weights, memory.saved_for_backward) == (0, None)
    (accuracy,) = only(events, Accuracy)
    assert accuracy.verdict in ("identical", "as accurate as eager")


async def test_accuracy_of_training_with_random_numbers_adds_no_graph(runs: Runs) -> None:
    events = await runs.run(DROPOUT, backend="inductor", train=True)
    assert isinstance(events[-1], Finished), events[-1]
    (accuracy,) = only(events, Accuracy)
    assert accuracy.verdict in ("identical", "as accurate as eager"), accuracy
    assert (accuracy.random, accuracy.fallback_random, accuracy.train) == (True, True, True)
    assert {"output", "gradient of 0.weight", "buffer 1.running_var"} <= {value.name for value in accuracy.values}
    assert [graph.graph for graph in only(events, GraphCaptured)] == ["0/0"]
    (memory,) = only(events, Memory)
    assert memory.saved_for_backward
