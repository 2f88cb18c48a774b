"""Real ranks of which one returns early: the main screen names the `if`, not the line of the function."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tcexplore.documents.breaks_view import breaks_document
from tcexplore.documents.peek_line import peek_row
from tcexplore.documents.rank_alert import alert_links, alert_row
from tcexplore.documents.strip import verdict_row
from tcexplore.events import Location
from tcexplore.session import Session
from tcexplore.session.links import closure, line_links, node_link
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


def run_ranks(folder: Path, program: str) -> Session:
    """Run a program on two ranks; return the session that shows the trace of rank 0 with the comparison."""
    (folder / "train.py").write_text(program)
    variables = {**os.environ, "TORCH_TRACE": str(folder / "trace")}
    command = [sys.executable, str(folder / "train.py")]
    ranks = [subprocess.Popen(command, env={**variables, "RANK": str(rank)}) for rank in range(2)]
    assert [rank.wait() for rank in ranks] == [0, 0]
    (job,) = open_inputs(trace_inputs([str(folder / "trace")])).jobs
    run = TraceRun(job.ranks[0], 1, 2)
    session = Session().begin(run.start())
    for batch in run.batches():
        session = session.apply_all(batch)
    return session.apply_all([replace(compare_ranks(job), run=1)])


def test_the_condition_of_an_early_return_is_on_the_main_screen(tmp_path: Path):
    session = run_ranks(tmp_path, PROGRAM)
    assert session.shown is not None
    assert session.shown.source == PROGRAM  # whose guarded line ends with a comment
    assert f" ✖ BRANCH   ranks 0 and 1 first differ at line {CONDITION}" in verdict_row(session).text
    assert "graph break" not in verdict_row(session, 200).text  # that would be of the rank in view alone
    comparison = session.shown.rank_comparison
    assert comparison is not None
    _, following = alert_links(comparison, session.shown)
    assert following == node_link("0/0", "x_1"), "the graph of the difference is in view, although no op is on the line"
    cause = alert_row(session).text
    assert "The ranks take different sides of `if short:`." in cause
    assert "rank 1: the graph ends, with short == True " in cause
    assert f"rank 0: sqrt(x), with short == False  line {CONDITION + 2}" in cause


def test_a_break_of_one_rank_has_the_condition_around_it_and_what_each_rank_read(tmp_path: Path):
    session = run_ranks(tmp_path, PROGRAM.replace("        return x\n", "        torch._dynamo.graph_break()\n"))
    assert session.shown is not None
    comparison = session.shown.rank_comparison
    assert comparison is not None
    selected = alert_links(comparison, session.shown)
    assert selected[:1] == line_links(Location(session.shown.file, CONDITION + 1))
    assert peek_row(session.shown, selected, closure(session.shown, selected), 80).text.strip() == (
        f"line {CONDITION + 1} → the ranks differ here"
    )
    breaks = breaks_document(session.shown, frozenset(), 80)
    assert "✔ 0 graph breaks  1 graph, in rank 0 of 2" in breaks.row(0).text
    cause = alert_row(session).text
    assert "Only rank 1 has this graph break, in `if short:`." in cause
    assert "rank 0: no graph break, with short == False" in cause
    assert f", with short == True  line {CONDITION + 1}" in cause
