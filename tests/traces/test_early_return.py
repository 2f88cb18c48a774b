"""Real ranks of which one returns early: the main screen names the `if`, not the line of the function."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tcexplore.documents.rank_alert import alert_row
from tcexplore.documents.strip import verdict_row
from tcexplore.session import Session
from tcexplore.traces.rank_comparison import compare_ranks
from tcexplore.traces.trace_inputs import trace_inputs
from tcexplore.traces.trace_job import open_inputs
from tcexplore.traces.trace_run import TraceRun

pytestmark = pytest.mark.torch

PROGRAM = """\
import os
import torch
from torch.testing._internal.distributed.fake_pg import FakeStore

rank = int(os.environ["RANK"])
torch.distributed.init_process_group("fake", store=FakeStore(), rank=rank, world_size=2)


@torch.compile(backend="aot_eager")
def f(x, short):
    x = x.abs()
    if short:  # the ranks go apart
        return x
    x = x.sqrt()
    return x + 1


f(torch.ones(4), rank == 1)
"""
CONDITION = 1 + PROGRAM.split("\n").index("    if short:  # the ranks go apart")


def test_the_condition_of_an_early_return_is_on_the_main_screen(tmp_path: Path):
    (tmp_path / "train.py").write_text(PROGRAM)
    variables = {**os.environ, "TORCH_TRACE": str(tmp_path / "trace")}
    command = [sys.executable, str(tmp_path / "train.py")]
    ranks = [subprocess.Popen(command, env={**variables, "RANK": str(rank)}) for rank in range(2)]
    assert [rank.wait() for rank in ranks] == [0, 0]
    (job,) = open_inputs(trace_inputs([str(tmp_path / "trace")])).jobs
    run = TraceRun(job.ranks[0], 1, 2)
    session = Session().begin(run.start())
    for batch in run.batches():
        session = session.apply_all(batch)
    assert session.shown is not None
    assert session.shown.source == PROGRAM  # whose guarded line ends with a comment
    session = session.apply_all([replace(compare_ranks(job), run=1)])
    assert f" ✖ BRANCH   ranks 0 and 1 differ at line {CONDITION}" in verdict_row(session).text
    assert "graph break" not in verdict_row(session, 200).text  # that would be of the rank in view alone
    cause = alert_row(session).text
    assert "The ranks take different sides of `if short:`." in cause
    assert "rank 1: the graph ends " in cause
    assert f"rank 0: sqrt(x)  line {CONDITION + 2}" in cause
