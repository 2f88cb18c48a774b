"""`tcexplore diff`: its runs are named as for `check`, and it prints kernels with their causes."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tcexplore.cli import diff_command
from tcexplore.cli.arguments import parse
from tcexplore.cli.dispatch import dispatch
from tcexplore.model_python import OWN_PYTHON

MODEL = """import torch
def model(x):
    return (x * {factor}).sigmoid() + 1
inputs = (torch.ones(64, 64),)
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(diff_command, "model_python", lambda *_: OWN_PYTHON)
    path = tmp_path / "model.py"
    path.write_text(MODEL.format(factor=2))
    return path


def test_a_run_has_options_of_check(file: Path) -> None:
    request = parse(["diff", str(file), f"{file} --mode max-autotune --dynamic true", "--quick"])
    first, second = (diff_command._side(text, request) for text in request.runs)
    assert first.job is not None
    assert second.job is not None
    assert (first.job.config.mode, second.job.config.mode) == ("default", "max-autotune")
    assert second.job.config.dynamic is True
    assert second.job.structure_only


def test_a_run_is_the_text_of_a_commit(file: Path) -> None:
    def git(*arguments: str) -> None:
        identity = ("-c", "user.name=a", "-c", "user.email=a@b")
        subprocess.run(("git", "-C", str(file.parent), *identity, *arguments), check=True, capture_output=True)

    git("init")
    git("add", ".")
    git("commit", "-m", "first")
    file.write_text(MODEL.format(factor=3))
    request = parse(["diff", f"{file}@HEAD", str(file)])
    old, new = (diff_command._side(text, request) for text in request.runs)
    assert old.job is not None
    assert new.job is not None
    assert ("x * 2" in old.job.source, "x * 3" in new.job.source) == (True, True)
    assert old.job.file == new.job.file


def test_an_unknown_revision_is_an_error(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert dispatch(["diff", f"{file}@no-such-revision", str(file)]) == 2
    assert "no-such-revision" in capsys.readouterr().err


@pytest.mark.torch
def test_two_programs_are_compared(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "later"
    folder.mkdir()
    later = folder / "model.py"
    later.write_text(MODEL.format(factor=3))
    assert dispatch(["diff", str(file), str(later), "--quick", "--json"]) == 0
    difference: dict[str, Any] = json.loads(capsys.readouterr().out)
    (part,) = [part for part in difference["parts"] if part["change"] != "same"]
    assert part["cause"]["kind"] == "program"
    assert "2 →" in part["cause"]["text"]
    assert part["source_lines"][0][1] == 3
    assert difference["before"]["torch"] == difference["after"]["torch"]
