"""Recompile queries to a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tcexplore.events import (
    CallMade,
    EntryFound,
    FactMissing,
    Finished,
    FrameEntered,
    PhaseStarted,
    RecompileAnswer,
    Recompiled,
    RegionCompiled,
    RegionCreated,
)
from tcexplore.events.commands import PauseTiming, RecompileQuery
from tests.supervisor.runs import Runs, printed, until

pytestmark = [pytest.mark.torch, pytest.mark.asyncio(loop_scope="session")]

MODEL = """\
import torch

def f(x, flag):
    return x.sin() if flag else x.cos()

model = f
inputs = [(torch.ones(4, 8), True), (torch.ones(5, 8), True)]
"""


async def test_a_timed_run_answers_queries_without_running_the_model(runs: Runs) -> None:
    number = runs.submit(MODEL, time_for=None)
    await runs.until(lambda e: isinstance(e, PhaseStarted) and e.phase == "timing" and e.run == number)
    assert runs.supervisor.send(RecompileQuery(number=1, inputs=("f32[33, 8]", "True")))
    assert runs.supervisor.send(RecompileQuery(number=2, inputs=("f32[33, 8]", "False")))
    assert runs.supervisor.send(RecompileQuery(number=3, inputs=("f32[33, 8]",)))
    await runs.until(lambda e: isinstance(e, RecompileAnswer) and e.number == 3)

    seen = [e for e in runs.events if e.run == number]
    answers = [e for e in seen if isinstance(e, RecompileAnswer)]
    assert [answer.number for answer in answers] == [1, 2, 3]
    assert [answer.asked for answer in answers] == [("f32[33, 8]", "True"), ("f32[33, 8]", "False"), ("f32[33, 8]",)]
    (fits,), (other,) = (answer.frames for answer in answers[:2])
    assert (fits.verdict, fits.graph) == ("matches", "0/1")
    assert (other.verdict, other.entries[0].failed.name) == ("recompiles", "flag")
    assert "flag" in answers[2].problem, [e for e in seen if isinstance(e, FactMissing)]
    assert not [e for e in seen if isinstance(e, CallMade) and e.index > 1]
    assert not [e for e in seen if isinstance(e, Recompiled | FrameEntered) and not e.graph]


async def test_queries_of_a_job_are_answered_and_a_finished_run_takes_none(runs: Runs) -> None:
    number = runs.submit(MODEL, recompile_queries=("f32[5, 8], True", "f32[1, 8], True"))
    await runs.wait_for(Finished)
    seen = [e for e in runs.events if e.run == number]
    verdicts = [e.frames[0].verdict for e in seen if isinstance(e, RecompileAnswer)]
    assert verdicts == ["matches", "recompiles"]
    assert any(isinstance(e, EntryFound) for e in seen)
    assert not runs.supervisor.send(RecompileQuery(number=1, inputs=("f32[5, 8]",)))


LOOP = """\
import torch
from torch import nn

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 8)
    def forward(self, x, scale):
        x = self.fc(x) * scale
        return x.sin() if x.max().item() > 0 else x

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Block(), Block()])
        self.calls = 0
    def forward(self, words, cache):
        self.calls += 1
        x = torch.eye(8)[words]
        for block in self.blocks:
            x = block(x, 2)
        print("call", self.calls)
        return x + cache

model = Net()
inputs = (torch.tensor([7] * 4), torch.ones(4, 8))
"""


async def test_functions_that_eager_code_calls_are_checked_in_a_copy_of_the_process(runs: Runs) -> None:
    queries = ("i64[4], f32[4, 8]", "i64[33], f32[33, 8]", "i64[33], f32[5, 8]", "i64[4], f32[4, 8]")
    seen = await runs.run(LOOP, recompile_queries=queries)
    given = [e for e in seen if isinstance(e, RecompileAnswer)]
    impossible = given.pop(2)
    assert not impossible.frames
    assert "raises RuntimeError: The size of tensor a (33) must match" in impossible.problem
    answers = [e.frames for e in given]
    outer = [frames[0] for frames in answers]
    blocks = [next(f for f in frames if f.frame and f.frame.line == 8 and not f.resumed) for frames in answers]
    assert [frame.verdict for frame in outer] == ["eager"] * 3, [frame.note for frame in outer]
    assert [frame.verdict for frame in blocks] == ["matches", "recompiles", "matches"]
    failed = blocks[1].entries[0].failed
    assert failed is not None
    assert (failed.name, failed.kind, failed.old, failed.new) == ("x", "size", "4", "33")
    without = await runs.run(LOOP)
    assert printed(seen).count("call") == printed(without).count("call"), (
        "the calls of the checks are not the program's"
    )


BREAK = """\
import torch

def f(x, other):
    y = torch.softmax(x @ x.T, -1).sum() + x.sum()
    if y > 100:
        return other.cos()
    return other * 2

