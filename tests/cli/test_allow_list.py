"""The allow-list of graph breaks, and the choice of the files whose breaks count."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from tcexplore import events as ev
from tcexplore.cli.file_argument import BadFileError
from tcexplore.cli.gate import GateFiles, judge, read_allow_list
from tcexplore.cli.options import Limits, Request
from tcexplore.report.gate_result import GateResult
from tcexplore.session import Snapshot
from tcexplore.session.stable_ids import stable_ids
from tcexplore.studies.runs import Outcome

TODAY = date(2026, 6, 1)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def judged(folder: Path, allow: str = "", own: tuple[str, ...] = ()) -> GateResult:
    """Judge a run with a break in `model.py:3` and one in `lib/layers.py:8`; none is allowed."""
    snapshot = Snapshot(run=0, file=str(folder / "model.py"), source="", config=ev.Config())
    for file, line, code in (("model.py", 3, "print(x)"), ("lib/layers.py", 8, "n = x.item()")):
        place = ev.Location(str(folder / file), line)
        broken = ev.GraphBreak(graph="0/0", registry_id="GB0059", kind="print", reason="r", location=place, code=code)
        snapshot = snapshot.apply(broken)
    (folder / "allow.toml").write_text(allow)
    files = GateFiles(read_allow_list("allow.toml"))
    return judge(Request("check", limits=Limits(max_breaks=0, own=own)), Outcome(snapshot), files, TODAY)


def lines(result: GateResult) -> list[int]:
    return [graph_break.location.line for graph_break in result.breaks]


@pytest.mark.parametrize(
    ("own", "counted"),
    [
        ((), [3, 8]), (("model.py",), [3]), (("lib",), [8]), (("lib/", "model.py"), [3, 8]), (("li",), []),
        (("./lib/layers.py",), [8]),
    ],
)  # fmt: skip
def test_only_breaks_of_the_own_files_count(folder: Path, own: tuple[str, ...], counted: list[int]):
    assert lines(judged(folder, own=own)) == counted


@pytest.mark.parametrize(
    ("entry", "counted"),
    [
        ('file = "model.py"\nline = 3', [8]),
        ('file = "./model.py"\ntext = "print("', [8]),
        ('file = "model.py"\nline = 4', [3, 8]),
        ('file = "model.py"\nline = 3\ntext = "item"', [3, 8]),
        ('file = "lib/*.py"\ntext = ".item()"\nkind = "GB0059"', [3]),
        ('file = "lib/*.py"\ntext = ".item()"\nkind = "GB0001"', [3, 8]),
        ('file = "layers.py"\nline = 8', [3, 8]),
        ('file = "model.py"\nline = 3\nexpires = 2026-06-01', [8]),
    ],
)
def test_an_entry_allows_the_breaks_that_it_describes(folder: Path, entry: str, counted: list[int]):
    result = judged(folder, f'[[allow]]\nreason = "debugging"\n{entry}\n')
    assert lines(result) == counted
    assert [allowed.reason for allowed in result.allowed] == ["debugging"] * (2 - len(counted))


def test_an_entry_allows_a_break_by_its_id(folder: Path):
    broken = judged(folder).breaks[0]
    run = Snapshot(run=0, file=str(folder / "model.py"), source="", config=ev.Config()).apply(broken)
    entry = f'[[allow]]\nreason = "debugging"\nid = "{stable_ids(run).graph_break(run.breaks[0])}"\n'
    assert lines(judged(folder, entry)) == [8]


def test_an_expired_entry_fails_with_its_reason(folder: Path):
    result = judged(folder, '[[allow]]\nfile = "model.py"\nline = 3\nreason = "until #12"\nexpires = 2026-05-31\n')
    assert lines(result) == [3, 8]
    assert "the break at model.py:3 was allowed until 2026-05-31: until #12 (--allow)" in result.sentences


def test_an_expired_entry_without_a_break_does_not_fail(folder: Path):
    result = judged(folder, '[[allow]]\nfile = "gone.py"\nline = 3\nreason = "r"\nexpires = 2020-01-01\n')
    assert result.sentences == ("2 graph breaks, 0 allowed (--max-breaks)",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[allow]\n", "is not valid TOML"),
        ("[allow]\nfile = 'x'\n", "is not a list of"),
        ("[[alow]]\nfile = 'x'\n", "is not a list of"),
        ("[[allow]]\nfile = 'x'\nline = 1\n", "has no 'reason'"),
        ("[[allow]]\nreason = 'r'\nline = 1\n", "has no 'file'"),
        ("[[allow]]\nfile = 'x'\nreason = 'r'\n", "needs 'id', 'line' or 'text'"),
        ("[[allow]]\nfile = 'x'\nreason = 'r'\nline = 0\n", "not a line number"),
        ("[[allow]]\nfile = 'x'\nreason = 'r'\nline = 1\nexpires = '2027-01-01'\n", "is not a date"),
        ("[[allow]]\nfile = 'x'\nreason = 'r'\nline = 1\nexpire = 2027-01-01\n", "Did you mean 'expires'"),
        ("[[allow]]\nfile = 7\nreason = 'r'\nline = 1\n", "is not a text"),
    ],
)
def test_an_invalid_list_is_refused(folder: Path, text: str, message: str):
    (folder / "allow.toml").write_text(text)
    with pytest.raises(BadFileError) as refused:
        read_allow_list("allow.toml")
    assert message in refused.value.sentence
