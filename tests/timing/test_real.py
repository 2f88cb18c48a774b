"""The protocol on this machine, with the real torch: what a simulation cannot show."""

from __future__ import annotations

import sys

import pytest
import torch

from tcexplore.events import FactMissing
from tcexplore.timing.compile_counter import compile_counter
from tcexplore.timing.timing_run import measure
from tests.timing.simulation import Recorder, workload


@pytest.mark.torch
def test_compiles_and_recompiles_are_counted_and_warm_calls_are_not():
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: x * 2, backend="eager", dynamic=False)
    count = compile_counter(Recorder())
    seen = [count()]
    for size in (3, 3, 4, 4):
        compiled(torch.ones(size))
        seen.append(count())
    assert seen[0] < seen[1] == seen[2] < seen[3] == seen[4]


def test_a_torch_without_counters_is_said_once(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "torch._dynamo.utils", None)
    recorder = Recorder()
    assert compile_counter(recorder)() == 0
    (missing,) = recorder.events
    assert isinstance(missing, FactMissing)
    assert missing.symbol == "torch._dynamo.utils:counters"


def test_a_sum_over_ten_times_the_numbers_is_slower_here_too():
    few, many = range(2_000), range(20_000)
    recorder = Recorder()
    measure(workload(lambda: sum(many), lambda: sum(few)), recorder, 0.1)
    last = recorder.last
    assert last.verdict == "faster"
    assert last.speedup > 3
    assert (last.device, last.threads) == ("cpu", torch.get_num_threads())
