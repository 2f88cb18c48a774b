"""Time of the activities in a call that compiles, and removal of the hooks."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
import torch

from tcexplore.capture.compile_phases import Activity, ActivityTimer
from tcexplore.capture.hooks import Hooks
from tcexplore.events import Event


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the time of a fake timer, set by the test."""
    seconds = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: seconds[0])
    return seconds


def test_nested_activities_count_once(now: list[float]):
    timer = ActivityTimer()
    steps: tuple[tuple[float, Callable[[Activity], None], Activity], ...] = (
        (1, timer.enter, "frames"), (3, timer.enter, "span"), (7, timer.leave, "span"), (8, timer.leave, "frames"),
        (20, timer.enter, "running"), (21, timer.enter, "running"),
        (23, timer.leave, "running"), (26, timer.leave, "running"),
    )  # fmt: skip
    for seconds, step, activity in steps:
        now[0] = seconds
        step(activity)
    assert timer.seconds == {"frames": 3.0, "span": 4.0, "running": 6.0}


def test_an_end_without_a_beginning_is_ignored(now: list[float]):
    timer = ActivityTimer()
    timer.enter("running")
    now[0] = 2.0
    timer.leave("span")
    now[0] = 5.0
    timer.leave("running")
    assert timer.seconds == {"running": 5.0}


@pytest.mark.torch
def test_graphs_and_frames_are_timed_until_watching_ends():
    from torch._dynamo.convert_frame import CatchErrorsWrapper

    def broken(x: torch.Tensor) -> torch.Tensor:
        y = x.sin()
        torch._dynamo.graph_break()
        return y.cos()

    missing: list[Event] = []
    callback, timer, x = CatchErrorsWrapper.__call__, ActivityTimer(), torch.ones(3)
    compiled = torch.compile(broken, backend="eager")
    with timer.watching(Hooks(missing.append)):
        assert torch.equal(compiled(x), broken(x))
        first = dict(timer.seconds)
        timer.seconds.clear()
        compiled(x)
        assert 0 < timer.seconds["running"] < first["frames"]
        assert "frames" not in timer.seconds
    assert first["running"] > 0
    assert not missing
    assert CatchErrorsWrapper.__call__ is callback
    timer.seconds.clear()
    assert torch.equal(compiled(x), broken(x))
    assert not timer.seconds
