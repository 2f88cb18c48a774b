"""Real ranks with float arguments: one compiles, the other finds the results in its cache and restarts less often."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from tcexplore.events.rank_events import RanksCompared
from tcexplore.traces.rank_comparison import compare_ranks
from tcexplore.traces.trace_inputs import trace_inputs
from tcexplore.traces.trace_job import open_inputs

pytestmark = pytest.mark.torch

PROGRAM = """\
import os
import torch
from torch.testing._internal.distributed.fake_pg import FakeStore

torch.distributed.init_process_group("fake", store=FakeStore(), rank=int(os.environ["RANK"]), world_size=2)


@torch.compile
def scaled(x, scale: float):
    return (x * scale + scale).relu()


@torch.compile
def chosen(x, scale: float):
    if scale > 0.5:
        x = x.sin()
    return x * scale


for scale in (1.5, 2.5, 0.75):
    scaled(torch.ones(4, 8), scale)
    chosen(torch.ones(4, 8), scale)
"""

RECORD_TIME = re.compile(r"(?m)^([VIWE])(\d{4} \d\d:\d\d:\d\d\.\d+) ")


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The traces of rank 0, with an empty cache, and of rank 1, which begins once rank 0 has ended."""
    folder = tmp_path_factory.mktemp("ranks")
    (folder / "train.py").write_text(PROGRAM)
    variables = {**os.environ, "TORCH_TRACE": str(folder / "trace"), "TORCHINDUCTOR_CACHE_DIR": str(folder / "cache")}
    for rank in ("0", "1"):
        command = [sys.executable, str(folder / "train.py")]
        subprocess.run(command, check=True, capture_output=True, env={**variables, "RANK": rank})
    return folder / "trace"


def compared(folder: Path) -> RanksCompared:
    (job,) = open_inputs(trace_inputs([str(folder)])).jobs
    return compare_ranks(job)


def test_a_later_rank_with_a_warm_cache_does_not_differ(ranks: Path):
    comparison = compared(ranks)
    first, second = comparison.rows
    assert first.cache_misses
    assert second.cache_hits
    assert comparison.divergence is None
    assert first.graphs == second.graphs
    assert first.compile_ids == second.compile_ids


def test_a_rank_whose_cache_was_warm_before_differs_in_the_cache_only(ranks: Path, tmp_path: Path):
    def earlier(head: re.Match[str]) -> str:
        at = datetime.strptime(f"2000{head[2]}", "%Y%m%d %H:%M:%S.%f") - timedelta(minutes=5)
        return f"{head[1]}{at.strftime('%m%d %H:%M:%S.%f')} "

    for path in ranks.iterdir():
        text = path.read_text()
        (tmp_path / path.name).write_text(RECORD_TIME.sub(earlier, text) if "_rank_1_" in path.name else text)
    divergence = compared(tmp_path).divergence
    assert divergence is not None
    assert (divergence.kind, divergence.severity) == ("cache", "warning")
