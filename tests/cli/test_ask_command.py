"""`ask` and `check --select`, with a fake supervisor that replays events."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tcexplore import events as ev
from tests.cli.conftest import BREAK, DONE, ENTRY, GRAPH, THEIRS, Check, Playback


def ask(check: Check, *story: ev.Event, words: tuple[str, ...] = ()) -> int:
    return check(*story, command="ask", arguments=("model.py", "--no-session", *words))


def test_a_question_is_answered_briefly(check: Check, capsys: pytest.CaptureFixture[str]):
    assert ask(check, ENTRY, GRAPH, BREAK, DONE, words=("breaks",)) == 0
    out, err = capsys.readouterr()
    assert "breaks: 1\n- b-" in out
    assert "reason: it prints" in out
    assert err == ""


def test_options_may_stand_between_the_words(check: Check, capsys: pytest.CaptureFixture[str]):
    assert ask(check, ENTRY, GRAPH, BREAK, DONE, words=("--json", "guards", "--line", "3")) == 0
    assert json.loads(capsys.readouterr().out)["question"] == "guards"


def test_a_question_about_the_structure_measures_nothing(check: Check):
    made = []
    for words in (("breaks",), ("summary",), ("summary", "--quick")):
        ask(check, ENTRY, DONE, words=words)
        made += [(job.structure_only, job.time_for) for job in Playback.jobs]
    assert made == [(True, 0.0), (False, 3.0), (True, 0.0)]


def test_a_recompile_check_asks_the_program(check: Check, capsys: pytest.CaptureFixture[str]):
    frame = ev.FrameAnswer(frame=ev.Location("/tmp/model.py", 3, "forward"), number="0", verdict="recompiles")
    known = ev.RecompileAnswer(run=1, number=1, inputs=("f32[33, 512]",), frames=(frame,))
    assert ask(check, ENTRY, GRAPH, known, DONE, words=("recompile", "f32[33, 512]")) == 0
    assert Playback.jobs[0].recompile_queries == ("f32[33, 512]",)
    assert "would_recompile: yes" in capsys.readouterr().out


def test_a_bad_question_exits_2_before_a_run(check: Check, capsys: pytest.CaptureFixture[str]):
    assert ask(check, ENTRY, DONE, words=("brakes",)) == 2
    assert "there is no question 'brakes'" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        ask(check, ENTRY, DONE, words=("--max-tokens", "-1"))
    assert Playback.jobs == []


def test_the_help_lists_the_questions(check: Check, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        check(command="ask", arguments=("--help",))
    assert "why-not-fused [A B]" in capsys.readouterr().out


def test_a_missing_report_exits_2(check: Check, capsys: pytest.CaptureFixture[str]):
    assert ask(check, ENTRY, DONE, words=("diff", "--against", "gone.json")) == 2
    assert "gone.json" in capsys.readouterr().err


def test_an_unknown_id_exits_2_and_names_the_known_ones(check: Check, capsys: pytest.CaptureFixture[str]):
    assert ask(check, ENTRY, GRAPH, BREAK, DONE, words=("breaks", "b-000000000")) == 2
    assert "problem: there is no break 'b-000000000': b-" in capsys.readouterr().out


def test_a_failed_run_is_answered_with_its_error(check: Check, capsys: pytest.CaptureFixture[str]):
    assert ask(check, ENTRY, THEIRS, words=("breaks",)) == 2
    assert "ZeroDivisionError" in capsys.readouterr().out


def test_a_saved_report_answers_and_is_compared_with(check: Check, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    check(ENTRY, GRAPH, BREAK, DONE, arguments=("model.py", "--json"))
    (tmp_path / "report.json").write_text(capsys.readouterr().out)
    assert check(command="ask", arguments=("report.json", "breaks")) == 0
    assert "reason: it prints" in capsys.readouterr().out
    assert check(command="ask", arguments=("report.json", "recompile", "f32[3]")) == 2
    assert "name the model file" in capsys.readouterr().err
    assert ask(check, ENTRY, GRAPH, DONE, words=("diff", "--against", "report.json")) == 0
    assert "breaks: 1 → 0" in capsys.readouterr().out


def test_a_report_of_another_schema_is_refused(check: Check, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "report.json").write_text(json.dumps({"schema": 1}))
    assert check(command="ask", arguments=("report.json", "breaks")) == 2
    assert "has schema 1" in capsys.readouterr().err


def test_selected_keys_are_printed_compactly(check: Check, capsys: pytest.CaptureFixture[str]):
    arguments = ("model.py", "--select", "breaks,status")
    place = replace(BREAK, location=ev.Location("/tmp/model.py", 3, "f"))
    assert check(ENTRY, GRAPH, place, DONE, arguments=arguments) == 0
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    known = json.loads(out)
    assert (list(known), known["breaks"][0]["reason"], known["status"]) == (["breaks", "status"], "it prints", "ok")


def test_a_quick_check_asks_for_the_structure_only(check: Check):
    check(ENTRY, DONE, arguments=("model.py", "--quick"))
    (job,) = Playback.jobs
    assert (job.structure_only, job.time_for, job.try_recompile_fixes) == (True, 0.0, False)
