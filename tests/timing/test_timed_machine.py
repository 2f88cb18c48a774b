"""The compile counter and the reserved core of the timed machine."""

from __future__ import annotations

import os
import sys

import pytest
import torch

from tcexplore.events import FactMissing
from tcexplore.timing.timed_machine import compile_counter, reserve_core
from tests.timing.simulation import Recorder


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="the system has no affinities")
@pytest.mark.parametrize(("cores", "threads", "reserved"), [(8, 4, 7), (4, 3, 3), (4, 4, None), (3, 1, None)])
def test_the_last_core_is_reserved_if_torch_does_not_need_it(
    monkeypatch: pytest.MonkeyPatch, cores: int, threads: int, reserved: int | None
):
    affinities: dict[int, set[int]] = {}
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)))
    monkeypatch.setattr(os, "sched_setaffinity", affinities.__setitem__)
    assert reserve_core(threads) == reserved
    if reserved is None:
        assert affinities == {}
    else:
        assert os.getpid() in affinities
        assert all(allowed == set(range(cores)) - {reserved} for allowed in affinities.values())


@pytest.mark.torch
def test_compilations_are_counted_but_warm_calls_are_not():
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: x * 2, backend="eager", dynamic=False)
    count = compile_counter(Recorder())
    counts = [count()]
    for size in (3, 3, 4, 4):
        compiled(torch.ones(size))
        counts.append(count())
    assert counts[0] < counts[1] == counts[2] < counts[3] == counts[4]


def test_a_torch_without_counters_is_reported_once(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "torch._dynamo.utils", None)
    recorder = Recorder()
    assert compile_counter(recorder)() == 0
    (missing,) = recorder.events
    assert isinstance(missing, FactMissing)
    assert missing.symbol == "torch._dynamo.utils:counters"
