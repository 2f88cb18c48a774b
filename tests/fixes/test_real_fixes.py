"""Fixes tried in real workers: three breaks of one file, and a fix that changes the results."""

from __future__ import annotations

from pathlib import Path

import pytest

from tcexplore.studies.fix import AttemptedFix

pytest.importorskip("torch")

from tcexplore.events import Config, Job
from tcexplore.session import Snapshot
from tcexplore.session.ranked_breaks import rank_breaks
from tcexplore.studies.fix import STUDY, BreakFixes, FixOptions, by_break
from tcexplore.studies.runs import Runs
from tcexplore.studies.study import StudyState, run_study
from tests.supervisor.runs import Runs as SharedRuns

pytestmark = [pytest.mark.torch, pytest.mark.asyncio(loop_scope="session")]

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
"""`where` computes both branches, and the gradient of the one that is not taken is NaN."""


UNSAFE = """\
import itertools

import torch

counter = itertools.count()


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(4)

    def forward(self, x):
        print("call", next(counter))
        y = x.sin()
        if y.sum() > 100:
            return self.norm(y)
        return y


model = Model()
inputs = (torch.zeros(4, 4, requires_grad=True),)
"""
"""The call in a `print` changes state, and a branch moves the statistics of a norm."""


def job(folder: Path, name: str, text: str) -> Job:
    file = folder / f"{name}.py"
    file.write_text(text)
    config = Config(backend="eager", train=True)
    return Job(run=1, file=str(file), source=text, config=config, time_for=0.0)


async def fixed(of: Job, runs: Runs) -> tuple[Snapshot, dict[int, BreakFixes]]:
    """Return the run of the unmodified file, and the fixes tried for the break of each line."""
    state: StudyState[FixOptions, AttemptedFix | Snapshot] = StudyState(of, FixOptions(), 120.0)
    await run_study(STUDY, state, runs, lambda _: None, lambda _: None)
    first = state.results[0]
    assert isinstance(first, Snapshot)
    assert first.failure is None, first.failure
    return first, {one.graph_break.location.line: one for one in by_break(state.results) if one.graph_break.location}


async def test_fixes_are_verified_or_refused_and_nothing_is_written(tmp_path: Path, shared_runs: SharedRuns):
    (tmp_path / "helper.py").write_text(HELPER)
    async with Runs(shared_runs.supervisor.study_queue) as runs:
        measured = (await runs.run(job(tmp_path, "model", MAIN), 120.0)).snapshot
        first, fixes = await fixed(job(tmp_path, "model", MAIN), runs)
        _, refused = await fixed(job(tmp_path, "root", ROOT), runs)
        _, unsafe = await fixed(job(tmp_path, "unsafe", UNSAFE), runs)
    assert {line: one.verified.change.fix.name if one.verified else None for line, one in fixes.items()} == {
        6: "in eager calls only", 13: "torch.where", 15: "keep it a tensor",
    }  # fmt: skip
    last, in_helper = fixes[15].verified, fixes[6].verified
    assert in_helper is not None
    assert in_helper.change.file == str(tmp_path / "helper.py")
    assert last is not None
    assert last.after.breaks == ()
    judged = last.after.change_check
    assert judged is not None
    assert (judged.train, judged.varied) == (True, 4)
    assert (tmp_path / "helper.py").read_text() == HELPER
    assert (tmp_path / "model.py").read_text() == MAIN
    assert all(costed.gap_us is not None and costed.gap_us > 0 for costed in rank_breaks(measured))
    # What no fix is judged by is not measured.
    assert (first.break_costs, first.eager_lines, last.after.memory) == (None, None, None)
    assert last.after.change_progress is not None
    assert last.after.change_progress.inputs == 5
    assert refused[5].verified is None
    assert "gradient of input[0] differs in NaN or infinity" in refused[5].verifications[0].objection
    assert {line: one.verified for line, one in unsafe.items()} == {14: None, 16: None}
    assert all("counter becomes" in one.objection for one in unsafe[14].verifications)
