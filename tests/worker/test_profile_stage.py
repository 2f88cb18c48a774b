"""The calls are profiled after the timing has a verdict; costs of breaks that contradict it are measured again."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch")

import torch

from tcexplore.capture.hooks import Hooks
from tcexplore.capture.user_files import UserFiles
from tcexplore.events import BreakCosts, CallProfiled, Event, Job, ProfileEffect, TimingEstimate
from tcexplore.timing.workload import Workload
from tcexplore.worker import call_profiles
from tcexplore.worker.call_profiles import CallProfiles, ProfileStage
from tcexplore.worker.event_recorder import EventRecorder
from tcexplore.worker.failure import OptionalStages
from tests.snapshots.estimates import TIMING, costs


def profile(us: float) -> CallProfiled:
    return CallProfiled(run=1, total_us=us, repeats=5, parts=())


class Profiling:
    """A stage whose profiles take the given microseconds, in turn."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        *profiles_us: float,
        costs_us: tuple[float, ...] = (),
        device: str = "cpu",
    ) -> None:
        self.events: list[Event] = []
        self.recorder = EventRecorder(self.events.append)
        hooks, files = Hooks(self.recorder.emit), UserFiles("model.py")
        frames: Any = SimpleNamespace(measure_warm=lambda measure: measure())
        profiles = CallProfiles(
            Job(run=1, file="model.py", source=""), hooks, OptionalStages(hooks, files), frames, self.recorder, files
        )
        remaining = iter(profiles_us)
        self.ratios = [[1.556] * 40, [1.556] * 40]
        """Of the pairs before and after the profiles of a device."""
        self.detached: list[int] = []
        """Number of events when the profiler was detached."""
        monkeypatch.setattr(call_profiles, "detach_profiler", lambda: self.detached.append(len(self.events)))
        monkeypatch.setattr(call_profiles, "measure_ratios", lambda _: self.ratios.pop(0))
        again = iter(costs_us)

        def emit_costs(*_: object) -> None:
            if (us := next(again, None)) is not None:
                self.recorder.emit(costs(us))

        monkeypatch.setattr(CallProfiles, "_emit_call_profile", lambda *_: self.recorder.emit(profile(next(remaining))))
        monkeypatch.setattr(CallProfiles, "_emit_break_costs", emit_costs)
        monkeypatch.setattr(CallProfiles, "_emit_line_times", lambda *_: None)
        program: Any = SimpleNamespace(restore=lambda: None)
        workload = Workload(
            eager=lambda: None, compiled=lambda: None, calls=1, train=False, device=torch.device(device)
        )
        self.stage = ProfileStage(profiles, program, workload)

    @property
    def profiles_us(self) -> list[float]:
        return [event.total_us for event in self.events if isinstance(event, CallProfiled)]


def estimate(compiled_us: float = 1000.0, verdict: Any = "faster") -> TimingEstimate:
    return replace(TIMING, compiled_us=compiled_us, verdict=verdict)


def test_a_profile_waits_for_a_verdict_and_is_taken_once(monkeypatch: pytest.MonkeyPatch) -> None:
    profiling = Profiling(monkeypatch, 1000.0)
    pause = profiling.stage.between_pairs(lambda _: False)
    assert not pause(0.0)
    profiling.recorder.emit(estimate(verdict="measuring"))
    assert not pause(0.0)
    profiling.recorder.emit(estimate())
    assert [pause(0.0), pause(0.0)] == [True, False]
    profiling.stage.run()
    assert profiling.profiles_us == [1000.0]


def test_costs_that_contradict_the_timing_are_measured_again_once(monkeypatch: pytest.MonkeyPatch) -> None:
    profiling = Profiling(monkeypatch, 1000.0, costs_us=(5000.0, 4000.0))
    profiling.recorder.emit(estimate())
    profiling.stage.run()
    assert [event.total_us for event in profiling.events if isinstance(event, BreakCosts)] == [5000.0, 4000.0]


def test_a_gpu_is_timed_for_a_while_before_a_profile(monkeypatch: pytest.MonkeyPatch) -> None:
    profiling = Profiling(monkeypatch, 1000.0, device="meta")
    profiling.recorder.emit(estimate())
    pause = profiling.stage.between_pairs(lambda _: False)
    assert not pause(0.0)
    monkeypatch.setattr(call_profiles, "GPU_TIMING_S", 0.0)
    assert pause(0.0)


@pytest.mark.parametrize(("after", "changed"), [(1.75, True), (1.556, False)])
def test_a_gpu_is_timed_further_only_if_the_ratio_is_the_same_after_the_profiles(
    monkeypatch: pytest.MonkeyPatch, after: float, changed: bool
) -> None:
    profiling = Profiling(monkeypatch, 1000.0, device="meta")
    profiling.ratios[1] = [after] * 40
    profiling.stage.run()
    effect = next(event for event in profiling.events if isinstance(event, ProfileEffect))
    assert (effect.ratio_before, effect.ratio_after) == pytest.approx((1.556, after))
    assert effect.changed is changed
    assert profiling.stage.may_time() is not changed
    assert len(profiling.profiles_us) == 1
    assert profiling.events.index(effect) >= profiling.detached[0] > profiling.events.index(profile(1000.0))


def test_a_ratio_that_cannot_be_measured_again_ends_the_timing(monkeypatch: pytest.MonkeyPatch) -> None:
    profiling = Profiling(monkeypatch, 1000.0, device="meta")
    profiling.ratios[1] = []
    profiling.stage.run()
    assert not profiling.stage.may_time()


def test_the_profiles_of_a_cpu_leave_nothing_attached(monkeypatch: pytest.MonkeyPatch) -> None:
    profiling = Profiling(monkeypatch, 1000.0)
    profiling.stage.run()
    assert profiling.stage.may_time()
    assert not profiling.detached
