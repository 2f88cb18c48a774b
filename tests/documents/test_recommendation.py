"""The recommendation to compile or not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tcexplore import events as ev
from tcexplore.documents.verdicts import format_recommendation, format_reservation, interval_text, recommend
from tcexplore.events.timing_events import TimingVerdict
from tcexplore.session import Snapshot
from tests.snapshots.estimates import EQUAL, FASTER, SLOWER
from tests.snapshots.mlp_timing import RETURNED

AFTER = "break-even at ~50,000 calls."


@pytest.mark.parametrize(
    ("calls", "sentence"),
    [
        (
            None,
            "Break-even: ~50,000 calls (41,700 to 66,700). Compiling takes 10.0 s and saves 200 µs per call.",
        ),
        (1_000_000, f"Worth compiling for 1,000,000 calls: net gain 190 s; {AFTER}"),
        (1_000, f"Not worth compiling for 1,000 calls: net loss 9.80 s; {AFTER}"),
        (50_000, f"No measurable net gain over 50,000 calls; {AFTER}"),
    ],
)
def test_compiling_is_recommended_above_break_even(calls: int | None, sentence: str):
    assert format_recommendation(FASTER, 10.0, calls) == sentence


def test_compiling_without_gain_is_not_recommended():
    assert format_recommendation(SLOWER, 10.0) == "Not worth compiling: a compiled call takes 100 µs longer."
    assert format_recommendation(replace(FASTER, verdict="measuring"), 10.0) == ""


def test_no_difference_says_what_compiling_saves_at_most():
    equal = replace(FASTER, speedup=1.05, low=1.0, high=1.09, verdict="no difference")
    assert format_recommendation(equal, 10.0) == (
        "No measurable difference: compiling takes 10.0 s; it saves at most 33.0 µs per call, "
        "and pays off after ~303,000 calls at the earliest."
    )
    never = replace(equal, speedup=0.98, low=0.97, high=0.99)
    assert format_recommendation(never, 10.0) == "No measurable difference: compiling takes 10.0 s and saves nothing."


def test_an_undecided_timing_has_the_likely_gain_of_a_number_of_calls():
    undecided = replace(FASTER, speedup=1.25, low=0.8, high=2.0, verdict="undecided")
    text = format_recommendation(undecided, 10.0, 1_000_000)
    assert text.startswith(
        "Undecided: over 1,000,000 calls, the net gain is most likely 70.0 s, within [-110 s, 190 s]."
    )


@pytest.mark.parametrize("verdict", ["undecided", "no difference"])
def test_an_undecided_timing_may_be_a_certain_loss_over_few_calls(verdict: TimingVerdict):
    undecided = replace(FASTER, speedup=1.05, low=0.99, high=1.25, noise_floor=0.02, verdict=verdict)
    saved, most = (undecided.eager_us * (1 - 1 / speedup) * 4e-3 for speedup in (1.05, 1.25))
    text = f"Not worth compiling for 4,000 calls: net loss {10 - saved:.2f} s, at least {10 - most:.2f} s."
    assert format_recommendation(undecided, 10.0, 4_000) == text
    noisy = replace(undecided, noise_floor=9.0, eager_us=1e4)
    assert "net loss" not in format_recommendation(noisy, 10.0, 4_000)
    assert "net loss" not in format_recommendation(replace(undecided, processes_to_come=3), 10.0, 4_000)


def test_no_difference_has_the_likely_gain_of_a_number_of_calls():
    equal = replace(FASTER, speedup=1.05, low=0.99, high=1.11, verdict="no difference")
    text = format_recommendation(equal, 10.0, 1_000_000)
    assert text.startswith("No measurable difference: over 1,000,000 calls, the net gain is most likely")


def test_an_interval_that_says_nothing_has_no_figures():
    assert interval_text(replace(FASTER, low=0.0, high=4.9e13)) == "[too few pairs]"
    assert interval_text(replace(FASTER, low=0.5, high=40.0)) == "[0.50, 40.00]"


def test_time_of_several_calls_is_their_mean():
    assert "200 µs per call (mean of 3 calls)." in format_recommendation(replace(FASTER, calls=3), 10.0)


def test_narrow_interval_has_one_break_even():
    assert "~50,000 calls. Compiling" in format_recommendation(replace(FASTER, low=1.98, high=2.02), 10.0)


def test_compile_that_took_no_time_has_no_break_even():
    assert format_recommendation(FASTER, 0.0) == (
        "Worth compiling: it saves 200 µs per call, and the first calls took no longer than the others."
    )


CALLS = (ev.CallMade(index=0, variant="compiled", seconds=4.0002, compiles=1),)
AGAIN = (*CALLS, ev.CallMade(index=1, variant="compiled", seconds=6.0002, compiles=1))
KERNEL = ev.Kernel(graph="0/0", phase="forward", name="cpp_fused_0", language="cpp", source="")
"""A compile of four seconds, a recompile of six, a kernel."""


def run(*events: ev.Event) -> Snapshot:
    snapshot = Snapshot(run=0, file="m.py", source="", config=ev.Config())
    for event in (*events, FASTER):
        snapshot = snapshot.apply(event)
    return snapshot


def test_cost_of_recompiles_is_included():
    assert "Compiling takes 4.00 s and" in recommend(run(*CALLS))
    assert "Compiling takes 10.0 s (1 recompile included) and" in recommend(run(*AGAIN))


def test_wrong_result_is_never_recommended():
    assert recommend(run(*CALLS, ev.Accuracy(verdict="wrong"))).startswith(
        "Not worth compiling until the result is right"
    )


def test_cached_kernels_are_mentioned():
    compiled = ev.PhaseTimed(name="compile_file", seconds=2.0, graph="0/0", depth=0)
    assert "came from the cache" in format_reservation(run(*CALLS, KERNEL))
    assert format_reservation(run(*CALLS, KERNEL, compiled)) == ""
    assert format_reservation(run(*CALLS)) == ""
    others = [replace(KERNEL, source=f"void kernel_{n}()") for n in range(3)]
    assert format_reservation(run(*CALLS, KERNEL, *others, compiled)) == (
        "At least 3 of 4 C++ kernels came from the cache: a cold compile takes longer."
    )
    loaded = run(*CALLS, KERNEL, ev.CompilerLoaded())
    assert format_reservation(loaded) == (
        "C++ kernels came from the cache and the process had loaded the compiler before: a cold compile takes longer."
    )


def test_a_measured_cold_compile_has_its_own_break_even():
    cold = run(*CALLS, KERNEL, ev.ColdCompile(seconds=12.0002, calls=1))
    assert format_reservation(cold) == (
        "With empty caches, compiling takes 12.0 s: break-even at ~60,000 calls (50,000 to 80,000)."
    )
    assert "With empty caches, compiling takes 12.0 s: net loss 8.00 s over 20,000 calls, break-even at" in (
        format_reservation(replace(cold, expected_calls=20_000))
    )
    assert "no measurable net gain over 60,000 calls" in format_reservation(replace(cold, expected_calls=60_000))
    assert "Compiling takes 4.00 s and" in recommend(cold), "that is of this run"
    warm = run(*CALLS, KERNEL, ev.ColdCompile(seconds=12.0002, calls=1, warm_seconds=1.0002))
    assert format_reservation(warm).endswith(
        "With those of an earlier start, compiling takes 1.00 s: break-even at ~5,000 calls (4,170 to 6,670)."
    )
    slower = run(*CALLS, ev.ColdCompile(seconds=12.0, calls=1)).apply(replace(SLOWER, run=0))
    assert format_reservation(slower) == "With empty caches, compiling takes 12.0 s."


def test_a_different_verdict_with_memory_returned_follows_the_recommendation():
    even = replace(EQUAL, run=0, verdict="no difference", memory_returned=RETURNED)
    assert recommend(run(*CALLS).apply(even)).endswith(
        "at the earliest. If freed memory is returned to the system: faster, 1.46× [1.31, 1.60]."
    )
    assert "returned" not in recommend(
        run(*CALLS).apply(replace(even, memory_returned=replace(RETURNED, differs=False)))
    )
