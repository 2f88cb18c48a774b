"""Cures tried for real: three breaks of one file one after another, and one that does not hold."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")

from tcexplore.events import Config, Job
from tcexplore.fixes.attempted_fixes import AttemptedFixes
from tcexplore.session import Snapshot
from tcexplore.session.ranked_breaks import rank_breaks
from tcexplore.studies.fixes.fixes_plan import FixAttempts, treat
from tcexplore.studies.study_runs import Runs
from tcexplore.supervisor import Supervisor
from tcexplore.watch import read_source

pytestmark = pytest.mark.torch

MAIN = """\
import torch

import helper


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)

    def forward(self, x):
        y = helper.chosen(self.layer(x))
        if y.mean() > 0:
            y = y * 2
        return y / y.abs().max().item()


model = Model()
inputs = (torch.full((4, 4), -1.0),)
"""

HELPER = """\
import torch


def chosen(x):
    y = x.sin()
    print("chosen")
    return y + 1
"""


ROOT = """\
import torch


def model(x):
    if x.sum() > 9:
        return torch.sqrt(x)
    return x * 2


inputs = (torch.zeros(4, requires_grad=True),)
"""
"""`where` computes both ways, and the gradient of the one that is not taken is not a number."""


def made(folder: Path, name: str, text: str) -> FixAttempts:
    file = folder / f"{name}.py"
    file.write_text(text)
    return FixAttempts(Job(run=1, file=str(file), source=text, config=Config(backend="eager", train=True)), read_source)


async def treated(treatment: FixAttempts, runs: Runs) -> tuple[Snapshot, dict[int, AttemptedFixes]]:
    """The file's own run, and what was tried for the break of each line."""
    first, *rest = [one async for one in treat(treatment, runs, 120.0, 0.0)]
    assert isinstance(first, Snapshot)
    assert first.failure is None, first.failure
    return first, {
        one.found.location.line: one for one in rest if isinstance(one, AttemptedFixes) and one.found.location
    }


async def test_a_cure_is_proven_or_says_why_not_and_nothing_is_written(tmp_path: Path):
    (tmp_path / "helper.py").write_text(HELPER)
    async with Runs(Supervisor) as runs:
        first, cures = await treated(made(tmp_path, "model", MAIN), runs)
        _, refused = await treated(made(tmp_path, "root", ROOT), runs)
    assert {line: one.cure.change.cure.name if one.cure else None for line, one in cures.items()} == {
        6: "in eager calls alone", 13: "torch.where", 15: "keep it a tensor",
    }  # fmt: skip
    last, in_helper = cures[15].cure, cures[6].cure
    assert in_helper is not None
    assert in_helper.change.file == str(tmp_path / "helper.py")
    assert last is not None
    assert last.after.breaks == ()
    judged = last.after.change_check
    assert judged is not None
    assert (judged.train, judged.varied) == (True, 3)
    assert (tmp_path / "helper.py").read_text() == HELPER
    assert (tmp_path / "model.py").read_text() == MAIN
    assert all(costed.cost_us is not None and costed.cost_us > 0 for costed in rank_breaks(first))
    assert refused[5].cure is None
    assert "differ" in refused[5].proofs[0].why
