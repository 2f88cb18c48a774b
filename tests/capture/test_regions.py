"""Compiled regions: counted without keeping calls, named as the user knows them."""

from __future__ import annotations

import torch

from tcexplore.capture.regions.compiled_regions import region_name
from tcexplore.capture.regions.region_calls import MAX_BINS, MAX_SAMPLES, Activity, Region


def test_any_time_fits_into_the_bins_and_no_call_is_lost():
    activity = Activity()
    for second in range(5000):
        activity.add(float(second))
    assert len(activity.counts) <= MAX_BINS
    assert sum(activity.counts) == 5000
    assert activity.bin_s * len(activity.counts) >= 4999


def test_a_region_takes_no_more_room_for_more_calls():
    region = Region(0, counts_graphs=True)
    region.count_call(0.0, 1.0, warm=False, entered=1, raised=False)
    for number in range(10 * MAX_SAMPLES):
        region.count_call(number / 1000, 1e-3, warm=True, entered=number % 2, raised=False)
    seen = region.to_event()
    assert (seen.calls, seen.warm, seen.sampled) == (10 * MAX_SAMPLES + 1, 10 * MAX_SAMPLES, MAX_SAMPLES)
    assert seen.uncompiled == 5 * MAX_SAMPLES
    assert (seen.low_us, seen.median_us, seen.high_us) == (1000.0, 1000.0, 1000.0)


def test_what_is_compiled_goes_by_the_names_that_the_person_knows():
    linear = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(linear.parameters())
    assert region_name(linear) == ("Linear", "module")
    assert region_name(linear._call_impl) == ("Linear", "module in place")
    assert region_name(optimizer.step) == ("SGD.step", "optimizer")
    assert region_name(torch.sin).kind == "function"
