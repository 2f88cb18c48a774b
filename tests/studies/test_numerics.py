"""The numerics study names the wrong op, its statement and its line, and accuses no correct program."""

from __future__ import annotations

import asyncio
import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

from tcexplore import events as ev
from tcexplore.session import Snapshot
from tcexplore.studies.growth_rows import kernel_name, result_name
from tcexplore.studies.numerics import STUDY, NumericsOptions, NumericsRun, steps_compared
from tcexplore.studies.runs import Runs
from tcexplore.studies.study import StudyState, run_study
from tests import fakes
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


def test_a_kernel_has_its_label_in_the_panes():
    run = fakes.complete()
    first, *others = run.code.kernels
    called = replace(first, name="extern_kernels.addmm:3", language="extern")
    run = replace(run, codes=(replace(run.code, kernels=(called, *others)),))
    names = [kernel_name(run, kernel.graph, kernel.phase, kernel.name) for kernel in (called, others[0])]
    assert names == ["E1 addmm:3", f"kernel 1 {others[0].name}"]
    assert kernel_name(run, "9/9", "forward", "extern_kernels.mm") == "mm"


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
    assert "The results are then bitwise equal to eager's; it costs 10% of the compiled call" in report
    bits = json_of("numerics", state)["numerics"]["eager_bits"]
    assert (bits["identical"], round(bits["time_ratio"], 2)) == (True, 1.1)
    assert bits["low"] < 1.1 < bits["high"]


async def test_a_wrong_program_is_not_timed():
    judgement = (judged("k", "differs, not wrong", 3.0), tried("casts", equal=True), ev.NumericsJudged(verdict="wrong"))
    state, player = await played("numerics", lambda _: [*judgement, ev.Finished()], job=JOB)
    assert len(player.jobs) == 1, "a wrong program is not timed"
    assert "What it costs is not measured" not in printed("numerics", state)


async def test_how_errors_grow_is_shown_for_results_kernels_and_modules():
    graph = ev.GraphCaptured(
        graph="0/0", ops=1, code="",
        nodes=(ev.FxNode(name="w", op="placeholder", target="self.fc.weight"),),
    )  # fmt: skip
    state = await studied(
        graph,
        judged("cpp_fused_exp_0", "differs, not wrong", 3.0),
        ev.ResultError(graph="0/0", phase="forward", number=0, node="add", compiled=3.1e-6, eager=2.9e-7),
        ev.ResultError(graph="0/0", phase="backward", number=0, node="mm", compiled=4e-5, eager=4e-7),
        ev.ResultError(graph="0/0", phase="forward", number=1, node="exp", compiled=math.inf, eager=math.inf),
        ev.KernelErrorGrowth(
            graph="0/0", phase="forward", kernel="cpp_fused_exp_0", order=0, local=1e-7, output=3e-6, gradient=4e-5
        ),
        *(
            ev.ModuleErrorGrowth(
                graph="0/0", phase="forward", module=f"self.layers.{n}.norm", ops=4, error_in=1e-7,
                error_out=1e-6 * (n + 1), passed_on=9e-7 * (n + 1),
            )
            for n in range(3)
        ),
        ev.NumericsJudged(verdict="differs, not wrong"),
    )  # fmt: skip
    report = " ".join(printed("numerics", state).split())
    assert "gradient of fc.weight 4.0e-05 4.0e-07" in report
    assert "cpp_fused_exp_0 1.0e-07 3.0e-06 30× 4.0e-05 400×" in report
    assert "layers.2.norm, worst of 3 1.0e-07 3.0e-06 2.7e-06 27×" in report
    growth = json_of("numerics", state)["numerics"]["growth"]
    assert growth["results"][1]["name"] == "gradient of fc.weight"
    assert "output 1 not finite not finite" in report
    assert growth["results"][2]["compiled"] is None
    assert growth["kernels"][0]["at_gradients"] == 4e-5
    assert len(growth["modules"]) == 3


def not_finite(side: ev.Side, float64: str, compiled: str = "inf") -> ev.FirstOp:
    return ev.FirstOp(
        kind="not finite", side=side, graph="0/0", phase="forward", kernel="cpp_fused_mul_0", order=0, op="aten.mul",
        node="mul", statement="auto tmp1 = tmp0 * 1e5;", statement_line=3, dtype="f16", index=(0, 3),
        inputs=(ev.OperandValue("x", "1.5"),), eager="inf", float64=float64, compiled=compiled,
    )  # fmt: skip


async def test_the_op_that_overflows_in_eager_is_shown_with_the_reason():
    events = (judged("k", "differs, not wrong", 3.0), ev.NumericsJudged(verdict="differs, not wrong"))
    state = await studied(not_finite("eager", "150000", "150000"), *events)
    report = printed("numerics", state)
    assert "The first op whose value is not finite, in eager" in report
    assert "with x = 1.5" in report
    assert "Overflow: the largest value of f16 is 65504. Generated code keeps it in float32." in report
    (first,) = json_of("numerics", state)["numerics"]["not_finite"]
    assert (first["side"], first["op"], first["inputs"]) == ("eager", "aten.mul", [{"name": "x", "value": "1.5"}])
    undefined = printed("numerics", await studied(not_finite("both", "nan"), *events))
    assert "the op has no finite value for these inputs" in undefined


# ---- real kernels


