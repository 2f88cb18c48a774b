"""Reports for CI systems, read by strict readers; hostile text breaks none of them."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tcexplore import events as ev
from tcexplore.report.ci_formats import CiIssue, ci_issues, gitlab, junit, markdown, sarif, workflow_commands
from tcexplore.report.gate_result import AllowedBreak, ExceededLimit, GateResult
from tcexplore.session import Snapshot
from tests.report.ci_readers import read_command, read_gitlab, read_junit, read_sarif, sarif_path

HINT = "Move the print out of forward."


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / ".git").mkdir()
    (tmp_path / "models").mkdir()
    monkeypatch.chdir(tmp_path / "models")
    return tmp_path


def break_at(file: str | Path, line: int, code: str = "print(x)", reason: str = "It prints.") -> ev.GraphBreak:
    place = ev.Location(str(file), line, "forward")
    return ev.GraphBreak(
        graph="0/0", registry_id="GB0059", kind="print", reason=reason, hints=(HINT,), location=place, code=code
    )


def snapshot(root: Path, *events: ev.Event) -> Snapshot:
    run = Snapshot(run=0, file=str(root / "models" / "net one.py"), source="", config=ev.Config())
    for event in events:
        run = run.apply(event)
    return run


def gated(run: Snapshot, *, allowed: tuple[AllowedBreak, ...] = ()) -> tuple[tuple[CiIssue, ...], GateResult]:
    limit = ExceededLimit("max-breaks", f"{len(run.breaks)} graph breaks, 0 allowed")
    result = GateResult((limit,), ("max-breaks", "max-graphs"), run.breaks, allowed)
    return ci_issues(run, result), result


def test_paths_are_relative_to_the_repository(root: Path):
    run = snapshot(root, break_at(root / "models" / "net one.py", 3), break_at(root / "layers" / "ü#%.py", 9, "y"))
    results, result = gated(run)
    paths = {issue.path for issue in results}
    assert paths == {"models/net one.py", "layers/ü#%.py"}
    assert {sarif_path(entry) for entry in read_sarif(sarif(results, run))} == paths
    assert {issue["location"]["path"] for issue in read_gitlab(gitlab(results))} == paths
    assert {read_command(line)[1] for line in workflow_commands(results)} == paths
    assert read_junit(junit(results, result, run, "net one.py"))["--max-breaks"] == "failure"


def test_a_break_in_a_library_is_shown_at_the_line_that_calls_it(root: Path):
    inside = ev.Location(str(root / "models" / "net one.py"), 12)
    broken = replace(break_at("/usr/lib/layers.py", 5), stack=(inside, ev.Location("/usr/lib/layers.py", 5)))
    results, _ = gated(snapshot(root, broken))
    (issue,) = (issue for issue in results if issue.rule == "graph-break")
    assert (issue.path, issue.line) == ("models/net one.py", 12)
    assert "/usr/lib/layers.py:5" in issue.message


def test_a_model_outside_the_repository_has_an_absolute_uri(root: Path):
    run = replace(snapshot(root), file="/elsewhere/my model.py")
    (entry,) = read_sarif(sarif(gated(run)[0], run))
    assert sarif_path(entry) == "file:///elsewhere/my model.py"


def test_a_break_in_a_model_outside_the_repository_is_shown_at_its_line(root: Path):
    run = replace(snapshot(root, break_at(Path("/elsewhere/my model.py"), 7)), file="/elsewhere/my model.py")
    results, _ = gated(run)
    (issue,) = (issue for issue in results if issue.rule == "graph-break")
    assert (issue.path, issue.line) == ("/elsewhere/my model.py", 7)


def test_annotations_have_reason_and_hint(root: Path):
    results, _ = gated(snapshot(root, break_at(root / "models" / "net one.py", 3)))
    commands = [read_command(line) for line in workflow_commands(results)]
    assert ("error", "models/net one.py", 3, "Graph break: print", f"It prints.\nTry: {HINT}") in commands


def test_an_allowed_break_is_a_suppressed_note(root: Path):
    broken = break_at(root / "models" / "net one.py", 3)
    run = snapshot(root)
    result = GateResult(options=("max-breaks",), allowed=(AllowedBreak(broken, "debugging", date(2027, 1, 31)),))
    results = ci_issues(run, result)
    (entry,) = read_sarif(sarif(results, run))
    assert (entry["level"], entry["suppressions"][0]["justification"]) == ("note", "debugging (until 2027-01-31)")
    assert read_gitlab(gitlab(results)) == []
    cases = read_junit(junit(results, result, run, "m.py"))
    assert list(cases.values()) == ["passed", "passed", "skipped"]
    assert [read_command(line)[0] for line in workflow_commands(results)] == ["notice"]


def test_fingerprints_do_not_depend_on_lines(root: Path):
    file = root / "models" / "net one.py"
    first, _ = gated(snapshot(root, break_at(file, 3), break_at(file, 9)))
    moved, _ = gated(snapshot(root, break_at(file, 30), break_at(file, 90)))
    other, _ = gated(snapshot(root, break_at(file, 3, code="print(y)")))
    prints = [issue.fingerprint for issue in first]
    assert prints == [issue.fingerprint for issue in moved]
    assert len(set(prints)) == 2
    assert not set(prints) & {issue.fingerprint for issue in other}


def test_a_failure_is_an_error(root: Path):
    failed = ev.Failed(stage="eager", blame="user", type="ValueError", message="no\nway",
                       location=ev.Location(str(root / "models" / "net one.py"), 4))  # fmt: skip
    run = snapshot(root, failed)
    results = ci_issues(run, GateResult())
    assert read_junit(junit(results, GateResult(), run, "m.py")) == {"compiles": "error"}
    assert [(issue["severity"], issue["location"]["lines"]["begin"]) for issue in read_gitlab(gitlab(results))] == [
        ("blocker", 4)
    ]
    assert json.loads(sarif(results, run))["runs"][0]["invocations"] == [{"executionSuccessful": False}]


def test_recompiles_name_the_guard_and_a_fix(root: Path):
    place = ev.Location(str(root / "models" / "net one.py"), 2)
    recompile = ev.Recompiled(
        graph="0/1", failed_entry="0/0", failed_guard="g", reason="size of x.0: 8 → 9", kind="size", name="x", dim=0,
        location=place,
    )  # fmt: skip
    older = replace(recompile, failed_entry="0/1", graph="0/2")
    results = ci_issues(snapshot(root, recompile, older, replace(older, failed_entry="0/0")), GateResult())
    assert [issue.rule for issue in results] == ["recompile", "recompile"]
    assert all("size of x.0: 8 → 9" in issue.message and issue.level == "warning" for issue in results)


_TEXTS = ("]]>", "::error::x", "a\r\n::set-output name=x::y", "%0A", "<script>", "| a | b |", "\x00\x1b[31m", "\ud800",
          "{0}", "\u2028::warning::", "&amp;", "--><!--")  # fmt: skip
HOSTILE = st.text(st.characters(codec=None), min_size=1, max_size=60) | st.sampled_from(_TEXTS)


@settings(max_examples=60, deadline=None)
@given(reason=HOSTILE, code=HOSTILE, name=HOSTILE)
def test_hostile_text_breaks_no_report(tmp_path_factory: pytest.TempPathFactory, reason: str, code: str, name: str):
    file = f"{tmp_path_factory.getbasetemp()}/{ev.clean(name).replace('/', '')}.py"
    run = snapshot(Path("/"), break_at(file, 3, ev.clean(code), ev.clean(reason)))
    results, result = gated(run, allowed=(AllowedBreak(break_at(file, 4, code, reason), reason),))
    read_sarif(sarif(results, run).encode().decode())
    read_junit(junit(results, result, run, file))
    read_gitlab(gitlab(results).encode().decode())
    for line in workflow_commands(results):
        read_command(line)
        line.encode()
    table = markdown(results, result, run, file)
    table.encode()
    assert "<script" not in table
    assert len(table.splitlines()) == 13


def test_a_limit_that_breaks_exceed_is_no_finding_of_its_own(root: Path):
    results, _ = gated(snapshot(root, break_at(root / "models" / "net one.py", 3)))
    assert [issue.rule for issue in results if issue.option == "max-breaks"] == []
    assert all(issue.line == 3 for issue in results if issue.rule == "graph-break")


def test_a_finding_in_a_notebook_names_the_cell_and_its_line(root: Path):
    file = root / "models" / "demo.ipynb"
    source = "# %% cell 1\nimport torch\n# %% cell 3\nx = 1\nprint(x)\n"
    run = replace(snapshot(root, break_at(file, 5)), file=str(file), source=source)
    results, _ = gated(run)
    (issue,) = (issue for issue in results if issue.rule == "graph-break")
    assert issue.line is None
    assert "The line is line 2 of cell 3." in issue.message
