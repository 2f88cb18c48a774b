"""Reports for CI that `check` writes, with a fake supervisor that replays events."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tcexplore import events as ev
from tests.cli.conftest import BREAK, DONE, ENTRY, GRAPH, THEIRS, Check, Playback
from tests.report.ci_readers import read_command, read_gitlab, read_junit, read_sarif
from tests.studies.playback import timed

FILES = (
    "--sarif",
    "out.sarif",
    "--junit",
    "out.xml",
    "--gitlab",
    "out.json",
    "--markdown",
    "out.md",
    "--html",
    "out.html",
)


def test_the_reports_are_written_and_replaced(check: Check, tmp_path: Path):
    (tmp_path / "out.sarif").write_text("an earlier report")
    assert check(ENTRY, GRAPH, BREAK, DONE, arguments=("model.py", "--max-breaks", "0", *FILES)) == 1
    assert {result["ruleId"] for result in read_sarif((tmp_path / "out.sarif").read_text())} == {"graph-break"}
    assert read_junit((tmp_path / "out.xml").read_text()) == {"compiles": "passed", "--max-breaks": "failure"}
    assert len(read_gitlab((tmp_path / "out.json").read_text())) == 1
    assert "❌ tcexplore" in (tmp_path / "out.md").read_text()
    assert "<title>model.py · tcexplore</title>" in (tmp_path / "out.html").read_text()


@pytest.mark.parametrize("arguments", [("--sarif", "link"), ("--junit", "model.py"), ("--gitlab", "gone/x.json"),
                                       ("--markdown", "a", "--sarif", "a"), ("--markdown", ".")])  # fmt: skip
def test_a_report_that_cannot_be_written_is_refused_before_the_run(
    check: Check, tmp_path: Path, arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
):
    (tmp_path / "link").symlink_to("target")
    assert check(DONE, arguments=("model.py", *arguments)) == 2
    assert capsys.readouterr().err.startswith("tcexplore: ")
    assert (tmp_path / "model.py").read_text() == "import torch\n"
    assert not (tmp_path / "target").exists()


def test_on_github_annotations_follow_the_report(
    check: Check, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    step = tmp_path / "step.md"
    step.write_text("before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(step))
    assert check(ENTRY, GRAPH, BREAK, DONE, arguments=("model.py", "--max-breaks", "0", "--github", "--summary")) == 1
    lines = capsys.readouterr().out.splitlines()
    stop = next(number for number, line in enumerate(lines) if line.startswith("::stop-commands::"))
    resume = lines.index(f"::{lines[stop].rpartition('::')[2]}::")
    assert "✖ limit exceeded: 1 graph break, 0 allowed (--max-breaks)" in "\n".join(lines[stop:resume])
    assert resume - stop <= 6
    assert [read_command(line)[0] for line in lines[resume + 1 :]] == ["error"]
    assert step.read_text().startswith("before\n### ❌ tcexplore")


def test_annotations_leave_the_json_valid(check: Check, capsys: pytest.CaptureFixture[str]):
    assert check(ENTRY, GRAPH, BREAK, DONE, arguments=("model.py", "--json", "--github")) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["limits_exceeded"] == []
    assert read_command(err.strip())[0] == "warning"


def test_a_run_is_compared_with_its_own_report(check: Check, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    check(ENTRY, GRAPH, DONE, arguments=("model.py", "--json"))
    (tmp_path / "base.json").write_text(capsys.readouterr().out)
    assert check(ENTRY, GRAPH, DONE, arguments=("model.py", "--baseline", "base.json")) == 0
    assert check(ENTRY, GRAPH, BREAK, DONE, arguments=("model.py", "--baseline", "base.json")) == 1
    assert "1 graph break, 0 in the baseline; new: print (--baseline)" in capsys.readouterr().out
    assert check(DONE, arguments=("model.py", "--baseline", "base.json", "--mode", "lite")) == 2
    assert "was made with another mode: default" in capsys.readouterr().err


FAST, SLOW = ((ENTRY, GRAPH, replace(timed(speedup), run=1), DONE) for speedup in (2.0, 1.5))


@pytest.mark.parametrize(
    ("first", "second", "status", "runs", "text"),
    [
        (SLOW, SLOW, 1, 2, "measured again: 1.50× [1.49, 1.51] (--baseline)"),
        (SLOW, FAST, 0, 2, "not counted as worse: compiled is 1.50×"),
        (SLOW, (THEIRS,), 1, 2, "2.00× [1.99, 2.01] in the baseline (--baseline)"),
        (FAST, SLOW, 0, 1, ""),
    ],
)
def test_a_slower_run_is_measured_again(
    check: Check, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    first: Sequence[ev.Event], second: Sequence[ev.Event], status: int, runs: int, text: str,
):  # fmt: skip
    check(*FAST, arguments=("model.py", "--json"))
    (tmp_path / "base.json").write_text(capsys.readouterr().out)
    assert check(*first, arguments=("model.py", "--json", "--baseline", "base.json"), second=second) == status
    out, err = capsys.readouterr()
    assert len(Playback.jobs) == runs
    assert ("a time is worse than in the baseline: once more" in err) == (runs == 2)
    assert text in "".join(json.loads(out)["limits_exceeded"]) + err


@pytest.mark.parametrize("option", ["--allow", "--baseline"])
def test_a_missing_gate_file_is_refused(check: Check, option: str, capsys: pytest.CaptureFixture[str]):
    assert check(DONE, arguments=("model.py", option, "gone")) == 2
    assert "gone" in capsys.readouterr().err
