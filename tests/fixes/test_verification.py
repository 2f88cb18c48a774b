"""Verification of fixes, with prepared runs."""

from __future__ import annotations

import ast
from dataclasses import replace

import pytest

from tcexplore import events as ev
from tcexplore.fixes.proposals import proposals
from tcexplore.fixes.verification import ScriptSteps, Verification, facts, speed_text, summary_fact
from tcexplore.studies.fix import BreakView, break_document
from tests.fixes.verifications import FILE, GRAPH, GUARDED, ITEM, KIND, SAME, TEXT, broken, run, verification


def test_other_breaks_are_recognized_on_the_lines_that_they_moved_to():
    result = verification(broken(6, ITEM), SAME)
    assert (result.objection, result.verified, result.new, result.remaining) == ("", True, (), ())


@pytest.mark.parametrize(
    ("events", "why"),
    [
        ((broken(5), broken(6, ITEM), SAME), "still there"),
        ((broken(3, ITEM), SAME), "another break at line 3"),
        ((broken(6, ITEM),), "could not be compared"),
        ((ev.ChangeChecked(verdict="not judged", reason="it is too large"),), "it is too large"),
        ((ev.ChangeChecked(verdict="wrong", max_abs=0.5),), "differ from the original: by up to 0.5"),
        ((ev.ChangeChecked(verdict="wrong", differences=("output is 1",)),), "output is 1"),
        ((SAME, ev.Accuracy(verdict="wrong")), "compiled is wrong now"),
        ((replace(SAME, unreached=("`y > 0` never holds",)),), "a branch could not be tried: `y > 0` never holds"),
        ((ev.Failed(stage="eager", blame="user", type="NameError", message="no y\nhere"),), "NameError: no y"),
    ],
)
def test_a_fix_that_does_not_hold_has_an_objection(events: tuple[ev.Event, ...], why: str):
    result = verification(*events)
    assert why in result.objection
    assert not result.verified
    assert "bad" in {fact.state for fact in facts(result)}


def test_a_rounding_names_its_tensor_and_how_large_that_is():
    rounded = ev.ChangeChecked(
        verdict="close to eager", max_abs=0.014, max_rel=3.2e-7, tensor="gradient of fc1.weight", calls=1
    )
    texts = [fact.text for fact in facts(verification(rounded))]
    assert any("(gradient of fc1.weight by up to 0.014, 3.2e-07 of its largest value)" in t for t in texts)


def test_a_fix_is_not_verified_before_results_are_compared():
    result = verification(ev.PhaseStarted(phase="comparing", at=1.0), over=False)
    assert (result.objection, result.verified) == ("", False)
    assert [fact.state for fact in facts(result)] == ["ok", "wait", "wait"]


def test_nothing_is_awaited_of_a_fix_that_does_not_hold():
    """Its run ends there: a row that still compares, or times, would do so for ever."""
    result = verification(broken(5), over=False)
    assert result.objection == "the break is still there"
    assert "wait" not in {fact.state for fact in facts(result)}


def test_the_summary_follows_the_run():
    timed = ev.ChangeTimed(before_us=200, after_us=100, speedup=2.0, low=1.9, high=2.1, verdict="faster", pairs=20)
    rest = broken(6, ITEM)
    assert summary_fact(verification(over=False)) == ("wait", "verifying: running the changed file")
    assert summary_fact(verification(rest, ev.Accuracy(verdict="identical"), over=False)) == (
        "wait", "verifying: breaks 2 → 1, comparing the results",
    )  # fmt: skip
    compared = ev.ChangeCompared(inputs=3, planned=5, mode="as configured")
    assert summary_fact(verification(rest, ev.PhaseStarted(phase="comparing", at=1.0), compared, over=False)) == (
        "wait", "verifying: breaks 2 → 1, comparing the results: equal on 3 of 5 inputs so far",
    )  # fmt: skip
    training = ev.ChangeCompared(inputs=5, planned=5, mode="training mode with gradients")
    text = "comparing the results: equal on 5 of 5 inputs so far, now in training mode with gradients"
    assert ("wait", text) in list(facts(verification(rest, training, over=False)))
    assert summary_fact(verification(rest, SAME, over=False)) == (
        "ok", "verified on 4 inputs: breaks 2 → 1, outputs bit-identical, timing both",
    )  # fmt: skip
    assert summary_fact(verification(rest, SAME, timed)) == (
        "ok",
        "verified on 4 inputs: breaks 2 → 1, outputs bit-identical, 2.00× faster than before",
    )
    undecided = replace(timed, verdict="undecided")
    assert summary_fact(verification(rest, SAME, undecided)).text.endswith("outputs bit-identical, speed undecided")
    loaded = replace(timed, cores=2, busy_cores=1.5)
    assert speed_text(loaded).endswith("2.00× [1.90, 2.10], faster while other programs use 1.5 of 2 cores")
    assert speed_text(replace(timed, cores=2, busy_cores=0.1)).endswith("[1.90, 2.10], faster")
    assert summary_fact(verification(rest, SAME, loaded)).text.endswith("while other programs use 1.5 of 2 cores")
    assert summary_fact(verification(broken(5), rest, SAME)) == ("bad", "not verified: the break is still there")


def test_a_break_that_a_skipped_function_hid_is_not_new():
    skipped = ev.FrameSkipped(frame=ev.Location(FILE, 2, "f"), reason="it breaks")
    before = run(GRAPH, broken(4), skipped, ev.Finished())
    result = Verification(GUARDED, before.breaks[0], before, run(GRAPH, broken(6, ITEM), SAME, ev.Finished()))
    assert (result.verified, len(result.uncovered)) == (True, 1)


