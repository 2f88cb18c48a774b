"""Parts of a call relate to the call of the timing."""

from __future__ import annotations

import pytest

from tcexplore.timing.line_timer import OwnCall, call_scale

pytestmark = pytest.mark.torch


def test_a_steady_machine_leaves_the_parts_as_they_are():
    scale = call_scale(80.0, OwnCall(100.0, 130.0), 100.0)
    assert (scale.factor, scale.error) == (1.0, 0.0)


def test_a_slower_machine_scales_the_parts_and_is_an_error_beyond_the_tolerance():
    assert call_scale(80.0, OwnCall(105.0, 130.0), 100.0).error == 0.0
    scale = call_scale(160.0, OwnCall(200.0, 260.0), 100.0)
    assert scale.factor * 160.0 == pytest.approx(80.0)
    assert scale.error > 0.0


@pytest.mark.parametrize(("instrumented", "share"), [(400.0, 0.5), (10.0, 1.0)])
def test_parts_longer_than_their_call_relate_to_the_instrumented_call(instrumented: float, share: float):
    scale = call_scale(200.0, OwnCall(100.0, instrumented), 100.0)
    assert scale.factor * 200.0 == pytest.approx(share * 100.0)
    assert scale.error > 0.0


def test_a_device_keeps_its_times_unless_they_exceed_the_call():
    assert call_scale(30.0, None, 100.0).factor == 1.0
    scale = call_scale(125.0, None, 100.0)
    assert scale.factor * 125.0 == pytest.approx(100.0)
    assert scale.error > 0.0
    assert call_scale(105.0, None, 100.0).error == 0.0
