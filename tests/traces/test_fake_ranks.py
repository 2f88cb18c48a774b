"""A script as each of several ranks on one machine, without communication."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tcexplore.cli.arguments import parse
from tcexplore.cli.request import FakeRanks

PROGRAM = Path(__file__).with_name("programs") / "fake_ranks.py"


def check(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tcexplore", "check", str(PROGRAM), *arguments]
    environment = {**os.environ, "BACKEND": "aot_eager"}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


@pytest.mark.torch
def test_ranks_that_differ_are_named_before_anything_is_launched():
    done = check("--ranks", "3", "--json", "--", "differ")
    assert done.returncode == 0, done.stderr
    assert sorted(done.stderr.split("\n")[:-1]) == ["rank 0", "rank 1", "rank 2"]
    report = json.loads(done.stdout)
    assert [(row["rank"], row["graphs"]) for row in report["ranks"]] == [(0, 1), (1, 1), (2, 1)]
    divergence = report["divergence"]
    assert (divergence["kind"], divergence["ranks"]) == ("branch", [1])
    lines = PROGRAM.read_text().split("\n")
    assert "relu" in lines[divergence["line"] - 1]


@pytest.mark.torch
def test_a_program_that_needs_the_results_of_communication_is_told_so():
    done = check("--rank", "1", "--world", "4", "--json", "--", "objects")
    assert done.returncode == 2
    assert f"{PROGRAM.name}:29 needs the results of communication (broadcast_object_list)" in done.stderr
    report = json.loads(done.stdout)
    assert [row["rank"] for row in report["ranks"]] == [1]
    assert report["divergence"] is None


def test_all_ranks_are_awaited_after_one_has_failed():
    code = "from tcexplore.worker.fake_ranks import _run_all; print(_run_all(range(8), lambda rank: 4 * (rank == 0)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.splitlines()[-1] == "4"


@pytest.mark.parametrize("command", [[], ["check"]])
def test_the_ranks_are_parsed(command: list[str]):
    assert parse([*command, "f.py", "--ranks", "8"]).fake == FakeRanks(8)
    assert parse([*command, "f.py", "--rank", "3", "--world", "8"]).fake == FakeRanks(8, 3)
    for wrong in (["--rank", "3"], ["--world", "8"], ["--ranks", "2", "--rank", "1"], ["--rank", "8", "--world", "8"]):
        with pytest.raises(SystemExit):
            parse([*command, "f.py", *wrong])