async def really_studied(
    folder: Path, source: str, shared: SharedRuns, options: NumericsOptions, *, train: bool = False
) -> State:
    file = folder / "model.py"
    file.write_text(source)
    job = replace(ev.Job(run=1, file=str(file), source=source), config=ev.Config(train=train), examine=False)
    state = State(job, options, 120)
    async with Runs(shared.supervisor.study_queue) as runs:
        await run_study(STUDY, state, runs, lambda _: None, lambda _: None)
    return state


async def really_judged(folder: Path, source: str, shared: SharedRuns, *, train: bool = False) -> Snapshot:
    return (await really_studied(folder, source, shared, NumericsOptions(), train=train)).results[0].run


SCRIPT = """
import torch
from torch._inductor import lowering

aten = torch.ops.aten
{fault}

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.Tanh(), torch.nn.Dropout(0.1), torch.nn.Linear(32, 4))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
compiled = torch.compile(model)
for step in range(8):
    x = torch.randn(64, 16)
    loss = (compiled(x) - x[:, :4]).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""

FAULT = """
lowering.lowerings[aten.tanh.default] = lambda x, original=lowering.lowerings[aten.tanh.default]: (
    lowering.lowerings[aten.mul.Tensor](original(x), 0.9)
)
"""


@pytest.mark.torch
@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.parametrize("fault", ["", FAULT], ids=["correct", "wrong"])
async def test_the_step_at_which_a_script_leaves_its_eager_run_is_named(
    tmp_path: Path, shared_runs: SharedRuns, fault: str
):
    state = await really_studied(tmp_path, SCRIPT.format(fault=fault), shared_runs, NumericsOptions(steps=6))
    assert [result.run.failure for result in state.results] == [None] * 4
    compared = steps_compared(state.results)
    assert compared is not None
    assert (compared.steps, compared.parameters) == (6, 4)
    assert STUDY.exit_status(state) == (1 if fault else 0)
    if not fault:
        assert compared.first is None, compared.leaving
        return
    assert compared.first is not None
    assert compared.first.step == 1
    assert compared.first.name in ("0.weight", "0.bias", "3.weight", "3.bias")


@pytest.mark.torch
@pytest.mark.asyncio(loop_scope="session")
async def test_the_reproducer_runs_in_a_new_process_without_tcexplore(tmp_path: Path, shared_runs: SharedRuns):
    folder = tmp_path / "repro"
    options = NumericsOptions(reproducer=str(folder), cost=False)
    state = await really_studied(tmp_path, CODEGEN[1].source, shared_runs, options)
    assert STUDY.write(state) == ""
    blocked = "import sys, runpy; sys.modules['tcexplore'] = None; runpy.run_path(sys.argv[1], run_name='__main__')"
    command = [sys.executable, "-c", blocked, str(folder / "repro.py")]
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "elements differ from eager, at most by" in done.stdout


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def correct_run(tmp_path_factory: pytest.TempPathFactory, shared_runs: SharedRuns) -> Snapshot:
    """Return the run of the study of a correct program in float32."""
    folder = tmp_path_factory.mktemp("correct")
    return await really_judged(folder, CORRECT.format(dtype="float32"), shared_runs, train=True)


@pytest.mark.torch
@pytest.mark.asyncio(loop_scope="session")
async def test_errors_grow_to_the_gradients_of_a_real_program(correct_run: Snapshot):
    run = correct_run
    names = {result_name(run, one) for one in run.result_errors}
    assert {"output 0", "gradient of fc.weight", "gradient of norm.bias"} <= names
    assert all(one.compiled < 1e-3 for one in run.result_errors)
    forward = [one for one in run.kernel_errors if one.phase == "forward"]
    assert any(one.output for one in forward)
    assert any(one.gradient for one in forward)
    assert all(one.output is None for one in run.kernel_errors if one.phase == "backward")
    assert {"self.norm"} <= {one.module for one in run.module_errors}


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
async def test_a_correct_program_is_not_accused(correct_run: Snapshot):
    assert_not_accused(correct_run)


@pytest.mark.torch
@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
async def test_a_correct_program_of_low_precision_is_not_accused(tmp_path: Path, shared_runs: SharedRuns, dtype: str):
    assert_not_accused(await really_judged(tmp_path, CORRECT.format(dtype=dtype), shared_runs, train=True))


def assert_not_accused(run: Snapshot) -> None:
    assert run.numerics is not None
    assert {judged.verdict for judged in run.kernels_judged} <= {"bitwise equal", "differs, not wrong", "not judged"}
    assert any(judged.verdict == "differs, not wrong" for judged in run.kernels_judged)


KEPT_IN_REGISTERS = """
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k = nn.Linear(64, 64, bias=False), nn.Linear(64, 64, bias=False)

    def forward(self, x):
        return torch.tanh(self.q(x)) * torch.sigmoid(self.k(x))


torch.manual_seed(0)
model = Model()
inputs = (torch.randn(64, 64),)
"""


@pytest.mark.torch
@pytest.mark.asyncio(loop_scope="session")
async def test_memory_of_a_value_that_a_kernel_keeps_in_registers_is_not_taken_for_it(
    tmp_path: Path, shared_runs: SharedRuns
):
    run = await really_judged(tmp_path, KEPT_IN_REGISTERS, shared_runs, train=True)
    assert run.numerics is not None
    assert run.numerics.verdict == "differs, not wrong"
    assert any("sigmoid_backward" in judged.kernel for judged in run.kernels_judged)