model = f
inputs = [(torch.ones(64, 64), torch.ones(3)), (torch.zeros(64, 64), torch.ones(3))]
"""


async def test_what_resumes_after_a_graph_break_is_checked_in_a_copy_of_the_process(runs: Runs) -> None:
    """Its kernels ask for more threads than the copy has."""
    queries = ("f32[64, 64], f32[3]", "f32[64, 64], f32[5]", "f32[32, 64], f32[3]")
    seen = await runs.run(BREAK, recompile_queries=queries)
    same, resumed, first = (
        [(frame.resumed, frame.verdict) for frame in e.frames] for e in seen if isinstance(e, RecompileAnswer)
    )
    assert same == [(False, "matches"), (True, "matches"), (True, "not entered")]
    assert resumed == [(False, "matches"), (True, "recompiles"), (True, "unknown")]
    assert first == [(False, "recompiles"), (True, "unknown"), (True, "unknown")]


HOOKED = """\
import sys
import torch
from torch import nn

class Net(nn.Module):
    def forward(self, x, other):
        return x.sin()

@torch.compiler.disable
def checked(module, inputs):
    if len(inputs[0]) == 5:
        sys.exit("five rows")

model = Net()
model.register_forward_pre_hook(checked)
inputs = (torch.ones(4, 8), torch.ones(1))
"""


async def test_a_function_behind_a_hook_is_checked_and_a_call_may_exit(runs: Runs) -> None:
    seen = await runs.run(HOOKED, recompile_queries=("f32[6, 8], f32[3] strides[0]", "f32[5, 8], f32[1]"))
    possible, exits = (e for e in seen if isinstance(e, RecompileAnswer))
    assert [(frame.verdict, frame.note) for frame in possible.frames[:1]] == [("recompiles", "")]
    assert (exits.frames, exits.problem) == ((), "a call with these inputs raises SystemExit: five rows")


SCRIPT = """\
import time
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 1)
    def forward(self, x, flag=False):
        return self.fc(x).relu() if flag else self.fc(x)

@torch.compile(backend="eager")
def scaled(x, k):
    return x * k

def main():
    net = Net()
    net.compile(backend="eager")
    with torch.no_grad():
        net(torch.randn(3, 8), flag=True)
    scaled(torch.ones(3), 0.5)
    torch.compile(torch.optim.SGD(net.parameters(), lr=0.1).step, backend="eager")()
    until = time.monotonic() + WAIT
    while time.monotonic() < until:
        scaled(torch.ones(3), 0.5)
        time.sleep(0.02)
main()
"""


async def test_regions_of_a_script_answer_while_it_runs_and_after_its_end(runs: Runs) -> None:
    number = runs.submit(SCRIPT.replace("WAIT", "60"), time_for=None)
    await runs.until(lambda e: isinstance(e, RegionCompiled) and e.inputs == ("f32[3]", "0.5") and e.run == number)
    assert runs.supervisor.send(RecompileQuery(number=1, inputs=("f32[3]", "0.75"), region=0))
    during = await runs.until(lambda e: isinstance(e, RecompileAnswer) and e.run == number)
    assert isinstance(during, RecompileAnswer)
    assert (during.region, during.frames[0].verdict, during.frames[0].entries[0].failed.name) == (0, "recompiles", "k")

    number = runs.submit(SCRIPT.replace("WAIT", "0"), time_for=None)
    await runs.until(lambda e: isinstance(e, PhaseStarted) and e.phase == "answering" and e.run == number)
    made = {e.name: e.region for e in runs.events if isinstance(e, RegionCreated) and e.run == number}
    queries = [
        (("f32[3, 8]", "flag=True"), made["Net"]), (("f32[9, 8]", "flag=True"), made["Net"]),
        (("f32[3, 8]",), made["SGD.step"]), (("scaled: f32[3]", "0.5"), None), (("f32[3]",), None),
    ]  # fmt: skip
    for count, (inputs, region) in enumerate(queries):
        assert runs.supervisor.send(RecompileQuery(number=10 + count, inputs=inputs, region=region))
    await runs.until(lambda e: isinstance(e, RecompileAnswer) and e.number == 14 and e.run == number)
    answers = {e.number: e for e in runs.events if isinstance(e, RecompileAnswer) and e.run == number}
    verdicts = [answers[n].frames[0].verdict for n in (10, 11, 13)]
    assert verdicts == ["matches", "recompiles", "matches"], answers
    assert answers[11].frames[0].entries[0].failed.name == "x"
    assert "its own state" in answers[12].problem
    assert "scaled (line 12)" in answers[14].problem


COUNTED = """\
import torch

@torch.compile(backend="eager")
def scaled(x):
    return x * 2

while True:
    scaled(torch.ones(3))
    with open(STEPS, "a") as file:
        file.write(".")
