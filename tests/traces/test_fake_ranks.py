"""A script as each of several ranks on one machine, without communication."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tcexplore.cli.arguments import parse
from tcexplore.cli.options import FakeRanks
from tcexplore.traces import followed_trace
from tcexplore.ui.app import ExplorerApp
from tcexplore.ui.follow_engine import SavedRanksEngine
from tests.traces.trace_app import text_of, until

PROGRAM = Path(__file__).with_name("programs") / "fake_ranks.py"


def check(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tcexplore", "check", str(PROGRAM), *arguments]
    environment = {**os.environ, "BACKEND": "aot_eager"}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


@pytest.mark.torch
def test_ranks_that_differ_are_named_before_anything_is_launched():
    done = check("--ranks", "3", "--json", "--", "differ")
    assert done.returncode == 0, done.stderr
    assert sorted(done.stderr) == sorted("rank 0\nrank 1\nrank 2\n")  # the ranks print at the same time
    report = json.loads(done.stdout)
    assert [(row["rank"], row["graphs"]) for row in report["ranks"]] == [(0, 1), (1, 1), (2, 1)]
    divergence = report["divergence"]
    assert (divergence["kind"], divergence["ranks"]) == ("branch", [1])
    lines = PROGRAM.read_text().split("\n")
    assert lines[divergence["line"] - 1].strip() == "if flag:"


@pytest.mark.torch
def test_a_program_that_needs_the_results_of_communication_is_told_so():
    done = check("--rank", "1", "--world", "4", "--", "objects")
    assert done.returncode == 2
    line = next(n for n, code in enumerate(PROGRAM.read_text().split("\n"), 1) if "dist.broadcast_object_list" in code)
    reason = f"{PROGRAM.name}:{line} needs the results of communication (broadcast_object_list)"
    assert reason in done.stderr
    assert "Rank 1 ended early:" in done.stdout
    assert reason.split(":")[1] in " ".join(done.stdout.split())


def test_all_ranks_are_awaited_after_one_has_failed():
    code = "from tcexplore.worker.fake_ranks import _run_all; print(_run_all(range(8), lambda rank: 4 * (rank == 0)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.splitlines()[-1] == "4"


COPY = """
import glob, os, shutil, sys
sys.stdin.readline()
name = open(sys.argv[1]).read().strip()
for file in glob.glob(os.path.join(sys.argv[2], name, "*.log")):
    shutil.copy(file, os.environ["TORCH_TRACE"])
print("ran", name)
"""
"""A job that writes the finished trace that the saved file names."""


async def test_a_save_runs_all_ranks_again(traces: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(followed_trace, "QUIET_S", 0.1)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    script = tmp_path / "script.py"
    script.write_text("shape")
    command = [sys.executable, "-c", COPY, str(script), str(traces)]
    app = ExplorerApp(lambda: SavedRanksEngine(str(script), command, None))

    def compared(run: int) -> bool:
        newest = app.session.newest
        return newest is not None and newest.run == run and newest.rank_comparison is not None

    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await until(app, pilot, lambda: compared(1))
        await pilot.press("o")
        await until(app, pilot, lambda: compared(1) and "SHAPE" in text_of(app))
        script.write_text("same")
        await until(app, pilot, lambda: compared(2) and "IDENTICAL" in text_of(app))
        assert app.session.newest is not None
        assert [output.text for output in app.session.newest.output] == ["ran same\n"]
        assert app.engine is not None
        assert app.engine.rerun()
        await app.engine.close()
    assert os.listdir(tmp_path) == ["script.py"]


@pytest.mark.parametrize("command", [[], ["check"]])
def test_the_ranks_are_parsed(command: list[str]):
    assert parse([*command, "f.py", "--ranks", "8"]).fake == FakeRanks(8)
    assert parse([*command, "f.py", "--rank", "3", "--world", "8"]).fake == FakeRanks(8, 3)
    for wrong in (["--rank", "3"], ["--world", "8"], ["--ranks", "2", "--rank", "1"], ["--rank", "8", "--world", "8"]):
        with pytest.raises(SystemExit):
            parse([*command, "f.py", *wrong])
