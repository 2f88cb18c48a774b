"""Programs whose calls change state: what the run shows is what torch itself does in a plain script."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tcexplore.events import CallMade, Finished, Job
from tcexplore.report.json_report import report
from tcexplore.session.snapshot import start_snapshot
from tcexplore.worker.run import SAME_STATE
from tests import program_figures
from tests.program_figures import differences, figures_of
from tests.report.consistency import inconsistencies
from tests.supervisor.runs import Runs, failed_facts, only

pytestmark = [pytest.mark.torch, pytest.mark.asyncio(loop_scope="session")]

FOLDER = Path(__file__).with_name("stateful")
PROGRAMS = (
    "act_norm", "class_attribute", "closure_counter", "counting_hooks", "freeze_after", "global_step", "lazy_modules",
    "mixed_int8", "shape_cache", "state_object", "stored_iterator", "try_finally",
)  # fmt: skip


@pytest.fixture(scope="module")
def truths(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return torch's own figures of each program, as JSON, from processes without tcexplore."""
    files = [tmp_path_factory.mktemp(name) / "model.py" for name in PROGRAMS]
    for name, file in zip(PROGRAMS, files, strict=True):
        file.write_text((FOLDER / f"{name}.txt").read_text())
    command = [sys.executable, "-W", "ignore", "-m", program_figures.__name__, *map(str, files)]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    return dict(zip(PROGRAMS, [line for line in lines if line.startswith('{"graphs"')], strict=True))


@pytest.mark.parametrize("name", PROGRAMS)
async def test_a_program_with_state_is_shown_as_torch_meets_it(runs: Runs, truths: dict[str, str], name: str) -> None:
    source = (FOLDER / f"{name}.txt").read_text()
    events = await runs.run(source, backend=program_figures.BACKEND)
    assert isinstance(events[-1], Finished), events[-1]
    snapshot = start_snapshot(Job(run=events[0].run, file=str(runs.file), source=source))
    for event in events:
        snapshot = snapshot.apply(event)
    shown = report(snapshot, None)
    assert differences(json.loads(truths[name]), figures_of(shown)) == []
    assert inconsistencies(shown) == []
    assert next(call.variant for call in only(events, CallMade)) == "compiled"
    missing = {missing.fact for missing in failed_facts(events) if missing.fact != SAME_STATE}
    tries_in_each_call = name == "freeze_after" and torch.__version__ >= "2.15"
    assert missing == ({"memory"} if tries_in_each_call else set())
