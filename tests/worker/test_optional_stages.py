"""Stages after the compile may raise, hang or exit: the run stays ok, and one fact is missing."""

from __future__ import annotations

import pytest

from tcexplore.events import Accuracy, CallMade, Event, FactMissing, Finished, Memory, TargetSkipped, TimingEstimate
from tests.supervisor.runs import Runs, only

pytestmark = [pytest.mark.torch, pytest.mark.asyncio(loop_scope="session")]

FAILURES = {
    "raises": "raise ValueError('broken')",
    "hangs": "__import__('time').sleep(1000)",
    "exits": "raise SystemExit(3)",
    "interrupts": "raise KeyboardInterrupt",
}

REASONS = {
    "raises": "ValueError: broken (model.py, line 5)",
    "hangs": "it did not end within 1 s",
    "exits": "SystemExit: 3 (model.py, line 5)",
    "interrupts": "KeyboardInterrupt: KeyboardInterrupt (model.py, line 5)",
}

LIMIT = "failure.LIMIT_S, failure.LIMIT_CALLS = 1.0, 0"

PROGRAM = """\
import torch
from tcexplore.worker import failure
{limit}
def fail(*_, **__):
    {failure}
def model(x):
    return x.sin() + 1
{stage} = fail
inputs = (torch.ones(4),)
"""

STAGES = {
    "accuracy": "import tcexplore.accuracy.accuracy_check as a; a.check_accuracy",
    "memory": "import tcexplore.worker.examination as e; e.Examination._emit_memory",
    "names in the state dict": "import tcexplore.worker.run as r; r.Run._emit_state_keys",
    "call profile": "import tcexplore.worker.call_profiles as p; p.CallProfiles._emit_call_profile",
    "time per line": "import tcexplore.worker.call_profiles as p; p.CallProfiles._emit_line_times",
    "timing": "import tcexplore.timing.timing_run as t; t.measure_timing",
    "machine code of kernels": "import tcexplore.worker.target_codegen as c; c.TargetCodegen.finish",
}

TARGET_STAGES = {"code for the target": "import tcexplore.worker.target_codegen as c; c.TargetCodegen.lower"}


def missing(events: list[Event]) -> dict[str, str]:
    """Return the reasons of missing facts, but not of those that this version of torch never gives."""
    reasons = {event.fact: event.reason for event in only(events, FactMissing)}
    return {fact: reason for fact, reason in reasons.items() if not reason.startswith("this torch has no ")}


@pytest.mark.parametrize("how", FAILURES)
async def test_every_stage_may_fail_in_one_run(runs: Runs, how: str) -> None:
    """All stages fail in the same run, so that one compile is enough."""
    stages = "\n".join(f"{stage} = fail" for stage in STAGES.values()).removesuffix(" = fail")
    source = PROGRAM.format(limit=LIMIT, failure=FAILURES[how], stage=stages)
    events = await runs.run(source, time_for=0.1)
    assert isinstance(events[-1], Finished), events[-1]
    assert [call.variant for call in only(events, CallMade)] == ["compiled", "eager"]
    expected = dict.fromkeys(STAGES, REASONS[how])
    if how == "hangs":
        expected["timing"] = "it did not end within 2 s"
    if how == "raises":
        expected.pop("accuracy")
        assert [event.verdict for event in only(events, Accuracy)] == ["not judged"]
    assert missing(events) == expected
    assert not only(events, Memory)
    assert not only(events, TimingEstimate)


@pytest.mark.parametrize("how", ["raises", "hangs", "exits"])
async def test_code_for_a_target_may_fail(runs: Runs, how: str) -> None:
    (stage,) = TARGET_STAGES.values()
    events = await runs.run(PROGRAM.format(limit=LIMIT, failure=FAILURES[how], stage=stage), target="l4")
    assert isinstance(events[-1], Finished), events[-1]
    assert missing(events) == {"code for the target": REASONS[how]}
    assert not only(events, TargetSkipped)
    assert only(events, Accuracy)


async def test_a_model_that_fails_after_the_compile_keeps_its_graphs_and_line(runs: Runs) -> None:
    source = """\
import itertools, sys, torch
calls = itertools.count(1)
@torch.compiler.disable
def count():
    if next(calls) > 2:
        sys.exit("enough")
def model(x):
    count()
    return x + 1
inputs = (torch.ones(4),)
"""
    events = await runs.run(source, time_for=0.1)
    assert isinstance(events[-1], Finished), events[-1]
    assert missing(events)["accuracy"] == "SystemExit: enough (model.py, line 6)"
    assert "timing" in missing(events)


ENDS = {
    "names in the state dict": ("os._exit(4)", "the program ended its own process with status 4, and with it"),
    "accuracy": ("ctypes.string_at(0)", "the process crashed with a segmentation fault, which ended all later"),
    "memory": ("os.kill(os.getpid(), 9)", "the process was killed by SIGKILL, not because memory ran out,"),
    "machine code of kernels": ("os.abort()", "the process was aborted by native code, which ended all later steps"),
    "call profile": ("os._exit(70)", "the program replaced parts of Python that tcexplore needs"),
    "timing": (
        "signal.raise_signal(signal.SIGBUS)",
        "the process crashed with a bus error, which ended all later steps",
    ),
    "time per line": ("signal.raise_signal(signal.SIGUSR1)", "the process was ended by SIGUSR1, which ended all"),
    "recompile check": ("os._exit(0)", "the program ended its own process with status 0, and with it"),
}
"""How the process ends in each stage, and the reason for the missing fact."""

OTHER_STAGES = {
    "recompile check": "import tcexplore.worker.recompile_queries as q; q.RecompileQueries.answer_job",
}


@pytest.mark.parametrize("fact", ENDS)
async def test_a_process_that_ends_in_a_stage_costs_the_rest_only(runs: Runs, fact: str) -> None:
    failure, reason = ENDS[fact]
    stage = (STAGES | OTHER_STAGES)[fact]
    source = PROGRAM.format(limit="", failure=f"import ctypes, os, signal; {failure}", stage=stage)
    events = await runs.run(source, time_for=0.1)
    assert isinstance(events[-1], Finished), events[-1]
    assert list(missing(events)) == [fact]
    assert missing(events)[fact].startswith(reason)
    assert [call.variant for call in only(events, CallMade)] == ["compiled", "eager"]


@pytest.mark.parametrize("failure", ["os._exit(4)", "os.kill(os.getpid(), 9)"])
async def test_a_process_that_ends_while_it_generates_code_for_a_target_costs_the_rest_only(
    runs: Runs, failure: str
) -> None:
    (stage,) = TARGET_STAGES.values()
    events = await runs.run(PROGRAM.format(limit="", failure=f"import os; {failure}", stage=stage), target="l4")
    assert isinstance(events[-1], Finished), events[-1]
    assert list(missing(events)) == ["code for the target"]


async def test_native_code_that_never_returns_ends_the_process_and_costs_the_rest_only(runs: Runs) -> None:
    hang = "from tcexplore.capture import time_limit; time_limit.GRACE_S = 0.5\n"
    # It blocks the signal of the time limit, as native code that never returns delays it.
    block = "import ctypes, signal; signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})"
    sleep = f"{block}; ctypes.PyDLL(None).sleep(600)"
    events = await runs.run(hang + PROGRAM.format(limit=LIMIT, failure=sleep, stage=STAGES["accuracy"]), time_for=0.1)
    assert isinstance(events[-1], Finished), events[-1]
    assert missing(events) == {
        "accuracy": "native code did not end within the time limit; the process was ended, and with it all later steps"
        " (model.py, line 6)"
    }
