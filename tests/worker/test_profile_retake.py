"""A profile that contradicts the timing is taken again, once."""

from __future__ import annotations

from dataclasses import replace

import pytest

pytest.importorskip("torch")

from tcexplore.events import Event, TimingEstimate
from tcexplore.worker.call_profiles import ProfileRetake
from tcexplore.worker.event_recorder import EventRecorder
from tests.session.test_contradictions import TIMING, profile


def retake_after(first_us: float, *estimates: TimingEstimate) -> tuple[list[Event], list[bool]]:
    """Return the events of a timing and the results of its pauses; a second profile takes 1 ms."""
    events: list[Event] = []
    recorder = EventRecorder(events.append)
    recorder.emit(profile(first_us))
    retake = ProfileRetake(recorder, lambda: recorder.emit(profile(1000.0)), lambda _: False)
    worked = []
    for estimate in estimates:
        retake.emit(estimate)
        worked.append(retake.pause(0.0))
    return events, worked


def test_a_profile_that_disagrees_is_taken_again_once():
    events, worked = retake_after(5000.0, TIMING, TIMING, replace(TIMING, compiled_us=3000.0))
    assert worked == [True, False, False]
    assert events[:3] == [profile(5000.0), TIMING, profile(1000.0)]
    assert len(events) == 5


def test_a_profile_that_agrees_or_has_no_verdict_yet_stays():
    assert retake_after(1000.0, TIMING)[1] == [False]
    assert retake_after(5000.0, replace(TIMING, verdict="measuring"))[1] == [False]
