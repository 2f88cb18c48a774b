"""Answers to the questions of `tcexplore ask`, from the report of a run."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tcexplore.answers.answer import CHARS_PER_TOKEN, Answer, render
from tcexplore.answers.questions import EXPLAINED, QUESTIONS, Asked, QuestionError, answer, asked_of
from tcexplore.report.json_report import report
from tcexplore.session import Snapshot
from tests import fakes
from tests.report.whole_report import MACHINE, everything
from tests.snapshots import recompiling

COMMAND = "tcexplore ask model.py kernels"


def whole(run: Snapshot) -> dict[str, Any]:
    report_: dict[str, Any] = json.loads(json.dumps(report(run, MACHINE)))
    return report_


def text(run: Snapshot, *words: str, line: int | None = None, max_tokens: int = 2000) -> str:
    return render(answer(whole(run), asked_of(words, line)), COMMAND, as_json=False, max_tokens=max_tokens)


def fields(run: Snapshot, *words: str, line: int | None = None, slowest: int | None = None) -> dict[str, Any]:
    known = answer(whole(run), asked_of(words, line, slowest))
    printed: dict[str, Any] = json.loads(render(known, COMMAND, as_json=True, max_tokens=0))
    return printed


@pytest.mark.parametrize("name", list(QUESTIONS))
@pytest.mark.parametrize("run", [fakes.complete(6), fakes.complete(7), fakes.failed(4), fakes.nothing_compiled(5)])
def test_every_question_has_an_answer_for_every_run(name: str, run: Snapshot):
    words = {"show": ("b-000000000",), "line": ("23",), "recompile": ("f32[4]",)}.get(name, ())
    known = answer(whole(run), Asked(name, words, line=23 if name == "line" else None))
    for as_json in (False, True):
        assert len(render(known, COMMAND, as_json=as_json)) <= 2000 * CHARS_PER_TOKEN


@pytest.mark.parametrize("name", list(QUESTIONS))
def test_an_answer_reads_only_the_keys_that_its_question_names(name: str):
    run = everything()
    part = json.loads(json.dumps(report(run, MACHINE, keys=QUESTIONS[name].keys)))
    assert set(part) == QUESTIONS[name].keys
    asked = Asked(name, ("f32[4]",) if name == "recompile" else ())
    assert answer(part, asked) == answer(whole(run), asked)


def test_a_break_has_its_reason_fix_and_id():
    (broken,) = fields(fakes.complete(6), "breaks")["breaks"]
    assert {"id", "where", "code", "reason"} <= set(broken)
    (more,) = fields(fakes.complete(6), broken["id"])["breaks"]
    assert more["registry_id"] == "GB0059"
    assert "stack" in more or "hints" in more


def test_the_slowest_kernels_come_first():
    kernels = fields(everything(), "kernels", slowest=2)["kernels"]
    times = [kernel.get("us", 0) for kernel in kernels]
    assert times == sorted(times, reverse=True)
    assert len(kernels) <= 2


def test_a_kernel_is_found_by_id_name_and_part_of_either():
    kernel = next(k for k in whole(fakes.complete(7))["kernels"] if k["language"] != "extern")
    for word in (kernel["id"], kernel["name"], kernel["id"][:6]):
        (known,) = fields(fakes.complete(7), "kernels", word)["kernels"]
        assert known["id"] == kernel["id"]
        assert known["source"] == kernel["source"]


def test_an_unknown_name_is_answered_with_the_known_ones():
    said = text(fakes.complete(7), "kernels", "nothing_like_this")
    assert "there is no kernel 'nothing_like_this'" in said
    assert "k-" in said


def test_two_kernels_have_the_reason_of_the_fusion_view():
    run = fakes.complete(7)
    first, second = [kernel["id"] for kernel in whole(run)["kernels"]][:2]
    known = fields(run, "why-not-fused", first, second)
    assert known["reasons"]
    assert known["a"].startswith(first)


def test_a_line_has_its_ops_kernels_and_guards():
    known = fields(fakes.complete(7), "line", "23")
    assert known["kernels"]
    assert {op["id"][:2] for op in known["ops"]} == {"o-"}
    assert "problem" not in known


def test_a_recompile_check_says_which_guard_fails():
    run = recompiling.run()
    first, fits, strange = fields(run, "recompile", "a", "b", "c")["answers"]
    assert first["would_recompile"] is True
    assert first["frames"][0]["failed"]
    assert "would_recompile" not in strange
    assert strange["problem"]
    assert fits["frames"][0]["verdict"] == "matches"


def test_a_diff_names_what_changed():
    before = whole(fakes.complete(6))
    after = {**before, "breaks": []}
    known = answer({**after, "before": before}, Asked("diff"))
    assert known.facts["breaks"] == "1 → 0"
    assert known.lists["removed_breaks"][0]["id"] == before["breaks"][0]["id"]
    same = answer({**after, "before": after}, Asked("diff"))
    assert (same.facts["same"], dict(same.lists)) == ("graphs, breaks, guards and kernels are the same", {})


def test_text_and_json_have_the_same_items():
    run = fakes.complete(7)
    known = fields(run, "guards")["guards"]
    said = text(run, "guards", max_tokens=0)
    assert all(f"- {guard['id']}" in said for guard in known)
    assert said.count("\n- g-") == len(known)


@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize("max_tokens", [120, 300, 1000])
def test_an_answer_keeps_its_size_and_says_what_is_left_out(as_json: bool, max_tokens: int):
    items = [{"id": f"k-{n:09x}", "name": f"kernel_{n}", "source": "x = 1\n" * 400} for n in range(50)]
    known = Answer("kernels", {"file": "model.py"}, {"kernels": items})
    said = render(known, COMMAND, as_json=as_json, max_tokens=max_tokens)
    assert len(said) <= max_tokens * CHARS_PER_TOKEN
    assert "left out" in said.replace("left_out", "left out")
    assert f"{COMMAND} --skip " in said
    assert "k-000000000" in said


def test_the_next_items_follow_with_skip():
    items = [{"id": f"k-{n:09x}"} for n in range(5)]
    said = render(Answer("kernels", {}, {"kernels": items}), COMMAND, as_json=True, skip=3)
    assert [item["id"] for item in json.loads(said)["kernels"]] == ["k-000000003", "k-000000004"]


def test_untrusted_text_cannot_move_the_cursor():
    said = render(Answer("q", {"file": "a\x1b[2Jb"}), COMMAND, as_json=False)
    assert "\x1b" not in said


def test_a_question_that_does_not_exist_is_refused():
    with pytest.raises(QuestionError, match="there is no question 'brakes'"):
        asked_of(("brakes",))


def test_neighbors_have_ids_and_reasons():
    run = whole(fakes.complete(7))
    known = answer(run, Asked("why-not-fused"))
    assert len(known.lists["neighbors"]) == len(run["unfused_neighbors"])
    for pair in known.lists["neighbors"][:EXPLAINED]:
        assert pair["a"].startswith("k-")
        assert pair["reasons"]
