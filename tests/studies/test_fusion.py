"""The fusion study: Inductor's decisions are turned around where torch can; else its reason is given."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest
import pytest_asyncio

from tcexplore import events as ev
from tcexplore.events.config import FusionChoice
from tcexplore.session import Snapshot
from tcexplore.studies.fusion import (
    STUDY,
    FusionOptions,
    FusionTrial,
    fusion_choices,
    parse_names,
    predict,
    traffic,
)
from tcexplore.studies.runs import RefusedError, Runs
from tcexplore.studies.study import StudyState, run_study
from tcexplore.studies.study_json import study_fields
from tests.studies.playback import GRAPH, JOB, json_of, played, printed, timed
from tests.supervisor.runs import Runs as SharedRuns


def kernel(name: str, *nodes: str, moved: int = 100) -> ev.Kernel:
    return ev.Kernel(
        graph="0/0", phase="forward", name=name, language="cpp", source="", scheduler_nodes=nodes,
        bytes_read=moved, bytes_written=0,
    )  # fmt: skip


def decision(a: str, b: str, *, fused: bool, reason: str = "") -> ev.FusionDecision:
    return ev.FusionDecision(
        graph="0/0", phase="forward", a=a, b=b, fused=fused, reason=reason, a_nodes=(a,), b_nodes=(b,)
    )


APART = (
    kernel("first", "op0"),
    kernel("second", "op1"),
    decision("op0", "op1", fused=False, reason="exceeds max fusion"),
)
FUSED = (kernel("both", "op0", "op1", moved=120), decision("op0", "op1", fused=True))


def run_of(*events: ev.Event) -> Snapshot:
    run = Snapshot(run=1, file="/tmp/model.py", source="", config=ev.Config())
    for event in (GRAPH, *events):
        run = run.apply(replace(event, run=1))
    return run


def test_the_choice_is_the_opposite_of_what_inductor_did():
    separate, together = run_of(*APART), run_of(*FUSED)
    fuse = FusionChoice(True, (("op0",), ("op1",)), "0/0", "forward")
    assert fusion_choices(separate, ("first", "op1")) == (fuse,)
    assert fusion_choices(together, ("op0", "op1")) == (replace(fuse, together=False),)
    assert fusion_choices(together, ("both",)) == (replace(fuse, together=False),)


def layered() -> tuple[ev.Event, ...]:
    """Return two kernels of three equal layers, which are called in turn; each depends on the one before it."""
    names = [f"op{index}" for index in range(6)]
    calls = [ev.inductor_events.KernelCall(order=order, scheduler_nodes=(name,)) for order, name in enumerate(names)]
    kernels = [
        replace(kernel(name, *names[start::2]), calls=tuple(calls[start::2]))
        for start, name in enumerate(("first", "second"))
    ]
    return *kernels, decision("op0", "op1", fused=False, reason="limit"), decision("op1", "op2", fused=True)


def test_kernels_of_equal_layers_are_paired_within_each_layer():
    choices = fusion_choices(run_of(*layered()), ("first", "second"))
    assert [choice.parts for choice in choices] == [(("op0",), ("op1",)), (("op2",), ("op3",)), (("op4",), ("op5",))]
    assert {choice.together for choice in choices} == {True}, "op1 and op2 are of two layers"


def test_a_choice_that_inductor_makes_in_some_layers_says_so():
    before = run_of(*layered())
    decisions = [decision("op0", "op1", fused=True), decision("op2", "op3", fused=False, reason="no")]
    after = run_of(ev.ScheduleMade(graph="0/0", phase="forward", nodes=()), *decisions)
    trial = FusionTrial(fusion_choices(before, ("first", "second")), before, after)
    state = StudyState[FusionOptions, FusionTrial](JOB, FusionOptions(("first", "second")), 5.0, results=[trial])
    text = " ".join(printed("fusion", state).split())
    assert "Fuse op0 and op1, and 2 pairs of calls like them" in text
    assert "Inductor made the choice in 1 of 3 pairs." in text
    fields = json_of("fusion", state)
    assert (fields["pairs"], fields["applied"], fields["applied_pairs"]) == (3, True, 1)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("op7", "op1"), "no kernel or scheduler node op7. There are: both (op0, op1)"),
        (("both", "op1"), "nodes in common"),
        (("op0",), "nothing in it is fused"),
    ],
)
def test_parts_that_cannot_be_chosen_are_refused_with_the_reason(names: tuple[str, ...], message: str):
    with pytest.raises(RefusedError, match=message.replace("(", r"\(").replace(")", r"\)")):
        fusion_choices(run_of(*FUSED), names)


def test_a_prompt_takes_one_or_two_names():
    assert parse_names("op0, op1") == ("op0", "op1")
    with pytest.raises(ValueError, match="Name one kernel, or two"):
        parse_names("a b c")


def with_kernels(*times: tuple[str, float], call: float, device: str = "gpu") -> tuple[ev.Event, ...]:
    """Return the timing of a call of so many microseconds, and the measured times of its kernels."""
    parts = tuple(
        ev.CallPart(kind="kernel", name=name, graph="0/0", phase="forward", us=us, low_us=us, high_us=us)
        for name, us in times
    )
    return replace(timed(2.0, 2 * call), device=device), ev.CallProfiled(
        total_us=call, repeats=1, parts=parts, plain_us=call
    )


def rates(read: float, written: float = 1e7) -> ev.MemoryRates:
    return ev.MemoryRates(read_bytes_per_s=read, written_bytes_per_s=written)


def trial_of(before: Snapshot, *after: ev.Event) -> FusionTrial:
    return FusionTrial(fusion_choices(before, ("op0", "op1")), before, run_of(*after, ev.Finished()))


def predicted_us_of(trial: FusionTrial) -> tuple[float, float] | None:
    return predict(trial, traffic(trial)).us


def test_the_estimate_follows_the_bytes_of_the_kernels_that_differ():
    third = kernel("third", "op2", moved=900)
    before = run_of(*APART, third, *with_kernels(("first", 20.0), ("second", 20.0), ("third", 60.0), call=100.0))
    moved = traffic(trial_of(before, *FUSED, third))
    assert moved is not None
    assert [one.name for one in moved.before] == ["first", "second"]
    # Kernels of 40 µs read 200 bytes, then 120.
    assert predicted_us_of(trial_of(before, *FUSED, third, rates(5e6))) == pytest.approx((100.0, 84.0))
    cached = trial_of(before, *FUSED, third, rates(4e6))
    assert predicted_us_of(cached) == pytest.approx((100.0, 90.0)), "the fused kernel is not taken to be that fast"
    slower = trial_of(before, *FUSED, third, rates(6e6))
    assert predicted_us_of(slower) == pytest.approx((100.0, 84.0)), "the fused kernel is taken to be as slow"


def test_written_bytes_have_a_rate_of_their_own():
    writes = replace(FUSED[0], bytes_written=40)
    before = run_of(*APART, *with_kernels(("first", 20.0), ("second", 20.0), call=40.0))
    after = trial_of(before, writes, FUSED[1], rates(5e6, 2e6))
    assert predicted_us_of(after) == pytest.approx((40.0, 24.0 + 20.0))


def test_kernels_that_are_kept_apart_are_at_most_as_slow_as_plain_reads():
    before = run_of(*FUSED, *with_kernels(("both", 28.0), call=40.0))
    assert predicted_us_of(trial_of(before, *APART, rates(5e6))) == pytest.approx((40.0, 12.0 + 40.0))
    assert predicted_us_of(trial_of(before, *APART, rates(3e6))) == pytest.approx((40.0, 12.0 + 28.0 * 200 / 120))
    before = run_of(*FUSED, *with_kernels(("both", 28.0), call=40.0, device="cpu"))
    assert predicted_us_of(trial_of(before, *APART, rates(5e6))) == pytest.approx((40.0, 12.0 + 28.0 * 200 / 120))


def test_kernels_that_do_not_wait_for_memory_are_not_estimated():
    before = run_of(*FUSED, *with_kernels(("both", 36.0), call=40.0))
    trial = trial_of(before, *APART, rates(1e7))
    assert predicted_us_of(trial) is None
    state = StudyState[FusionOptions, FusionTrial](JOB, FusionOptions(("op0", "op1")), 5.0, results=[trial])
    reason = "the kernels take 3.0× as long as plain reads and writes of as many, so they wait for something else"
    assert json_of("fusion", state)["not_estimated"] == f"no estimate from bytes: {reason}"
    assert f"No estimate from bytes: {reason}." in " ".join(printed("fusion", state).split())


def test_kernels_whose_bytes_a_cache_may_hold_are_not_estimated():
    timing = with_kernels(("both", 28.0), call=40.0)
    trial = trial_of(run_of(*FUSED, *timing), *APART, replace(rates(5e6), cache_bytes=31))
    assert predicted_us_of(trial) is None
    state = StudyState[FusionOptions, FusionTrial](JOB, FusionOptions(("op0", "op1")), 5.0, results=[trial])
    reason = "of the 120 B of a kernel, the last cache (31 B) may hold a part"
    assert json_of("fusion", state)["not_estimated"] == f"no estimate from bytes: {reason}"
    unprofiled = trial_of(run_of(*FUSED, timing[0]), *APART, replace(rates(5e6), cache_bytes=31))
    state = StudyState[FusionOptions, FusionTrial](JOB, FusionOptions(("op0", "op1")), 5.0, results=[unprofiled])
    assert json_of("fusion", state)["not_estimated"] == f"no estimate from bytes: {reason}", "without times of kernels"
    unknown = replace(FUSED[0], bytes_read=None, bytes_written=None)
    trial = trial_of(run_of(unknown, FUSED[1], *timing), *APART, replace(rates(5e6), cache_bytes=31))
    state = StudyState[FusionOptions, FusionTrial](JOB, FusionOptions(("op0", "op1")), 5.0, results=[trial])
    assert json_of("fusion", state)["not_estimated"] is None, "unknown bytes are not few"
    enough = trial_of(run_of(*FUSED, *timing), *APART, replace(rates(5e6), cache_bytes=30))
    assert predicted_us_of(enough) is not None


def test_a_call_that_waits_for_launches_is_not_estimated_from_bytes():
    part = ev.CallPart(kind="kernel", name="both", graph="0/0", phase="forward", us=20.0, low_us=20.0, high_us=20.0)
    profile = ev.CallProfiled(total_us=20.0, repeats=1, parts=(part,), plain_us=60.0)
    before = run_of(*FUSED, replace(timed(2.0, 120.0), device="gpu").with_kernels(50.0, 20.0), profile)
    trial = FusionTrial(fusion_choices(before, ("op0", "op1")), before, run_of(*APART, ev.Finished()))
    assert predicted_us_of(trial) is None
    state = StudyState[FusionOptions, FusionTrial](JOB, FusionOptions(("op0", "op1")), 5.0, results=[trial])
    assert "No estimate from bytes" in " ".join(printed("fusion", state).split())
    assert "launches" in json_of("fusion", state)["not_estimated"]


def refused(job: ev.Job) -> list[ev.Event]:
    schedule = ev.ScheduleMade(graph="0/0", phase="forward", nodes=())
    return [GRAPH, *APART, schedule, *([ev.Finished()] if job.baseline is None else [])]


async def test_a_choice_that_torch_refuses_is_not_timed():
    state, player = await played("fusion", refused, FusionOptions(("op0", "op1")))
    assert player.jobs[0].config.fusion_choices == ()
    assert player.jobs[1].baseline_config == player.jobs[0].config
    assert state.results[-1].applied is False
    scheduled = run_of(*APART[2:], ev.ScheduleMade(graph="0/0", phase="forward", nodes=()))
    assert traffic(FusionTrial(state.results[-1].choices, run_of(*APART), scheduled)) is None, "0 bytes would be wrong"
    assert "torch cannot fuse them" in " ".join(printed("fusion", state).split())


@pytest.mark.parametrize(("kind", "runs"), [("function", 1), ("script", 2)])
async def test_the_run_of_the_app_is_repeated_only_for_a_script(kind: Literal["function", "script"], runs: int):
    entry = ev.EntryFound(name="model", kind=kind, rule="", calls=())
    config = replace(JOB.config, assembly=True)
    own = replace(run_of(entry, *APART, ev.Finished()), file=JOB.file, source=JOB.source, config=config)
    _, player = await played("fusion", refused, FusionOptions(("op0", "op1")), own=own)
    assert len(player.jobs) == runs


SOURCE = """
import torch


