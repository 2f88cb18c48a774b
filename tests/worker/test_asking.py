"""Questions to a run that is alive: would these inputs recompile?"""

from __future__ import annotations

import pytest

from tcexplore.events import (
    CallMade,
    EntryFound,
    FactMissing,
    Finished,
    FrameEntered,
    PhaseStarted,
    Recompiled,
    WouldRecompile,
)
from tcexplore.events.control import Question
from tests.supervisor.runs import Runs

pytestmark = [pytest.mark.torch, pytest.mark.asyncio(loop_scope="session")]

MODEL = """\
import torch

def f(x, flag):
    return x.sin() if flag else x.cos()

model = f
inputs = [(torch.ones(4, 8), True), (torch.ones(5, 8), True)]
"""


async def test_a_run_answers_while_it_is_timed_and_runs_nothing(runs: Runs) -> None:
    number = runs.submit(MODEL, time_for=None)
    await runs.until(lambda e: isinstance(e, PhaseStarted) and e.phase == "timing" and e.run == number)
    assert runs.supervisor.ask(Question(number=1, inputs=("f32[33, 8]", "True")))
    assert runs.supervisor.ask(Question(number=2, inputs=("f32[33, 8]", "False")))
    assert runs.supervisor.ask(Question(number=3, inputs=("f32[33, 8]",)))
    await runs.until(lambda e: isinstance(e, WouldRecompile) and e.number == 3)

    answers = [e for e in runs.events if isinstance(e, WouldRecompile)]
    assert [answer.number for answer in answers] == [1, 2, 3]
    (fits,), (other,) = (answer.frames for answer in answers[:2])
    assert (fits.verdict, fits.graph) == ("matches", "0/1")
    assert (other.verdict, other.entries[0].failed.what) == ("recompiles", "flag")
    assert "flag" in answers[2].problem, [e for e in runs.events if isinstance(e, FactMissing)]
    assert not [e for e in runs.events if isinstance(e, CallMade) and e.index > 1]
    assert not [e for e in runs.events if isinstance(e, Recompiled | FrameEntered) and not e.graph]


async def test_a_job_asks_once_everything_is_compiled_and_a_run_that_is_over_hears_nothing(runs: Runs) -> None:
    number = runs.submit(MODEL, would=("f32[5, 8], True", "f32[1, 8], True"))
    await runs.wait_for(Finished)
    seen = [e for e in runs.events if e.run == number]
    verdicts = [e.frames[0].verdict for e in seen if isinstance(e, WouldRecompile)]
    assert verdicts == ["matches", "recompiles"]
    assert any(isinstance(e, EntryFound) for e in seen)
    assert not runs.supervisor.ask(Question(number=1, inputs=("f32[5, 8]",)))
