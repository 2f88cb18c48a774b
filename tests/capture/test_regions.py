"""Compiled regions: counted without keeping calls, named as the user knows them."""

from __future__ import annotations

import torch

from tcexplore.capture.regions.activity import BINS, Activity
from tcexplore.capture.regions.naming import named
from tcexplore.capture.regions.region_calls import SAMPLES, Region


def test_any_time_fits_into_the_bins_and_no_call_is_lost():
    activity = Activity()
    for second in range(5000):
        activity.add(float(second))
    assert len(activity.counts) <= BINS
    assert sum(activity.counts) == 5000
    assert activity.bin_s * len(activity.counts) >= 4999


def test_a_region_takes_no_more_room_for_more_calls():
    region = Region(0, counts_graphs=True)
    region.called(0.0, 1.0, warm=False, entered=1, raised=False)
    for number in range(10 * SAMPLES):
        region.called(number / 1000, 1e-3, warm=True, entered=number % 2, raised=False)
    seen = region.seen()
    assert (seen.calls, seen.warm, seen.sampled) == (10 * SAMPLES + 1, 10 * SAMPLES, SAMPLES)
    assert seen.uncompiled == 5 * SAMPLES
    assert (seen.low_us, seen.median_us, seen.high_us) == (1000.0, 1000.0, 1000.0)


def test_what_is_compiled_goes_by_the_names_that_the_person_knows():
    linear = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(linear.parameters())
    assert named(linear) == ("Linear", "module")
    assert named(linear._call_impl) == ("Linear", "module in place")
    assert named(optimizer.step) == ("SGD.step", "optimizer")
    assert named(torch.sin).kind == "function"
