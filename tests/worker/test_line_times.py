"""The time of each line with a real compiler. `tests/benchmarks/line_times.py` compares it with lines timed by hand."""

from __future__ import annotations

import pytest

from tcexplore.documents.line_facts import times_of_lines
from tcexplore.events import Event, TimingEstimate
from tcexplore.session.call_account import eager_ops
from tcexplore.session.line_times import LineTime, LineTimes, RestTime
from tests.snapshots.runs import grow
from tests.supervisor.runs import Runs, failed_facts, only

pytestmark = [pytest.mark.torch, pytest.mark.asyncio(loop_scope="session")]

SOURCE = """\
import torch
from torch import nn
torch.set_num_threads(1)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(256, 256))
    def forward(self, x):
        a = x @ self.w
        b = x[:32] @ self.w
        return a, b
def loss(output):
    return output[0].sum() + output[1].sum()
model = Net()
inputs = (torch.randn(256, 256),)
"""
FIRST, SECOND, LOSS = (
    next(n for n, text in enumerate(SOURCE.splitlines(), 1) if code in text)
    for code in ("a = x", "b = x", "output[0].sum")
)


async def measured(runs: Runs, source: str = SOURCE, *, train: bool = False) -> tuple[LineTimes, list[Event]]:
    events = await runs.run(source, backend="inductor", time_for=0.2, train=train)
    assert failed_facts(events) == []
    run = grow(1, events, source)
    times = times_of_lines(run)
    assert times is not None
    return times, events


async def test_lines_and_rest_add_up_to_the_timed_call(runs: Runs) -> None:
    times, events = await measured(runs, train=True)
    timing = only(events, TimingEstimate)[-1]
    parts: list[LineTime | RestTime] = [*times.lines, *times.rest]
    eager = sum(part.eager_us or 0.0 for part in parts)
    compiled = sum(part.compiled_us or 0.0 for part in parts)
    assert eager == pytest.approx(timing.eager_us)
    assert compiled == pytest.approx(timing.compiled_us)
    by_line = {(time.line, time.phase): time for time in times.lines}
    for line in (FIRST, SECOND):
        for phase in ("forward", "backward"):
            assert by_line[line, phase].eager_us, (line, phase)
            assert by_line[line, phase].compiled_us, (line, phase)
    assert by_line[LOSS, "forward"].eager_us
    names = {rest.name for rest in times.rest}
    assert {"guards", "Python", "launch", "Python and launch"} <= names


async def test_ops_at_a_graph_break_are_outside_the_graphs(runs: Runs) -> None:
    source = SOURCE.replace("        b = x", "        print(float(a.exp().sum()))\n        b = x")
    times, events = await measured(runs, source)
    assert sum(us for _, _, us in eager_ops(grow(1, events, source).call_account) or ()) > 0.0
    assert times.compiled_us is not None
    assert sum(time.compiled_us or 0.0 for time in times.lines) <= times.compiled_us
