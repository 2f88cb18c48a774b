"""Cells one after another; one that fails or hangs is said to, and the rest goes on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from io import StringIO

from tcexplore import events as ev
from tcexplore.report.json_studies import matrix
from tcexplore.report.text.matrix import print_matrix
from tcexplore.session.cell import Cell
from tcexplore.study.matrix import cells, plan
from tcexplore.study.runs import Runs
from tests.study.playing import JOB, MACHINE, Playback, failed, timed


def planned(**asked: Sequence[str]) -> list[tuple[str, str, bool | None]]:
    return [(job.config.backend, job.config.mode, job.config.dynamic) for job in plan(JOB, MACHINE, **asked)]


def test_what_this_torch_lists_is_the_plan_and_modes_belong_to_inductor():
    assert planned() == [
        ("eager", "default", False), ("eager", "default", True),
        ("aot_eager", "default", False), ("aot_eager", "default", True),
        ("inductor", "default", False), ("inductor", "default", True),
        ("inductor", "max-autotune", False), ("inductor", "max-autotune", True),
    ]  # fmt: skip


def test_on_a_gpu_cudagraphs_join_in():
    on_gpu = plan(JOB, replace(MACHINE, device="cuda: NVIDIA H200"), dynamic=(None,))
    assert [job.config.backend for job in on_gpu] == ["eager", "aot_eager", "inductor", "inductor", "cudagraphs"]


def test_what_was_asked_for_is_taken_as_it_is():
    assert planned(backends=("tvm",), modes=("lite",)) == [("tvm", "default", False), ("tvm", "default", True)]


def story(job: ev.Job) -> list[ev.Event]:
    if job.config.backend == "eager":
        return [failed()]
    if job.config.backend == "aot_eager":
        return [ev.PhaseStarted(phase="inductor", at=0.1)]
    return [
        ev.PhaseTimed(name="dynamo", seconds=1.5, graph="0/0", depth=0), timed(2.0),
        ev.Accuracy(verdict="as accurate as eager", max_abs=1e-7, calls=1, of=1), ev.Finished(),
    ]  # fmt: skip


async def found() -> tuple[list[Cell], Playback]:
    players: list[Playback] = []

    def runner(emit):  # noqa: ANN001, ANN202
        players.append(Playback(emit, story))
        return players[0]

    async with Runs(runner) as runs:
        jobs = plan(JOB, MACHINE, modes=("default",), dynamic=(False,))
        return [cell async for cell in cells(jobs, runs, 0.05)], players[0]


async def test_a_cell_that_fails_or_hangs_says_why_and_the_rest_goes_on():
    made, player = await found()
    assert [cell.why for cell in made] == ["InductorError: lowering failed", "Timeout: not finished after 0.05 s", ""]
    assert [job.run for job in player.jobs] == [1, 2, 3]
    assert player.closed == 1
    assert (made[2].compile_s, made[2].max_abs) == (1.5, 1e-7)


async def test_the_matrix_as_text_and_as_json():
    made, _ = await found()
    page = StringIO()
    print_matrix(made, MACHINE, stopped=True, stream=page)
    text = page.getvalue()
    assert "2.00×" in text
    assert "[1.99, 2.01]" in text
    assert "✖ eager, default, dynamic false: InductorError: lowering failed" in text
    assert "stopped after 3 runs" in text
    fields = matrix(made, MACHINE, stopped=True)
    assert [cell["status"] for cell in fields["cells"]] == ["failed", "failed", "ok"]
    assert fields["cells"][2]["timing"]["speedup"] == 2.0
    assert (fields["stopped"], fields["torch"]) == (True, "2.13.0")
