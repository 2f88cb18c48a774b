"""Reports contain no figures that contradict each other, whatever was measured."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tcexplore import events as ev
from tcexplore.events.timing_events import TimingVerdict
from tcexplore.report.json_report import report
from tcexplore.session import Snapshot
from tests import fakes
from tests.report.timing_consistency import timing_contradictions
from tests.report.whole_report import MACHINE, everything
from tests.snapshots import measured, recompiling, training

RUNS = (everything, fakes.complete, fakes.failed, fakes.recompiled, measured.run, training.run, recompiling.run)


@pytest.mark.parametrize("run", RUNS)
def test_reports_of_samples_are_consistent(run: Callable[[], Snapshot]):
    assert timing_contradictions(report(run(), MACHINE)) == []


times = st.floats(1.0, 1e5)
VERDICTS: tuple[TimingVerdict, ...] = get_args(TimingVerdict)


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_figures_measured_on_a_loaded_machine_never_contradict_each_other(data: st.DataObject):
    """Each figure is as wrong as load can make it; the events arrive in any order."""
    run = fakes.complete()
    assert run.timing is not None
    compiled_us, verdict = data.draw(times), data.draw(st.sampled_from(VERDICTS))
    speedup = {"faster": 1.5, "slower": 0.7}.get(verdict, 1.0)
    timing = replace(
        run.timing, compiled_us=compiled_us, eager_us=compiled_us * speedup, speedup=speedup, low=speedup - 0.1,
        high=speedup + 0.1, verdict=verdict,
    )  # fmt: skip
    broken = next(broken.location for broken in run.breaks if broken.location)
    total = data.draw(times)
    cost = ev.BreakCost(location=broken, us=total * data.draw(st.floats(0, 1)), gaps=1)
    kernel = run.code.kernels[0]
    of_kernel, of_guards = data.draw(times), data.draw(times)
    parts = (
        ev.CallPart(
            kind="kernel", name=kernel.name, graph=kernel.graph, phase=kernel.phase, us=of_kernel, low_us=of_kernel / 2,
            high_us=of_kernel * 2,
        ),
        ev.CallPart(kind="guards", name="", us=of_guards, low_us=of_guards, high_us=of_guards),
    )  # fmt: skip
    events = [
        timing,
        ev.CallProfiled(run=run.run, total_us=sum(part.us for part in parts), repeats=5, parts=parts),
        ev.BreakCosts(run=run.run, costs=(cost,), total_us=total, units=5),
    ]  # fmt: skip
    run = replace(run, timing=None)
    for event in data.draw(st.permutations(events)):
        run = run.apply(event)
    assert timing_contradictions(report(run, MACHINE, calls=1000)) == []


FALSE: dict[str, Callable[[dict[str, Any]], None]] = {
    "the speedup lies outside": lambda r: r["timing"].update(speedup=9.0),
    "contains 1": lambda r: r["timing"].update(ci95=[0.9, 2.0]),
    "less than 1%": lambda r: r["timing"].update(speedup=1.005, ci95=[1.004, 1.006]),
    "break-even, but not faster": lambda r: r["timing"].update(verdict="undecided", break_even_calls=5),
    "account and timing": lambda r: r["call_account"].update(total_us=9e9),
    "parts and the call": lambda r: r["call_account"]["parts"][0].update(us=9e9),
    "is outside its interval": lambda r: r["call_account"]["parts"][0].update(high_us=0.0),
    "kernel ": lambda r: r["kernels"][0]["measured"].update(us=1.0),
    "µs of": lambda r: r["kernels"][0].update(measured={"us": 9e9}),
}


@pytest.mark.parametrize("part", FALSE)
def test_a_contradiction_is_noticed(part: str):
    whole = copy.deepcopy(report(measured.run(), MACHINE))
    FALSE[part](whole)
    assert any(part in text for text in timing_contradictions(whole))
