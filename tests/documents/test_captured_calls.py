"""The timing and guards panes of a script whose calls were captured, and their JSON."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tcexplore import events as ev
from tcexplore.documents.guards.guards_view import guards_document
from tcexplore.documents.guards.size_rows import describe_plan
from tcexplore.documents.timing.timing_view import timing_document
from tcexplore.events.captured_events import Padding
from tcexplore.report.json_report import captured_fields, shape_fields
from tcexplore.session import Snapshot
from tcexplore.session.region_sizes import region_sizes
from tcexplore.session.snapshot import start_snapshot
from tests.documents import golden
from tests.report.whole_report import validate

FILE = "/models/train.py"

TIMING = ev.TimingEstimate(
    eager_us=8_100, eager_spread_us=100, compiled_us=5_400, compiled_spread_us=90, speedup=1.5, low=1.45, high=1.55,
    noise_floor=0.01, pairs=40, verdict="faster", threads=8, device="cpu", train=True,
)  # fmt: skip

STEPS = replace(TIMING, eager_us=20_000, compiled_us=18_000, speedup=1.11, low=1.08, high=1.14, unit="step")

PROFILE = ev.CallProfiled(
    total_us=5_400, repeats=5, parts=(ev.CallPart(kind="kernel", name="k0", graph="0/0", us=4_000, low_us=3_900,
                                                  high_us=4_100),),
)  # fmt: skip

FIRST = ev.CallExamined(
    region=0, call=2, inputs=("i64[16, 32]",), calls=96, compiles=1, backward=True, held=1_200_000, timing=TIMING,
    accuracy=ev.Accuracy(verdict="as accurate as eager", train=True, calls=1, total_calls=1),
    memory=ev.Memory(device="cpu", method="measured", weights=400, inputs=64, eager_peak=8 << 20,
                     compiled_peak=5 << 20), profile=PROFILE,
)  # fmt: skip

LAST = replace(
    FIRST, call=9, inputs=("i64[5, 32]",), calls=12, timing=None, profile=None, memory=None,
    accuracy=ev.Accuracy(verdict="wrong", worst="output"), missing=("timing: it did not end within 120 s",),
    notes=("Parameters have their values from the end of the script: a copy of them would be too large.",),
)  # fmt: skip


def test_a_call_without_a_difference_names_the_noise_if_its_interval_excludes_1():
    def text(floor: float, low: float) -> str:
        timing = replace(TIMING, speedup=1.05, low=low, high=1.09, noise_floor=floor, verdict="no difference")
        document = timing_document(script(replace(FIRST, timing=timing)), width=160)
        return "\n".join(document.row(index).text for index in range(len(document)))

    assert "eager against itself varies by up to 6%: the difference may be noise" in text(0.06, 1.01)
    assert "the difference may be noise" not in text(0.06, 0.99)


def test_page_faults_of_the_steps_are_named_beside_the_calls_that_have_none():
    def text(eager: float) -> str:
        process = ev.TimedProcess(
            memory="as the system does", pairs=9, speedup=1.1, low=1.0, high=1.2, eager_us=20_000, compiled_us=18_000,
            eager_page_faults=eager, compiled_page_faults=0.0,
        )  # fmt: skip
        document = timing_document(script(replace(STEPS, processes=(process,)), FIRST), width=160)
        return " ".join(" ".join(document.row(index).text for index in range(len(document))).split())

    assert "An eager step takes 3,040 page faults, a compiled one 0: in the script, freed memory goes back" in text(
        3040.0
    )
    assert "page fault" not in text(20.0)


def padded(padding: Padding, us: float) -> ev.PaddedCall:
    return ev.PaddedCall(padding=padding, inputs=("i64[2, 8]",), us=us, exact_us=100.0)


def sizes(*lengths: tuple[int, int, int]) -> ev.SizesSeen:
    """Return a region called with these lengths, calls and compiles."""
    return ev.SizesSeen(
        region=0,
        sizes=tuple(
            ev.SizesCounted(
                inputs=(f"i64[2, {length}]",), grad=False, calls=calls, compiles=compiles, first_call=number,
                tensors=(ev.TensorSize(argument="0", size=(2, length)),),
            )
            for number, (length, calls, compiles) in enumerate(lengths, 1)
        ),
        varying=(
            ev.VaryingSize(
                dims=(ev.RecompileChange("mark_dynamic", "0", 1),),
                values=tuple(sorted((length, calls) for length, calls, _ in lengths)),
            ),
        ),
    )  # fmt: skip


def script(*more: ev.Event) -> Snapshot:
    """Return a script with one region."""
    run = start_snapshot(ev.Job(run=1, file=FILE, source="\n" * 60))
    events: tuple[ev.Event, ...] = (
        ev.EntryFound(name="__main__", kind="script", rule="the file compiles something itself", calls=()),
        ev.RegionCreated(region=0, name="GPT", kind="module", location=ev.Location(FILE, 41)),
        *more,
    )
    for event in events:
        run = run.apply(replace(event, run=1))
    return run


@pytest.mark.parametrize("width", [38, 78])
def test_captured_calls(width: int):
    run = script(STEPS, FIRST, LAST, ev.Finished())
    golden.check(f"captured-{width}", golden.text(timing_document(run, frozenset(), width)))


def test_the_account_is_of_the_first_call_and_the_results_are_the_worst():
    run = script(STEPS, FIRST, LAST)
    assert run.timing is not None
    assert run.timing.unit == "step"
    assert run.call_timing == replace(TIMING, run=0)
    assert run.call_account is not None
    assert run.call_account.total_us == TIMING.compiled_us, "not a step"
    assert run.accuracy is not None
    assert run.accuracy.verdict == "wrong"
    later = script(FIRST, LAST, STEPS)
    assert later.call_account == run.call_account, "also if an estimate of the steps follows"


def test_a_call_is_replaced_by_its_newer_results():
    run = script(replace(FIRST, timing=None), LAST, FIRST)
    assert [(call.call, call.timing is not None) for call in run.captured_calls] == [(2, True), (9, False)]


SEEN = sizes((4, 10, 1), (5, 20, 1), (8, 5, 0))


@pytest.mark.parametrize("width", [38, 78])
def test_sizes(width: int):
    tried = ev.SizesTried(
        region=0, calls=3, changes=SEEN.varying[0].dims, graphs_before=2, graphs_after=1,
    )  # fmt: skip
    call = replace(FIRST, padded=(padded("next power of 2", 160.0), ev.PaddedCall(padding="largest", inputs=())))
    texts = [
        golden.text(guards_document(script(*events), frozenset({"sizes of region 0"}), width))
        for events in ((SEEN,), (SEEN, tried, call))
    ]
    golden.check(f"sizes-{width}", "\n".join(texts))


def test_what_padding_would_give():
    calls = [
        replace(FIRST, call=1, calls=10, padded=(padded("next power of 2", 100.0),)),
        replace(FIRST, call=2, calls=30, padded=(padded("next power of 2", 200.0),)),
    ]
    (region,) = region_sizes(script(SEEN, *calls))
    plans = {plan.kind: plan for plan in region.plans}
    assert (plans["as it is"].sizes, plans["as it is"].compiles) == (3, 2)
    assert plans["dynamic=False"].compiles == 3
    assert plans["mark_dynamic"].compiles == 1
    powers, largest = plans["next power of 2"], plans["largest"]
    assert (powers.sizes, largest.sizes) == (2, 1)
    elements = 10 * 4 + 20 * 5 + 5 * 8
    assert powers.padding == pytest.approx((10 * 4 + 20 * 8 + 5 * 8) / elements - 1)
    assert largest.padding == pytest.approx(35 * 8 / elements - 1)
    assert powers.slowdown == pytest.approx((10 * 100 + 30 * 200) / (40 * 100)), "weighted by the calls"
    assert largest.slowdown is None


def test_the_graphs_of_a_region_with_breaks_are_those_of_each_part():
    (region,) = region_sizes(script(SEEN))
    plan = next(plan for plan in region.plans if plan.kind == "dynamic=False")
    whole, parts = (describe_plan(plan, region, broken=broken) for broken in (False, True))
    assert whole == "dynamic=False: 3 graphs, one for each size; not measured"
    assert parts == "dynamic=False: 3 graphs of each part between graph breaks, one for each size; not measured"


def test_sizes_below_two_are_compiled_by_themselves():
    (region,) = region_sizes(script(sizes((1, 3, 1), (2, 3, 1), (9, 1, 1))))
    assert {plan.kind: plan.compiles for plan in region.plans}["mark_dynamic"] == 2


def test_json():
    run = script(STEPS, FIRST, LAST, SEEN)
    validate(run)
    first, last = captured_fields(run)
    assert (first["speedup"], first["ci95"], first["eager_peak_bytes"]) == (1.5, [1.45, 1.55], 8 << 20)
    assert (last["verdict"], last["accuracy"]["verdict"]) == (None, "wrong")
    (shapes,) = shape_fields(run)
    assert [each["calls"] for each in shapes["sizes"]] == [10, 20, 5]
    assert shapes["plans"][0]["kind"] == "as it is"
