"""The fix study as text and JSON, and its command line."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from tcexplore import events as ev
from tcexplore.cli.arguments import parse
from tcexplore.fixes.proposals import proposals
from tcexplore.fixes.verification import Verification
from tcexplore.studies.fix import STUDY, AttemptedFix, FixedFiles, FixOptions, FixTarget, break_fix, fix_target
from tcexplore.studies.study import StudyState
from tests.fixes.verifications import BEFORE, FILE, GRAPH, ITEM, SAME, TEXT, broken, run, verification
from tests.studies.playback import JOB, json_of, played, printed

TIMED = ev.ChangeTimed(before_us=200, after_us=100, speedup=2.0, low=1.9, high=2.1, verdict="faster", pairs=20)


def state() -> StudyState[Any, Any]:
    """Return a study of a break with a verified fix, one with a failing fix and one without fixes."""
    still = Verification(proposals(FILE, TEXT, 5, ITEM)[0], BEFORE.breaks[1], BEFORE, run(GRAPH, broken(5, ITEM), SAME))
    results = [
        BEFORE,
        AttemptedFix(1, BEFORE.breaks[0], "", verification(broken(6, ITEM), SAME, TIMED)),
        AttemptedFix(2, BEFORE.breaks[1], "", still),
        AttemptedFix(3, broken(9, "no such kind"), ""),
    ]
    return StudyState(replace(JOB, file=FILE, source=TEXT), FixOptions(), results=results, over=True)


def test_the_text_has_diff_and_verification_and_says_that_nothing_was_written():
    report = printed("fix", state(), 160)
    for sentence in (
        "✔ verified on 4 inputs: breaks 2 → 1, outputs bit-identical, 2.00× faster than before",
        "in eager calls only", "if not torch.compiler.is_compiling():", "2 graph breaks before, 1 now",
        "200 µs before, 100 µs now: 2.00× [1.90, 2.10], faster", "not verified: the break is still there",
        "No known change of these lines", "1 of 3 breaks with a verified fix", "nothing is written without --write",
        "Verification in a separate process",
    ):  # fmt: skip
        assert sentence in " ".join(report.split()), report
    assert "press" not in report


def test_the_fixes_are_shown_although_the_time_limit_ended_the_unmodified_file():
    late = ev.Failed(run=1, stage="timing", blame="user", type=ev.TIMEOUT, message="not finished after 10 s")
    tried = state()
    tried.results[0] = BEFORE.apply(late)
    report = " ".join(printed("fix", tried, 160).split())
    assert "✖ Timeout: not finished after 10 s" in report
    assert "1 of 3 breaks with a verified fix" in report
    tried.results[1:] = []
    assert "with a verified fix" not in printed("fix", tried, 160)


def test_the_reason_why_no_fix_of_a_break_could_be_tried_is_shown():
    """In a script whose region has no captured call, torch's advice is not what is missing."""
    reason = "No call of its region could be captured, so that no fix can be verified"
    target = FixTarget(BEFORE, BEFORE.breaks[1], proposals(FILE, TEXT, 5, ITEM), "")
    job = replace(JOB, file=FILE, source=TEXT)
    results = [AttemptedFix(1, target.graph_break, reason)]
    tried: StudyState[Any, Any] = StudyState(job, FixOptions(target=target), results=results, over=True)
    document = STUDY.document(tried, 120)
    assert reason in "\n".join(document.row(index).text for index in range(len(document)))
    fix = break_fix(BEFORE, target, tried)
    assert (fix.state, fix.note) == ("refused", reason)


def test_a_fix_that_was_to_be_written_but_was_not_is_an_exit_status():
    """The model file was removed meanwhile."""
    verified = replace(state(), options=FixOptions(write=True))
    verified.results = verified.results[:2]
    assert "cannot be read" in STUDY.write(verified)
    assert STUDY.exit_status(verified) == 1
    verified.written = (FILE,)
    assert STUDY.exit_status(verified) == 0


def test_a_study_that_is_stopped_before_it_wrote_names_the_verified_fixes():
    stopped = replace(state(), options=FixOptions(write=True), stopped=True)
    assert STUDY.write(stopped) == "stopped before a file was written; to write a verified fix: --break 1 --write"
    assert not stopped.written
    report = " ".join(printed("fix", stopped, 160).split())
    assert "verified and not written: line 4 (" in report
    assert "nothing is written without --write" not in report
    lines = [STUDY.result_line(result) for result in stopped.results]
    assert [line for line in lines if line] == ["break 1 at line 4: in eager calls only: verified"]


def test_the_json_has_every_attempt():
    fields = json.loads(json.dumps(json_of("fix", state())))
    assert fields["study"] == "fix"
    assert [one["fixed"] for one in fields["breaks"]] == [True, False, False]
    first = fields["breaks"][0]["fixes"][0]
    assert (first["verified"], first["inputs"], first["objection"], first["speed"]["speedup"]) == (True, 4, None, 2.0)
    assert fields["breaks"][1]["fixes"][0]["objection"] == "the break is still there"
    costs = [one["cost"] for one in fields["breaks"]]
    assert costs[1:] == [None, None]
    assert (costs[0]["us"], costs[0]["basis"]) == (100.0, "verified fix")
    assert costs[0]["low_us"] < 100.0 < costs[0]["high_us"]
    assert STUDY.exit_status(state()) == 1


def test_a_refused_fix_has_no_advice_beside_it():
    files = FixedFiles(replace(JOB, file=FILE, source=TEXT))
    tried, untried = BEFORE.breaks[1], broken(5, "Data-dependent branching")
    refused = Verification(files.changes(tried)[0], tried, BEFORE, run(GRAPH, tried, SAME))
    attempts = [
        AttemptedFix(1, tried, fix_target(files, BEFORE, tried).advice, refused),
        AttemptedFix(2, untried, fix_target(files, BEFORE, untried).advice),
    ]
    of_both = replace(state(), results=[BEFORE, *attempts])
    advices = [one["advice"] for one in json_of("fix", of_both)["breaks"]]
    assert advices[0] is None
    assert "No edit is made" in advices[1]
    assert printed("fix", of_both, 160).count("No edit is made") == 1


async def test_breaks_that_the_budget_left_out_are_named_and_are_no_success():
    job = replace(JOB, file=FILE, source=TEXT)

    def story(of: ev.Job) -> list[ev.Event]:
        return [] if of.baseline else [GRAPH, broken(4), broken(5, ITEM), ev.Finished()]  # a fix never ends

    state, _ = await played("fix", story, job=job, budget_s=0.2)
    assert [step.partition(":")[0] for step in json_of("fix", state)["skipped"]] == [
        "break 1, line 4",
        "break 2, line 5",
    ]
    assert STUDY.exit_status(state) == 1
    report = " ".join(printed("fix", state).split())
    assert "0 breaks with a verified fix; not all breaks were tried" in report
    assert "not tried to the end: break 2, line 5" in report
    one, _ = await played("fix", story, FixOptions(number=2), job, budget_s=0.2)
    assert [step.partition(":")[0] for step in one.skipped] == ["break 2, line 5"]
    nothing, _ = await played("fix", lambda _: [], job=job, budget_s=0.1)
    assert (nothing.skipped, STUDY.exit_status(nothing)) == (("unmodified file",), 1)


def test_the_command_line_selects_a_break_and_writing():
    request = parse(["fix", "model.py", "--break", "2", "--write", "--train"])
    assert (request.command, request.study, request.config.train) == ("fix", FixOptions(2, True), True)
    assert parse(["fix", "model.py"]).study == FixOptions()