def model(x, y):
    a = (x * 2 + 1).sigmoid()
    b = (y - 3).cos()
    s = a.sum(-1, keepdim=True)
    return a / s, b


inputs = (torch.randn(64, 32), torch.randn(64, 32))
"""


@pytest_asyncio.fixture(loop_scope="session")
async def study_runs(shared_runs: SharedRuns) -> AsyncIterator[Runs]:
    async with Runs(shared_runs.supervisor.study_queue) as runs:
        yield runs


@pytest.mark.torch
@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.parametrize(
    ("first", "second", "together", "applied"),
    [("sum", "div", False, True), ("sigmoid", "cos", True, True), ("sigmoid", "sum", True, False)],
)
async def test_real_inductor_makes_the_choice_where_its_loops_fit(
    tmp_path: Path, study_runs: Runs, first: str, second: str, together: bool, applied: bool
):
    """The scheduler's nodes are named in the order of the ops: sigmoid, sum, div, cos."""
    nodes = {"sigmoid": "op0", "sum": "op1", "div": "op2", "cos": "op3"}
    job = ev.Job(run=1, file=str(tmp_path / "model.py"), source=SOURCE, time_for=0.1)
    options = FusionOptions((nodes[first], nodes[second]))
    state: StudyState[FusionOptions, FusionTrial] = StudyState(job, options, 120.0)
    await run_study(STUDY, state, study_runs, lambda _: None, lambda _: None)
    assert not state.refused
    trial = state.results[-1]
    assert (trial.choice.together, trial.applied) == (together, applied)
    fields = study_fields(STUDY, state)
    assert fields["choice"] == ("together" if together else "apart")
    assert (fields["refused"] is None) == applied
    assert (fields["before_us"] is None) == (not applied)
    memory = trial.after.memory_rates if trial.after is not None else None
    assert (memory is not None) == applied
    assert memory is None or 1e8 < memory.written_bytes_per_s <= memory.read_bytes_per_s < 1e13
    assert memory is None or memory.cache_bytes is None or memory.cache_bytes > 1e5
    if first == "sum":
        assert fields["bytes_after"] > fields["bytes_before"]
