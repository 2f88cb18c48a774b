"""The numerics study names the wrong op, its statement and its line, and accuses no correct program."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tcexplore import events as ev
from tcexplore.session import Snapshot
from tcexplore.studies.numerics import STUDY, NumericsOptions, NumericsRun
from tcexplore.studies.runs import Runs
from tcexplore.studies.study import StudyState, run_study
from tests.studies.numeric_faults import BACKWARD, CODEGEN, LOWERINGS, NumericFault
from tests.studies.playback import JOB, json_of, played, printed, timed
from tests.supervisor.runs import Runs as SharedRuns

State = StudyState[NumericsOptions, NumericsRun]

CORRECT = """
import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(64, 64)
        self.norm = torch.nn.LayerNorm(64)

    def forward(self, x):
        h = torch.nn.functional.gelu(self.fc(x))
        h = self.norm(torch.nn.functional.dropout(h, 0.1))
        return torch.softmax(h * 3, -1), (h > 0).sum(-1), h.round()


torch.manual_seed(0)
model = Model().to(torch.{dtype})
inputs = (torch.randn(32, 64, dtype=torch.{dtype}),)
loss = lambda output: output[0].float().square().sum()
"""


def judged(kernel: str, verdict: ev.KernelVerdict, ulps: float | None = None) -> ev.KernelJudged:
    return ev.KernelJudged(
        graph="0/0", phase="forward", kernel=kernel, order=0, verdict=verdict, ulps=ulps, elements=8,
        differing=0 if verdict == "bitwise equal" else 3,
    )  # fmt: skip


async def studied(*events: ev.Event, options: NumericsOptions | None = None) -> State:
    state, _ = await played("numerics", lambda _: [*events, ev.Finished()], job=JOB)
    state.options = options or NumericsOptions()
    return state


async def test_a_difference_is_no_failure_unless_the_options_say_so():
    events = (judged("cpp_fused_exp_0", "differs, not wrong", 3.0), ev.NumericsJudged(verdict="differs, not wrong"))
    state = await studied(*events)
    assert "Some kernels differ from eager, none is wrong" in printed("numerics", state)
    assert STUDY.exit_status(state) == 0
    assert STUDY.exit_status(await studied(*events, options=NumericsOptions("differs"))) == 1
    assert STUDY.exit_status(await studied(*events, options=NumericsOptions(max_ulps=2.0))) == 1
    assert STUDY.exit_status(await studied(*events, options=NumericsOptions(max_ulps=4.0))) == 0


async def test_a_wrong_op_is_shown_with_its_statement_line_and_values():
    first = ev.FirstOp(
        kind="wrong", graph="0/0", phase="forward", kernel="cpp_fused_exp_0", order=0, op="aten.exp", node="exp",
        statement="auto tmp1 = tmp0.exp();", statement_line=12, location=ev.Location(JOB.file, 1, "model"),
        index=(0, 3), inputs=(ev.OperandValue("x", "1"),), eager="2.71828", float64="2.718281828", compiled="2.8",
        bound="1e-06",
    )  # fmt: skip
    state = await studied(judged("cpp_fused_exp_0", "wrong", 9.0), first, ev.NumericsJudged(verdict="wrong"))
    report = printed("numerics", state)
    for text in ("1 kernel call of 1 wrong. First op: aten.exp at line 1.", "tmp0.exp();", "with x = 1", "2.8"):
        assert text in report
    fields = json_of("numerics", state)["numerics"]
    assert (fields["verdict"], fields["first"]["op"], fields["first"]["line"]) == ("wrong", "aten.exp", 1)
    assert fields["kernels"][0]["differing"] == 3
    assert STUDY.exit_status(state) == 1
    assert STUDY.exit_status(await studied(*[first], options=NumericsOptions("never"))) == 0


async def test_of_many_kernels_the_worst_are_shown():
    kernels = [replace(judged(f"cpp_{n}", "differs, not wrong", 1.0), bound_share=n / 100) for n in range(40)]
    state = await studied(*kernels, ev.NumericsJudged(verdict="differs, not wrong"))
    report = printed("numerics", state)
    assert "cpp_39" in report
    assert "cpp_15 " not in report
    assert "16 more, none of which is worse" in report
    assert len(json_of("numerics", state)["numerics"]["kernels"]) == 40


def tried(name: str, *, equal: bool) -> ev.SwitchTried:
    setting = "torch._inductor.config.emulate_precision_casts=True"
    return ev.SwitchTried(
        graph="0/0", phase="forward", kernel="cpp_fused_exp_0", name=name, settings=(setting,),
        ops=("aten.exp.default",), equal=equal, differing=0 if equal else 2,
    )  # fmt: skip


async def test_what_gives_the_bits_of_eager_is_timed_with_and_without_it():
    judgement = (
        judged("cpp_fused_exp_0", "differs, not wrong", 3.0), tried("casts", equal=False),
        tried("casts; eager's functions: exp", equal=True), ev.NumericsJudged(verdict="differs, not wrong"),
    )  # fmt: skip

    def story(job: ev.Job) -> list[ev.Event]:
        if job.numerics:
            return [*judgement, ev.Finished()]
        changed = bool(job.eager_ops)
        accuracy = ev.Accuracy(verdict="identical" if changed else "as accurate as eager")
        return [accuracy, timed(1.5 if changed else 1.65), ev.Finished()]

    state, player = await played("numerics", story, job=JOB)
    last = player.jobs[-1]
    assert (last.eager_ops, last.config.settings) == (
        ("aten.exp.default",), ("torch._inductor.config.emulate_precision_casts=True",)
    )  # fmt: skip
    report = " ".join(printed("numerics", state).split())
    assert "The results are then bitwise equal to eager's; it costs 10 % of the compiled call" in report
    bits = json_of("numerics", state)["numerics"]["eager_bits"]
    assert (bits["identical"], round(bits["time_ratio"], 2)) == (True, 1.1)
    assert bits["low"] < 1.1 < bits["high"]


async def test_a_wrong_program_is_not_timed():
    judgement = (judged("k", "differs, not wrong", 3.0), tried("casts", equal=True), ev.NumericsJudged(verdict="wrong"))
    state, player = await played("numerics", lambda _: [*judgement, ev.Finished()], job=JOB)
    assert len(player.jobs) == 1, "a wrong program is not timed"
    assert "What it costs is not measured" not in printed("numerics", state)


# ---- real kernels


async def really_judged(folder: Path, source: str, shared: SharedRuns, *, train: bool = False) -> Snapshot:
    file = folder / "model.py"
    file.write_text(source)
    job = replace(ev.Job(run=1, file=str(file), source=source), config=ev.Config(train=train), examine=False)
    state = State(job, NumericsOptions(), 120)
    async with Runs(shared.supervisor.study_queue) as runs:
        await run_study(STUDY, state, runs, lambda _: None, lambda _: None)
    return state.results[0].run


SEEDED = (CODEGEN[0], next(f for f in LOWERINGS if f.op == "gather"), BACKWARD[0])


@pytest.mark.torch
@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.parametrize("fault", SEEDED, ids=lambda fault: fault.name)
async def test_a_seeded_fault_is_found_with_its_statement(tmp_path: Path, shared_runs: SharedRuns, fault: NumericFault):
    run = await really_judged(tmp_path, fault.source, shared_runs, train=fault.train)
    assert run.numerics is not None
    assert run.numerics.verdict == "wrong"
    first = run.first_op
    assert first is not None
    assert first.location is not None
    assert (first.op.rpartition(".")[2], first.location.line) == (fault.op, fault.line)
    assert fault.statement in first.statement
    assert first.phase == ("backward" if fault.train else "forward")


@pytest.mark.torch
@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
async def test_a_correct_program_is_not_accused(tmp_path: Path, shared_runs: SharedRuns, dtype: str):
    run = await really_judged(tmp_path, CORRECT.format(dtype=dtype), shared_runs, train=True)
    assert run.numerics is not None
    assert {judged.verdict for judged in run.kernels_judged} <= {"bitwise equal", "differs, not wrong", "not judged"}
    assert any(judged.verdict == "differs, not wrong" for judged in run.kernels_judged)