"""


async def test_a_script_waits_while_timing_is_paused(runs: Runs, tmp_path: Path) -> None:
    steps = tmp_path / "steps"
    steps.touch()  # the first answer may come before the first step has ended

    async def steps_after(number: int) -> int:
        """Return how many steps the script has taken once it has answered a query."""
        assert runs.supervisor.send(RecompileQuery(number=number, inputs=("f32[3]",), region=0))
        await runs.until(lambda e: isinstance(e, RecompileAnswer) and e.number == number and e.run == run)
        return steps.stat().st_size

    run = runs.submit(COUNTED.replace("STEPS", repr(str(steps))), time_for=None)
    await runs.until(lambda e: isinstance(e, RegionCompiled) and e.run == run)
    running = await steps_after(1)
    await until(lambda: steps.stat().st_size > running)
    assert runs.supervisor.send(PauseTiming(paused=True))
    waiting = [await steps_after(number) for number in (2, 3, 4)]
    assert len(set(waiting)) == 1
    assert runs.supervisor.send(PauseTiming(paused=False))
    await until(lambda: steps.stat().st_size > waiting[0])


async def test_inputs_of_regions_are_recorded_only_for_queries(runs: Runs) -> None:
    quiet = await runs.run(SCRIPT.replace("WAIT", "0"))
    assert [e.inputs for e in quiet if isinstance(e, RegionCompiled)] == [(), (), ()]
    queried = await runs.run(SCRIPT.replace("WAIT", "0"), recompile_queries=("Net: f32[3, 8], flag=True",))
    (answer,) = [e for e in queried if isinstance(e, RecompileAnswer)]
    assert [frame.verdict for frame in answer.frames] == ["matches"]
    assert isinstance(queried[-1], Finished)


async def answers(runs: Runs, source: str, queries: tuple[str, ...]) -> list[RecompileAnswer]:
    """Run a file, and return the answers to its queries."""
    number = runs.submit(source, recompile_queries=queries)
    await runs.wait_for(Finished)
    return [e for e in runs.events if e.run == number and isinstance(e, RecompileAnswer)]


MASKED = """\
import torch

def model(ids, mask):
    return (ids * mask).sum()

inputs = (torch.ones(2, 16), torch.ones(2, 16))
"""


async def test_a_size_that_another_input_shares_changes_in_both_or_is_refused(runs: Runs) -> None:
    queries = ("f32[2, 17], f32[2, 16]", "f32[2, 17], f32[2, 5]", "f32[2, 1], f32[2, 16]")
    both, impossible, broadcast = await answers(runs, MASKED, queries)
    assert (both.inputs, both.changed_with) == (("f32[2, 17]", "f32[2, 17]"), ("f32[2, 17]",))
    assert both.frames[0].verdict == "recompiles"
    assert impossible.problem.startswith("a call with these inputs raises RuntimeError")
    assert (broadcast.inputs, broadcast.changed_with) == (("f32[2, 1]", "f32[2, 16]"), ())
    offered = [answer.with_equal_sizes for answer in (both, impossible, broadcast)]
    assert offered == [(), (), ("f32[2, 1]", "f32[2, 1]")]


LOSS = """\
import torch

@torch.compile(backend="eager")
def loss(logits, targets):
    return torch.nn.functional.cross_entropy(logits, targets)

for _ in range(2):
    loss(torch.randn(16, 8), torch.randint(8, (16,)))
"""


async def test_sizes_of_a_script_that_are_linked_change_together_though_its_tensors_are_gone(runs: Runs) -> None:
    queries = ("f32[33, 8], i64[16]", "f32[33, 8], i64[7]", "f32[16, 5], i64[16]")
    both, impossible, narrower = await answers(runs, LOSS, queries)
    assert (both.inputs, both.changed_with) == (("f32[33, 8]", "i64[33]"), ("i64[33]",))
    assert both.frames[0].verdict == "recompiles"
    assert impossible.problem.startswith("a call with these inputs raises")
    assert (narrower.inputs, narrower.problem) == (("f32[16, 5]", "i64[16]"), "")


SLICES = """\
import torch

@torch.compile(backend="eager")
def shifted(tokens, targets):
    return (tokens * targets).sum()

for size in (8, 4):
    batch = torch.randint(8, (size, 17))
    shifted(batch[:, :-1], batch[:, 1:])
"""


async def test_a_slice_of_a_batch_is_compared_as_a_slice(runs: Runs) -> None:
    queries = ("i64[33,16], i64[33,16]", "i64[33, 16], i64[8, 16]", "i64[33, 16] strides[16, 1], i64[33, 16]")
    given = await answers(runs, SLICES, queries)
    assert [answer.frames[0].verdict for answer in given] == ["matches", "matches", "recompiles"]
    assert [answer.changed_with for answer in given] == [(), ("i64[33, 16]",), ()]