def test_only_a_fix_with_the_same_results_has_merely_an_untested_branch():
    unreached = replace(SAME, unreached=("`y > 0` never holds",))
    assert verification(unreached).branch_untested
    assert not verification(replace(unreached, verdict="wrong", max_abs=0.5)).branch_untested
    assert not verification(unreached, ev.Accuracy(verdict="wrong")).branch_untested


def test_a_fix_that_replaces_branches_says_that_all_of_them_ran():
    change = verification().change
    branch = ast.parse("a if y > 0 else b", mode="eval").body
    assert isinstance(branch, ast.IfExp)
    with_branch = replace(change, fix=replace(change.fix, tests=(branch,)))
    unreached = replace(SAME, unreached=("`y > 0` never holds",))
    for tried, checked, says in ((with_branch, SAME, True), (with_branch, unreached, False), (change, SAME, False)):
        texts = [fact.text for fact in facts(replace(verification(checked), change=tried))]
        assert any("some meet each replaced condition and some do not" in text for text in texts) == says


def test_the_times_of_a_few_steps_are_no_argument_for_a_fix():
    steps = ScriptSteps(steps=8, losses=8, identical=True, judged=True, before_us=5e4, after_us=6.4e4)
    known = list(facts(replace(verification(SAME), steps=steps)))
    assert ("ok", steps.text) in known
    assert ("note", steps.time) in known
    assert "50.0 ms before, 64.0 ms now" in steps.time


def test_a_fix_after_which_the_line_breaks_for_another_reason_is_not_verified():
    skipped = ev.FrameSkipped(frame=ev.Location(FILE, 2, "f"), reason="it breaks")
    before = run(GRAPH, broken(5, ITEM), skipped, ev.Finished())
    flag = next(fix for fix in proposals(FILE, TEXT, 5, ITEM) if fix.fix.name == "set capture_scalar_outputs")
    after = run(GRAPH, broken(7, "Data-dependent branching"), SAME, ev.Finished())
    assert [flag.line_before(line) for line in (5, 7)] == [3, 5]
    assert Verification(flag, before.breaks[0], before, after).objection.startswith("line 5 still breaks: ")
    both = run(GRAPH, broken(5, ITEM), broken(5, "Data-dependent branching"), skipped, ev.Finished())
    assert Verification(flag, both.breaks[0], both, after).verified


def test_a_run_that_took_too_long_says_nothing_of_the_fix():
    before = run(GRAPH, broken(4), ev.Finished())
    late = ev.Failed(stage="dynamo", blame="compiler", type=ev.TIMEOUT, message="not finished after 180 s")
    result = Verification(GUARDED, before.breaks[0], before, run(late))
    assert result.objection == "not finished after 180 s, so it is not known whether it helps"


def test_a_fix_whose_results_are_the_same_stays_verified_if_the_time_limit_ends_its_timing():
    late = ev.Failed(stage="comparing", blame="compiler", type=ev.TIMEOUT, message="not finished after 282 s")
    result = verification(SAME, late)
    assert result.verified
    assert ("note", "not timed: not finished after 282 s") in facts(result)
    assert "verified on" in summary_fact(result).text
    first = ev.ChangeTimed(before_us=2.0, after_us=1.0, speedup=2.0, low=1.0, high=4.0, verdict="measuring", pairs=1)
    for ended in (result, verification(SAME, first, late)):
        assert ended.not_timed == "not timed: not finished after 282 s"
        assert "measuring" not in " ".join(fact.text for fact in (*facts(ended), summary_fact(ended)))
    differs = replace(SAME, verdict="wrong")
    assert "differ from the original" in verification(differs, late).objection
    killed = replace(late, type="killed")
    assert "the changed file fails" in verification(SAME, killed).objection


def test_a_fix_that_must_print_is_verified_to_print():
    later = proposals(FILE, TEXT, 4, KIND)[0]
    before = run(GRAPH, broken(4), ev.Output(stream="stdout", text="a\na\n"), ev.Finished())
    after = run(GRAPH, SAME, ev.Output(stream="stdout", text="a\n"), ev.Finished())
    assert "does not print everything" in Verification(later, before.breaks[0], before, after).objection
    assert Verification(GUARDED, before.breaks[0], before, run(GRAPH, SAME, ev.Finished())).verified


def test_the_change_is_shown_before_its_verification_begins():
    """For a script, a run of the region alone comes first, which takes as long as its compile."""
    known = verification(SAME)
    change = known.change
    view = BreakView(known.graph_break, FILE, waiting=True, proposed=change, step="break 1: net alone")
    document = break_document(view, 100)
    text = "\n".join(document.row(index).text for index in range(len(document)))
    assert all(line in text for line in change.code.splitlines())
    assert "Not verified yet. Under way: break 1: net alone." in text


def test_a_large_difference_that_counts_as_rounding_has_a_reason():
    """With weights that reach a branch, one rounding may grow to any size."""
    close = replace(SAME, verdict="close to eager", max_abs=0.014, tensor="gradient of norm2.weight")

    def of(max_rel: float) -> dict[str, str]:
        """Return the facts that name the gradient, by their state."""
        known = facts(verification(replace(close, max_rel=max_rel)))
        return {fact.state: fact.text for fact in known if "norm2" in fact.text}

    assert of(1.4) == {
        "note": "Sensitive: gradient of norm2.weight by up to 0.014, 1.4 of its largest value; a rounding grows to "
        "this there, with the fix or without: with other roundings, the original differs about as much from itself"
    }
    assert of(3e-7).keys() == {"ok"}
