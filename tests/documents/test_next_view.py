"""What to do next: the reasons for each step, their order and gains, and the text of the list."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tcexplore import events as ev
from tcexplore.documents.breaks_view import breaks_document
from tcexplore.documents.strip import history_row, verdict_row
from tcexplore.documents.timing.next_view import (
    describe_gain,
    describe_step,
    evidence,
    first_step,
    gain_span,
    next_document,
    next_rows,
    results,
    short_gain,
    why_not_tried,
)
from tcexplore.session import Session, Snapshot
from tcexplore.session.call_account import call_account
from tcexplore.session.economics import economics
from tcexplore.session.links import break_link
from tcexplore.session.next_steps import Gain, NextStep, StepAction, next_steps, recompile_config
from tcexplore.session.recompile_fixes import RecompileFix
from tcexplore.session.snapshot import EarlierTrial
from tests import fakes
from tests.documents import golden
from tests.documents.panes import require_stable_rows
from tests.documents.views import rows
from tests.snapshots import measured, recompiling

OF: dict[str, str] = {"graph": "0/0", "phase": "forward"}


def part(kind: str, us: float, name: str = "", **more: str) -> ev.CallPart:
    return ev.CallPart(kind=kind, name=name, us=us, low_us=us, high_us=1.1 * us, **more)  # type: ignore[arg-type]


def with_parts(run: Snapshot, *parts: ev.CallPart) -> Snapshot:
    """Return a run whose compiled call has these parts."""
    assert run.timing is not None
    return run.apply(ev.CallProfiled(run=run.run, total_us=run.timing.compiled_us, repeats=4, parts=parts))


def product_heavy() -> Snapshot:
    """Return a run that spends most of a call in a matrix product of a library, and a tenth in guards."""
    run = fakes.complete()
    kernels = (replace(run.code.kernels[0], name="extern_kernels.addmm", language="extern", ops=("aten.addmm",),
                       dtypes=("float32",), **OF), *run.code.kernels[1:])  # type: ignore[arg-type]  # fmt: skip
    code = replace(run.code_for("native"), kernels=kernels)
    run = replace(run, codes=(code,), grad_mode=ev.GradMode(enabled=False, reason="inference", matters=True))
    total = run.timing.compiled_us if run.timing else 0.0
    return with_parts(run, part("kernel", 0.7 * total, "extern_kernels.addmm", **OF), part("guards", 0.1 * total))


def step(run: Snapshot, action: StepAction) -> NextStep:
    return next(known for known in next_steps(run) if known.action == action)


def ends(known: NextStep) -> tuple[float | None, float | None, float | None]:
    """Return the measured gain of a step with its interval."""
    assert known.gain.measured
    return known.gain.low, known.gain.value, known.gain.high


def actions(run: Snapshot) -> list[StepAction]:
    return [known.action for known in next_steps(run)]


# ---- reasons


def test_each_step_rests_on_this_run():
    assert actions(replace(fakes.complete(), call_account=None)) == ["fix_break"]
    assert set(actions(product_heavy())) == {"fix_break", "mode", "autocast", "freezing", "guard_filter"}


@pytest.mark.parametrize(
    ("arguments", "offered"),
    [
        ((), True),
        (("recompile_limit=4",), True),
        (("mode='max-autotune-no-cudagraphs'",), False),
        (("options={'max_autotune': True}",), False),
        (("backend='aot_eager'",), False),
    ],
)
def test_another_mode_is_no_step_for_a_file_that_chooses_one(arguments: tuple[str, ...], offered: bool):
    run = product_heavy()
    assert run.entry is not None
    own = replace(run, entry=replace(run.entry, arguments=arguments))
    assert ("mode" in actions(own)) is offered


def test_types_and_modes_need_products_that_take_a_visible_share():
    run = product_heavy()
    total = run.timing.compiled_us if run.timing else 0.0
    light = with_parts(run, part("kernel", 0.1 * total, "extern_kernels.addmm", **OF))
    assert set(actions(light)) == {"fix_break"}


def test_freezing_is_for_inference_only():
    run = replace(product_heavy(), grad_mode=ev.GradMode(enabled=True, reason="requested", matters=True))
    assert "freezing" not in actions(run)


def test_a_configuration_that_has_a_step_does_not_offer_it_again():
    run = product_heavy()
    config = replace(run.config, autocast="bfloat16", mode="max-autotune", guard_filter="skip_all_guards_unsafe")
    assert {"autocast", "mode", "guard_filter"}.isdisjoint(actions(replace(run, config=config)))


def test_launch_python_and_guards_call_for_a_larger_batch():
    run = fakes.complete()
    total = run.timing.compiled_us if run.timing else 0.0
    busy = with_parts(run, part("launch", 0.25 * total), part("Python", 0.1 * total))
    batch = step(busy, "larger_batch")
    assert (batch.before, batch.number) == (64, 128)
    assert batch.config is not None
    assert (batch.config.dim, batch.config.sizes) == (0, (128,))
    assert "larger_batch" not in actions(with_parts(run, part("launch", 0.25 * total)))


def test_a_larger_batch_comes_after_what_makes_the_same_work_faster():
    run = fakes.complete()
    total = run.timing.compiled_us if run.timing else 0.0
    busy = with_parts(run, part("launch", 0.25 * total), part("Python", 0.1 * total))
    assert actions(busy) == ["fix_break", "larger_batch"]
    text = " ".join(row.text.strip() for row in rows(next_document, busy, width=100))
    assert "that each could save at most; a larger batch, which is more work in a call, comes last." in text


def test_a_break_whose_cost_is_contradicted_claims_no_share_of_a_call():
    run = fakes.complete()
    (graph_break,) = run.breaks
    assert graph_break.location is not None
    cost = ev.BreakCost(location=graph_break.location, us=60.0, gaps=1)
    reason = "a call took 514 µs when the breaks were measured, but 7.02 ms in the timing"
    costs = ev.BreakCosts(run=run.run, costs=(cost,), total_us=500.0, units=5, contradicted=reason)
    unclear = replace(run, break_costs=costs, first_break_costs=costs, fixes=())
    known = step(unclear, "fix_break")
    assert (known.share, known.us) == (None, None)
    text = " ".join(row.text.strip() for row in rows(next_document, unclear, width=100))
    assert f"Its cost is unclear: {reason}." in text
    assert "of a compiled call, at least" not in text


def test_a_long_compile_of_repeated_blocks_calls_for_regions():
    run = fakes.complete()
    slow = tuple(replace(phase, seconds=40 * phase.seconds) for phase in run.phase_times)
    blocks = ev.RepeatedBlocks(run=run.run, kinds=(("Block", 12),))
    assert step(replace(run, phase_times=slow).apply(blocks), "compile_blocks").target == "Block"
    assert "compile_blocks" not in actions(run.apply(blocks))
    assert "compile_blocks" not in actions(replace(run, phase_times=slow))


def test_a_slower_program_is_better_left_uncompiled():
    timing = replace(fakes.complete().timing, verdict="slower", speedup=0.8, low=0.75, high=0.85)  # type: ignore[type-var]
    first = next_steps(replace(fakes.complete(), timing=timing))[0]
    assert first.action == "run_eagerly"
    assert ends(first) == pytest.approx((1 / 0.85, 1.25, 1 / 0.75))


def test_a_compile_that_does_not_pay_in_the_expected_calls_is_better_left():
    run = fakes.complete()
    cost_s = economics(run).cost_s
    assert run.timing is not None
    assert cost_s is not None
    few = replace(run, expected_calls=10)
    first = next_steps(few)[0]
    assert (first.action, first.number, first.gain.unit) == ("run_eagerly", 10, "seconds")
    assert first.gain.value == pytest.approx(cost_s, rel=0.1)
    assert describe_step(first, few) == "Leave the program uncompiled for 10 calls"
    assert "Not worth compiling for 10 calls" in "\n".join(row.text for row in rows(next_document, few, width=100))
    even = economics(run).break_even_calls
    assert even is not None
    assert "run_eagerly" not in actions(replace(run, expected_calls=2 * even))
    assert "run_eagerly" not in actions(run)
    for warm_s, listed in ((0.0, False), (cost_s, True), (None, True)):
        measured = few.apply(ev.ColdCompile(run=run.run, seconds=9 * cost_s, calls=0, warm_seconds=warm_s))
        assert ("run_eagerly" in actions(measured)) is listed, "the next start may find what an earlier one compiled"


def test_a_mode_that_failed_in_an_earlier_run_says_so():
    run = replace(product_heavy(), steps_tried=())
    problem = ev.StepTried(run=run.run, step=step(run, "mode").key, problem="RuntimeError: no such size.")
    failed = replace(run, tried_before=(EarlierTrial(3, problem, file_changed=False),))
    assert gain_span(step(failed, "mode")).text == "failed in run 3"
    assert "Tried in run 3: RuntimeError: no such size." in results(step(failed, "mode"), failed)


def test_a_mode_with_the_same_kernels_is_no_failure_and_no_gain():
    run = replace(product_heavy(), steps_tried=())
    same = ev.StepTried(run=run.run, step=step(run, "mode").key, same_code=True)
    now, later = replace(run, steps_tried=(same,)), replace(run, tried_before=(EarlierTrial(3, same),))
    assert [gain_span(step(each, "mode")).text for each in (now, later)] == [
        "the same kernels", "the same kernels in run 3",
    ]  # fmt: skip
    assert all(actions(each)[-1] == "mode" and step(each, "mode").gainless for each in (now, later))
    assert "Tried: torch makes the same kernels with it." in results(step(now, "mode"), now)


def test_a_verified_fix_that_was_not_timed_says_why():
    run = fakes.complete()
    (graph_break,) = run.breaks
    fix = ev.BreakFix(run=run.run, location=graph_break.location, kind=graph_break.kind, state="verified", inputs=4,
                      note="not timed: not finished after 282 s")  # fmt: skip
    known = step(replace(run, fixes=(fix,)), "fix_break")
    assert gain_span(known).text == "verified, not timed: not finished after 282 s"
    again = step(replace(run, fixes=(replace(fix, note=""),)), "fix_break")
    assert gain_span(again).text == "verified, being timed"


def test_a_mode_that_the_study_timed_in_an_earlier_run_is_a_step():
    best = ev.StepTried(run=1, step="mode reduce-overhead", speedup=1.3, low=1.2, high=1.4, verdict="faster")
    worse = replace(best, step="mode max-autotune", speedup=0.9, low=0.8, high=0.95, verdict="slower")
    before = tuple(EarlierTrial(1, tried) for tried in (worse, best))
    run = replace(fakes.complete(), tried_before=before)
    modes = [step.target for step in next_steps(run) if step.action == "mode"]
    assert modes == ["reduce-overhead", "max-autotune"]
    assert gain_span(step(run, "mode")).text == "1.30× faster [1.20, 1.40] in run 1"


def test_the_device_that_waits_calls_for_cuda_graphs_unless_there_are_some():
    run = replace(measured.run(), cuda_graphs=(), cuda_graphs_skipped=())
    assert run.timing is not None
    timing = replace(run.timing, compiled_us=100.0).with_kernels(80.0, 40.0)
    graphs = step(replace(run, timing=timing), "cuda_graphs")
    assert graphs.gain == Gain(None, None, 2.5)
    assert graphs.config is not None
    assert graphs.config.mode == "reduce-overhead"
    skipped = (ev.CudaGraphSkipped(graph="0/0", reason="mutated inputs"),)
    reason = step(replace(run, timing=timing, cuda_graphs_skipped=skipped), "cuda_graphs")
    assert reason.trial is None
    assert "mutated inputs" in evidence(reason, run)
    assert "cuda_graphs" not in actions(replace(measured.run(), timing=timing))


def test_cuda_graphs_in_a_script_save_the_waits_of_its_calls():
    """A step of 500 µs has two calls of 100 µs, whose kernels take 40 µs."""
    run = replace(measured.run(), cuda_graphs=(), cuda_graphs_skipped=())
    assert run.timing is not None
    call = ev.CallExamined(
        region=3, call=2, inputs=(), calls=9, compiles=1, backward=False, held=0,
        timing=replace(run.timing, compiled_us=100.0).with_kernels(80.0, 40.0),
    )  # fmt: skip
    steps = ev.StepsTimed(
        border="region", step="net", steps=90, warm_up=5, eager=30, timed=60,
        regions=(ev.StepRegion(region=3, calls=2.0),),
    )  # fmt: skip
    timing = replace(run.timing, unit="step", compiled_us=500.0)
    script = replace(run, timing=timing, captured_calls=(call,), steps=steps)
    graphs = step(script, "cuda_graphs")
    assert graphs.gain == Gain(None, None, 500 / (500 - 2 * 60))
    assert "60% of a compiled call" in evidence(graphs, script)


def test_recompiles_are_avoided_by_what_was_tried():
    run = recompiling.run()
    change = ev.RecompileChange("mark_dynamic", "x", 0)
    tried = ev.RecompileFixTried(run=run.run, changes=(change,), avoids=("0/1",), graphs_before=4, graphs_after=3)
    steps = [known for known in next_steps(run.apply(tried)) if known.action == "avoid_recompiles"]
    marked = next(known for known in steps if known.config is not None and known.config.mark_dynamic)
    assert marked.config is not None
    assert marked.config.mark_dynamic == ("x.0",)
    assert marked.gain.unit == "seconds"
    assert "4 → 3 compiles" in evidence(marked, run)
    for number, took in ((1, "It took 2.00 s here."), (2, "They took 2.00 s here.")):
        seconds = replace(marked, number=number, gain=Gain(None, None, 2.0, "seconds"))
        assert evidence(seconds, run).endswith(took)


def test_recompiles_that_the_removal_of_a_break_avoids_are_no_step_of_their_own():
    run = fakes.complete()
    (graph_break,) = run.breaks
    assert graph_break.location is not None
    entered = tuple(ev.FrameEntered(graph=graph, frame=graph_break.location, resumed=True) for graph in ("1/1", "1/2"))
    recompiles = tuple(
        ev.Recompiled(
            graph=graph, failed_entry="1/0", failed_guard="___stack0 == 1.5", reason="", old="1.5", new="2.5",
            kind="float", name=name, origin="break",
        )
        for graph, name in (("1/1", "___stack0"), ("1/2", "___stack1"))
    )  # fmt: skip
    compiled = tuple(
        ev.PhaseTimed(name="compile", seconds=2.0, depth=0, graph=graph, at=0.0) for graph in ("1/1", "1/2")
    )
    carried = replace(run, frames=entered, recompiles=recompiles, phase_times=compiled)
    assert "avoid_recompiles" not in actions(carried)
    removal = step(carried, "fix_break")
    assert (removal.recompiles, removal.recompile_s) == (2, 4.0)
    assert "2 recompiles guard a value that crosses the break and took 4.00 s here: " in evidence(removal, carried)
    timed = replace(removal, gain=Gain(0.9, 1.0, 1.1, measured=True))
    assert not timed.gainless, "it avoids recompiles"
    assert gain_span(timed).text == "avoids 2 recompiles (4.00 s); a call [0.90, 1.10]× as fast"
    assert step(run, "fix_break").recompiles == 0
    short = tuple(replace(phase, seconds=0.01) for phase in compiled)
    heavy = replace(product_heavy(), frames=entered, recompiles=recompiles, phase_times=short)
    gain = ev.FixGain(us=0.5, low_us=-5.0, high_us=6.0, call_us=100.0)
    undecided = heavy.apply(
        ev.BreakFix(run=run.run, location=graph_break.location, kind=graph_break.kind, state="verified",
                    name="keep it a tensor", gain=gain, inputs=4)
    )  # fmt: skip
    assert step(undecided, "fix_break").gain.measured
    assert next_steps(undecided)[0].action != "fix_break", "it can save at most 6% of a call"
    shown = [row.text for row in rows(next_document, undecided, width=120)]
    assert any("No step has a certain gain so far: in the order" in text for text in shown)
    long = replace(undecided, phase_times=compiled)
    assert next_steps(long)[0].action == "fix_break", "it avoids recompiles that took 4 s"
    assert any("By the time saved" in row.text for row in rows(next_document, long, width=120))


def test_a_break_whose_value_is_a_constant_of_the_code_after_it_says_so():
    run = fakes.complete()
    (graph_break,) = run.breaks
    entered = ev.FrameEntered(graph="1/0", frame=graph_break.location, resumed=True)
    value = ev.Guard(kind="EQUALS_MATCH", source="L['___stack0']", summary="== 1.5")
    other = ev.Guard(kind="EQUALS_MATCH", source="L['lr']", summary="== 0.1")
    guards = (*run.guards, ev.GuardsInstalled(graph="1/0", guards=(value, other)))
    guarded = replace(run, frames=(entered,), guards=guards)
    text = "The code after it is compiled for its value (== 1.5): another value compiles it again."
    assert text in evidence(step(guarded, "fix_break"), guarded)
    assert text not in evidence(step(run, "fix_break"), run)
    again = ev.GuardsInstalled(graph="1/1", guards=(other,))
    dynamic = replace(guarded, frames=(entered, replace(entered, graph="1/1")), guards=(*guards, again))
    assert text not in evidence(step(dynamic, "fix_break"), dynamic), "the newest entry takes any value"
    opened = frozenset([f"break {break_link(graph_break).where} {break_link(graph_break).name}"])
    shown = " ".join(row.text.strip() for row in rows(breaks_document, guarded, opened, 200))
    assert text in shown

    def tried(*calls: int, line: int = 0, number: int = 3) -> str:
        """Return what is said of these of `number` calls with other values, in which the code compiled again."""
        assert graph_break.location is not None
        frame = replace(graph_break.location, line=line or graph_break.location.line)
        again = tuple(ev.ValueRecompile(frame=frame, call=call, seconds=0.5 * call) for call in calls)
        known = replace(guarded, other_values=ev.OtherValuesTried(calls=number, recompiles=again))
        return evidence(step(known, "fix_break"), known).partition("(== 1.5)")[2]

    others = "3 calls with other inputs of these sizes"
    assert tried(1).startswith(f": the first of {others} compiled it again, in 500 ms; the next did not.")
    assert tried(2).startswith(f": 1 of {others} compiled it again, in up to 1.00 s.")
    assert tried(1, 2, 3).startswith(f": each of {others} compiled it again, in up to 1.50 s.")
    assert tried().startswith(f": another value compiles it again; in {others} the value stayed the same.")
    assert tried(1, 1, 1) == tried(1), "several functions in one call"
    assert tried(1, number=1).startswith(": a call with other inputs of these sizes compiled it again, in 500 ms.")
    assert tried(1, line=99) == tried(), "the code after another break"


@pytest.mark.parametrize(
    ("name", "mark"), [("args[1]", "1.0"), ("kwargs['mask']", "mask.0"), ("x", "x.0"), ("a.b", "")]
)
def test_arguments_have_the_names_of_options(name: str, mark: str):
    fix = RecompileFix("mark_dynamic", name, 0)
    config = recompile_config(fix, ev.Config())
    assert (config.mark_dynamic if config is not None else ()) == ((mark,) if mark else ())


def test_a_script_tries_only_the_arguments_of_its_own_calls():
    run = product_heavy()
    assert run.entry is not None
    script = replace(run, entry=replace(run.entry, kind="script"))
    assert {known.action for known in next_steps(script) if known.trial} == {"mode"}


def test_a_loop_that_calls_torch_compile_may_call_it_once():
    region = ev.RegionCreated(region=0, name="<lambda>", kind="function", location=ev.Location("model.py", 12))
    run = replace(fakes.complete(), regions=(region,))
    made = [ev.RegionCalls(region=0, calls=calls, warm=0, seconds=1.0, made=60) for calls in (59, 600)]
    assert "compile_once" in actions(replace(run, region_calls=(made[0],)))
    assert "compile_once" not in actions(replace(run, region_calls=(made[1],))), "a list of functions"
    known = step(replace(run, region_calls=(made[0],)), "compile_once")
    assert evidence(known, run).startswith("It was called 60 times here.")


def test_a_wrong_result_comes_first():
    run = product_heavy()
    wrong = replace(run, accuracy=replace(run.accuracy, verdict="wrong"))  # type: ignore[type-var]
    assert next_steps(wrong)[0].action == "correct_result"


# ---- gains and order


def fixed(run: Snapshot, saved: float) -> Snapshot:
    """Return a run whose break has a verified fix that saves a share of the call."""
    graph_break = run.breaks[0]
    gain = ev.FixGain(us=100 * saved, low_us=90 * saved, high_us=110 * saved, call_us=100.0)
    return run.apply(
        ev.BreakFix(run=run.run, location=graph_break.location, kind=graph_break.kind, state="verified",
                    name="keep it a tensor", speedup=1 / (1 - saved), gain=gain, inputs=4)
    )  # fmt: skip


def tried(run: Snapshot, action: StepAction, low: float, value: float, high: float, **more: object) -> Snapshot:
    """Return a run in which a step was measured."""
    verdict: ev.TimingVerdict = "faster" if low > 1 else "slower" if high < 1 else "undecided"
    return run.apply(
        ev.StepTried(run=run.run, step=step(run, action).key, speedup=value, low=low, high=high, verdict=verdict,
                     before_us=100.0, after_us=100.0 / value, **more)  # type: ignore[arg-type]
    )  # fmt: skip


def test_a_gap_that_would_be_shown_as_0_is_too_short_to_be_measured():
    run = product_heavy()
    known = step(run, "fix_break")
    assert "The gap takes" in evidence(replace(known, us=3.0, share=0.03), run)
    short = evidence(replace(known, us=0.001, share=0.0), run)
    assert "The gap between the graphs is too short to be measured." in short
    assert "0.00 µs" not in short


def test_a_break_that_no_edit_removes_comes_after_one_with_an_edit():
    run = fakes.complete()
    (second,) = run.breaks
    assert second.location is not None
    first = replace(second, run=run.run, location=replace(second.location, line=75), code="loss = compiled(ids)")
    run = replace(run, call_account=None, breaks=(first, second), break_costs=None, first_break_costs=None)
    assert [known.location for known in next_steps(run)] == [first.location, second.location]
    none = ev.BreakFix(run=run.run, location=first.location, kind=first.kind, state="none", note="no edit")
    run = run.apply(none).apply(replace(none, location=second.location, state="proposed", name="torch.where"))
    assert [known.location for known in next_steps(run)] == [second.location, first.location]


def test_the_head_says_whether_a_gain_is_measured():
    def head(run: Snapshot) -> str:
        return rows(next_document, run, width=100)[2].text

    assert "No gain is measured so far" in head(product_heavy())
    assert "By the time saved in 10,000 calls" in head(tried(product_heavy(), "autocast", 1.5, 1.6, 1.7))
    assert "No step has a certain gain so far." in head(tried(product_heavy(), "autocast", 0.9, 1.0, 1.1))


def test_what_was_tried_without_a_certain_gain_comes_last_in_brief():
    run = tried(tried(product_heavy(), "autocast", 0.2, 0.3, 0.4), "mode", 0.9, 1.0, 1.1)
    lines = [row.text for row in rows(next_document, run, width=100)]
    at = next(index for index, line in enumerate(lines) if "Tried, without a certain gain" in line)
    brief = "\n".join(lines[at:])
    assert "3.33× slower [2.50, 5.00]" in brief
    assert "undecided [0.90, 1.10]" in brief
    assert "A compiled call takes" in brief
    assert "with torch.autocast" not in brief
    assert sum("Tried, without" in line for line in lines) == 1
    assert not any("Tried, without" in row.text for row in rows(next_document, product_heavy(), width=100))


def test_a_step_that_was_tried_in_an_earlier_run_says_so_and_comes_after_untried_ones():
    run = tried(tried(product_heavy(), "autocast", 0.9, 1.0, 1.1), "mode", 1.2, 1.3, 1.4)
    session = Session(runs=(run,)).begin(ev.Job(run=run.run + 1, file=run.file, source=run.source))
    repeated = replace(product_heavy(), tried_before=session.runs[-1].tried_before)
    text = "\n".join(row.text for row in rows(next_document, repeated, width=100))
    assert f"Tried in run {run.run}: undecided [0.90, 1.10]." in text
    session = session.begin(ev.Job(run=run.run + 2, file=run.file, source=run.source + "\n"))
    again = replace(product_heavy(), tried_before=session.runs[-1].tried_before)
    text = "\n".join(row.text for row in rows(next_document, again, width=100))
    assert f"Tried in run {run.run}, before the file changed: undecided [0.90, 1.10]." in text
    assert f"Tried in run {run.run}, before the file changed: 1.30× faster [1.20, 1.40]." in text
    assert actions(again)[-1] == "autocast"
    in_vain = text[text.index("Tried, without a certain gain") :]
    assert "undecided [0.90, 1.10]" in in_vain
    assert "1.30× faster" not in in_vain
    assert short_gain(step(again, "autocast")) == f"no gain in run {run.run}"
    assert gain_span(step(again, "autocast")).text == f"undecided [0.90, 1.10] in run {run.run}"
    assert gain_span(step(again, "mode")).text == f"1.30× faster [1.20, 1.40] in run {run.run}"
    other = session.begin(ev.Job(run=run.run + 3, file="/other.py", source=""))
    assert other.runs[-1].tried_before == ()


def test_a_step_without_gain_in_an_earlier_run_is_not_what_to_do_next():
    run = tried(product_heavy(), "autocast", 0.9, 1.0, 1.1)
    session = Session(runs=(run,)).begin(ev.Job(run=run.run + 1, file=run.file, source=run.source))
    repeated = replace(product_heavy(), tried_before=session.runs[-1].tried_before)
    first = first_step(repeated)
    assert first is not None
    assert first.action != "autocast"
    assert first_step(replace(repeated, breaks=(), call_account=None)) is None
    only = replace(repeated, breaks=(), grad_mode=None)
    assert all(step.earlier is None for step in (first_step(only),) if step is not None)


def test_a_mode_of_the_modes_study_has_that_as_its_reason():
    lite = ev.StepTried(step="mode lite", speedup=0.8, low=0.7, high=0.9, verdict="slower")
    run = product_heavy().apply(replace(lite, run=product_heavy().run))
    reasons = {known.target: evidence(known, run) for known in next_steps(run) if known.action == "mode"}
    assert reasons["lite"].startswith("The study of modes timed it")
    assert "in library calls" in reasons["max-autotune"]


def test_a_program_that_is_worth_compiling_only_after_a_fix_says_so():
    def text(gain: float, value: float) -> str:
        run = fixed(fakes.complete(), gain)
        assert run.timing is not None
        timing = replace(run.timing, speedup=value, low=value - 0.05, high=value + 0.05, verdict="slower")
        return "\n".join(row.text for row in rows(next_document, replace(run, timing=timing), width=100))

    assert "With step 1, it would be about 2.50× as fast as eager" in text(0.8, 0.5)
    assert "With step 1" not in text(0.2, 0.5), "it is still slower"


def test_the_list_begins_with_whether_to_compile_at_all():
    def first(calls: int | None) -> str:
        return rows(next_document, replace(fakes.complete(), expected_calls=calls), width=100)[0].text

    assert first(None).startswith(" Break-even: ~19,800 calls.")
    assert first(400).startswith(" Not worth compiling for 400 calls: net loss ")
    assert first(1_000_000).startswith(" Worth compiling for 1,000,000 calls")


def two_broken_lines(*fixed: str) -> Snapshot:
    """Return a run with two breaks, and a proposed fix for those with a name."""
    run = fakes.complete()
    (first,) = run.breaks
    second = replace(first, location=ev.Location(run.file, 3, "forward"), code="y.item()")
    run = replace(run, breaks=(first, second))
    for known, name in zip(run.breaks, fixed, strict=False):
        run = run.apply(
            ev.BreakFix(
                run=run.run, location=known.location, kind=known.kind, state="proposed", name=name,
                code="a = 1\nb = 2\nc = 3\nd = 4\ne = 5",
            )
        )  # fmt: skip
    return run


def test_all_breaks_together_are_a_step_if_several_have_a_fix():
    assert "fix_breaks" not in actions(two_broken_lines("one"))
    run = two_broken_lines("one", "two")
    together = step(run, "fix_breaks")
    assert (together.number, together.trial) == (2, "fixes")
    assert evidence(together, run).startswith("Each has a fix: ")
    assert "fix_breaks" not in actions(replace(run, trace="rank 0")), "nothing can be tried in a trace"
    run = run.apply(ev.StepTried(run=run.run, step=together.key, fixes=(1, 2), speedup=1.5, low=1.4, high=1.6))
    assert "1 of 2 fixes are verified, each on top of those before." in list(results(step(run, "fix_breaks"), run))


def test_a_fix_of_several_lines_is_shown_with_them():
    code = [row.text.strip() for row in rows(next_document, two_broken_lines("one"), width=100)]
    assert code[code.index("a = 1") :][:4] == ["a = 1", "b = 2", "c = 3", "… 2 more lines"]


def test_a_step_that_cannot_be_tried_in_a_script_says_so_in_the_list():
    entry = ev.EntryFound(run=1, name="__main__", kind="script", rule="", calls=())
    script = replace(product_heavy(), entry=entry)
    assert script.is_script
    told = list(results(step(script, "autocast"), script))
    assert told == ["It cannot be tried here: the script calls torch.compile itself."]
    assert not list(results(step(product_heavy(), "autocast"), product_heavy()))
    marked = replace(step(script, "autocast"), action="avoid_recompiles")
    assert why_not_tried(marked, script).endswith("; S W tries it on calls of one region")


def test_measured_gains_come_first_and_steps_without_gain_last():
    run = tried(fixed(product_heavy(), 0.2), "autocast", 1.5, 1.6, 1.7)
    assert actions(run)[:2] == ["autocast", "fix_break"]
    assert actions(tried(run, "mode", 0.8, 0.9, 0.95))[-1] == "mode"


def test_the_trial_of_a_step_in_two_processes_says_what_its_ratio_is_of():
    def texts(**more: object) -> str:
        run = tried(product_heavy(), "autocast", 1.5, 1.6, 1.7, **more)
        return " ".join(results(step(run, "autocast"), run))

    assert "compared over eager: 2.00× with it, 1.25× without" in texts(speedups=(1.25, 2.0))
    assert "over eager" not in texts()


def test_the_gain_of_a_fix_has_the_interval_of_its_pairs():
    assert ends(step(fixed(product_heavy(), 0.2), "fix_break")) == pytest.approx((1 / 0.82, 1.25, 1 / 0.78))


def test_guards_bound_the_gain_of_a_filter():
    gain = step(product_heavy(), "guard_filter").gain
    assert not gain.measured
    assert (gain.low, gain.value) == (1.0, None)
    assert gain.high == pytest.approx(1 / (1 - 0.11), rel=1e-3)


def test_the_most_that_a_step_could_save_orders_those_that_are_not_measured():
    assert actions(product_heavy())[-2:] == ["guard_filter", "fix_break"]


def test_seconds_and_speedups_are_compared_over_the_expected_calls():
    run = fakes.complete()
    slow = tuple(replace(phase, seconds=40 * phase.seconds) for phase in run.phase_times)
    run = replace(run, phase_times=slow).apply(ev.RepeatedBlocks(run=run.run, kinds=(("Block", 12),)))
    blocks = ev.StepTried(run=run.run, step=step(run, "compile_blocks").key, saved_compile_s=(20.0, 30.0),
                          compile_s=(40.0, 15.0))  # fmt: skip
    run = fixed(run.apply(blocks), 0.2)
    few, many = (replace(run, expected_calls=calls) for calls in (10, 100_000_000))
    assert [action for action in actions(few) if action != "run_eagerly"][:2] == ["compile_blocks", "fix_break"]
    assert actions(many)[:2] == ["fix_break", "compile_blocks"]


def test_gains_as_text():
    assert describe_gain(Gain(1.25, 1.31, 1.38, measured=True)) == "1.31× faster [1.25, 1.38]"
    assert describe_gain(Gain(0.9, 1.1, 1.3, measured=True)) == "no certain gain [0.90, 1.30]"
    assert describe_gain(Gain(0.79, 0.9, 0.95, measured=True)) == "1.11× slower [1.05, 1.27]"
    assert describe_gain(Gain(None, None, 1.4)) == "not measured, at most 1.40×"
    assert describe_gain(Gain(None, None, 3.2, "seconds")) == "not measured, at most 3.20 s"
    assert describe_gain(Gain(2.0, 2.5, 3.0, "seconds", measured=True)) == "saves 2.50 s [2.00 s, 3.00 s]"
    assert describe_gain(Gain(-1.0, 0.5, 3.0, "seconds", measured=True)) == "no certain gain [-1.00 s, 3.00 s]"
    assert describe_gain(Gain(None, None, None)) == "not measured"


def test_an_undecided_trial_is_not_called_without_gain():
    run = tried(product_heavy(), "autocast", 0.9, 1.1, 1.3)
    assert gain_span(step(run, "autocast")).text == "undecided [0.90, 1.30]"


def test_a_trial_that_fails_says_why():
    run = product_heavy()
    failed = run.apply(ev.StepTried(run=run.run, step=step(run, "mode").key, problem="RuntimeError: no such mode"))
    assert list(results(step(failed, "mode"), failed)) == ["Tried: RuntimeError: no such mode"]
    assert gain_span(step(failed, "mode")).text == "cannot be measured"
    assert actions(failed)[-1] == "mode"


def test_results_that_change_are_a_warning():
    checked = ev.ChangeChecked(verdict="not close to eager", max_abs=0.0067, max_rel=0.0011, calls=1)
    run = tried(product_heavy(), "autocast", 1.5, 1.6, 1.7, results=checked)
    text = "\n".join(row.text for row in rows(next_document, run, width=120))
    assert "by up to 0.0067 (0.0011 of the largest value)" in text
    assert "! The results change: check your metric." in text


# ---- the views


def measured_list() -> Snapshot:
    checked = ev.ChangeChecked(verdict="not close to eager", max_abs=0.0067, max_rel=0.0011, calls=1)
    return tried(fixed(product_heavy(), 0.2), "autocast", 1.5, 1.6, 1.7, results=checked)


def test_next_view():
    text = [golden.text(next_document(measured_list(), width=width)) for width in (78, 48)]
    golden.check("view-next", "\n== 48 columns\n".join(text))


def test_nothing_is_to_do_only_once_the_parts_of_a_call_are_known():
    unknown = replace(fakes.complete(), breaks=(), recompiles=(), phase_times=(), call_account=None)
    known = replace(unknown, call_account=call_account(ev.CallProfiled(total_us=100.0, repeats=5, parts=()), None))
    shown = [[row.text for row in rows(next_document, run, width=80)] for run in (unknown, known)]
    assert " nothing to do so far" in shown[0]
    assert " ✔ nothing to do " in shown[1]


def test_the_break_even_point_has_the_reservation_that_caches_were_warm():
    cold = fakes.complete()
    warm = replace(cold, phase_times=())
    shown = [" ".join(row.text.strip() for row in rows(next_document, run, width=80)) for run in (warm, cold)]
    assert ["a cold compile takes longer" in text for text in shown] == [True, False]


@pytest.mark.parametrize("run", [fakes.complete, fakes.running, fakes.failed, fakes.nothing_compiled, measured_list])
def test_rows_are_single_stable_lines_in_known_styles(run):  # noqa: ANN001
    require_stable_rows(next_document(run(), width=60))


def test_the_report_names_no_key():
    assert not any(row.keys_only for row in next_rows(measured_list(), 78))


def test_the_verdict_line_has_the_first_step():
    assert "next (a): bfloat16 autocast  1.60× faster" in verdict_row(fakes.session(measured_list()), 200).text
    assert "fix ready (h): 1.2× faster than now" in verdict_row(fakes.session(fixed(product_heavy(), 0.2)), 200).text
    assert "next (a): " in verdict_row(fakes.session(product_heavy()), 200).text


def test_the_verdict_line_has_no_step_without_gain():
    run = fakes.one_graph()
    assert "next (" not in verdict_row(fakes.session(run), 200).text


def test_the_first_run_names_the_page_to_share_once():
    first, second = fakes.complete(1), fakes.complete(2)
    assert "export HTML" in history_row(fakes.session(first), 160).text
    assert "export HTML" not in history_row(fakes.session(first, second), 160).text
    assert "export HTML" not in history_row(fakes.session(fakes.running(1)), 160).text
    assert "export HTML" not in history_row(fakes.session(first), 40).text
