"""The grad mode of calls: off in a forward run, unless the model needs gradients or the user wants them."""

from __future__ import annotations

import pytest

from tcexplore.events import Accuracy, AtenGraph, CallsRestarted, Failed, Finished, GradMode
from tests.supervisor.runs import MLP, Runs, only, printed

pytestmark = [pytest.mark.torch, pytest.mark.asyncio(loop_scope="session")]

GRADIENT_PENALTY = """\
import torch
from torch import nn
net = nn.Sequential(nn.Linear(8, 4), nn.Tanh(), nn.Linear(4, 1))
def model(x):
    x = x.requires_grad_(True)
    y = net(x)
    (gradient,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    return y.mean() + gradient.norm()
inputs = (torch.ones(4, 8),)
"""


async def test_a_forward_run_turns_gradients_off_unless_they_are_requested(runs: Runs) -> None:
    stages = {}
    for grad in (None, True):
        events = await runs.run(MLP, backend="aot_eager", grad=grad)
        assert isinstance(events[-1], Finished), events[-1]
        (mode,) = only(events, GradMode)
        stages[mode.enabled, mode.reason, mode.matters] = {graph.stage for graph in only(events, AtenGraph)}
    assert stages == {
        (False, "inference", True): {"inference"},
        (True, "requested", True): {"joint", "forward", "backward"},
    }


async def test_a_model_that_computes_gradients_runs_with_gradients(runs: Runs) -> None:
    events = await runs.run(GRADIENT_PENALTY, backend="aot_eager")
    assert isinstance(events[-1], Finished), events[-1]
    assert [mode.reason for mode in only(events, GradMode)] == ["inference", "needed"]
    assert [restarted.need for restarted in only(events, CallsRestarted)] == ["gradients"]
    (accuracy,) = only(events, Accuracy)
    assert accuracy.verdict in ("identical", "as accurate as eager"), accuracy
    failed = (await runs.run(GRADIENT_PENALTY, backend="aot_eager", grad=False))[-1]
    assert isinstance(failed, Failed)
    assert (failed.stage, failed.blame) == ("eager", "user")


async def test_inputs_get_back_whether_they_require_gradients(runs: Runs) -> None:
    source = GRADIENT_PENALTY.replace("    x = x", "    print(x.requires_grad)\n    x = x")
    events = await runs.run(source, backend="eager")
    assert set(printed(events).split()) == {"False"}
