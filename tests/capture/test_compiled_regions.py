"""Counters and names of compiled regions."""

from __future__ import annotations

import torch

from tcexplore.capture.compiled_regions import MAX_BINS, MAX_SAMPLES, Activity, Region, region_name


def test_bins_widen_without_losing_calls():
    activity = Activity()
    for second in range(5000):
        activity.add(float(second))
    assert len(activity.counts) <= MAX_BINS
    assert sum(activity.counts) == 5000
    assert activity.bin_s * len(activity.counts) >= 4999


def test_a_region_takes_constant_space():
    region = Region(0, counts_graphs=True)
    region.count_call(0.0, 1.0, warm=False, entered=1, raised=False)
    for number in range(10 * MAX_SAMPLES):
        region.count_call(number / 1000, 1e-3, warm=True, entered=number % 2, raised=False)
    event = region.to_event()
    assert (event.calls, event.warm, event.sampled) == (10 * MAX_SAMPLES + 1, 10 * MAX_SAMPLES, MAX_SAMPLES)
    assert event.uncompiled == 5 * MAX_SAMPLES
    assert (event.low_us, event.median_us, event.high_us) == (1000.0, 1000.0, 1000.0)


def test_regions_have_the_names_that_the_user_knows():
    linear = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(linear.parameters())
    assert region_name(linear) == ("Linear", "module")
    assert region_name(linear._call_impl) == ("Linear", "module in place")
    assert region_name(optimizer.step) == ("SGD.step", "optimizer")
    assert region_name(torch.sin).kind == "function"
    assert region_name(torch.nn.functional.gelu) == ("gelu", "function")
    assert region_name([].append) == ("list.append", "method")
