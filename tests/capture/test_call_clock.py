"""What a call that compiles does beside compiling is measured, and nothing of that stays behind."""

from __future__ import annotations

import time

import pytest
import torch

from tcexplore.capture.call_clock import FRAMES, RUNNING, SPAN, CallClock
from tcexplore.capture.hooks import Hooks
from tcexplore.events import Event


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock that is set by hand."""
    at = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: at[0])
    return at


def test_work_inside_other_work_counts_once(now: list[float]):
    clock = CallClock()
    for at, step, kind in (
        (1, clock.enter, FRAMES), (3, clock.enter, SPAN), (7, clock.leave, SPAN), (8, clock.leave, FRAMES),
        (20, clock.enter, RUNNING), (21, clock.enter, RUNNING), (23, clock.leave, RUNNING), (26, clock.leave, RUNNING),
    ):  # fmt: skip
        now[0] = at
        step(kind)
    assert clock.seconds == {FRAMES: 3.0, SPAN: 4.0, RUNNING: 6.0}


def test_an_end_without_a_beginning_ends_nothing(now: list[float]):
    clock = CallClock()
    clock.enter(RUNNING)
    now[0] = 2.0
    clock.leave(SPAN)
    now[0] = 5.0
    clock.leave(RUNNING)
    assert clock.seconds == {RUNNING: 5.0}


@pytest.mark.torch
def test_graphs_run_and_frames_are_looked_at_until_watching_ends():
    from torch._dynamo.convert_frame import CatchErrorsWrapper

    def broken(x: torch.Tensor) -> torch.Tensor:
        y = x.sin()
        torch._dynamo.graph_break()
        return y.cos()

    missing: list[Event] = []
    callback, clock, x = CatchErrorsWrapper.__call__, CallClock(), torch.ones(3)
    compiled = torch.compile(broken, backend="eager")
    with clock.watching(Hooks(missing.append)):
        assert torch.equal(compiled(x), broken(x))
        first = dict(clock.seconds)
        clock.seconds.clear()
        compiled(x)
        assert 0 < clock.seconds[RUNNING] < first[FRAMES]
        assert FRAMES not in clock.seconds
    assert first[RUNNING] > 0
    assert not missing
    assert CatchErrorsWrapper.__call__ is callback
    clock.seconds.clear()
    assert torch.equal(compiled(x), broken(x))
    assert not clock.seconds
