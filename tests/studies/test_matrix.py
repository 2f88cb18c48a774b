"""Cells one after another; one that fails or hangs is said to, and the rest goes on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from io import StringIO
from typing import Any

from tcexplore import events as ev
from tcexplore.report.text.matrix import print_matrix
from tcexplore.session.run_figures import RunFigures
from tcexplore.session.snapshot import start_snapshot
from tcexplore.studies.modes.modes_plan import cells, plan
from tcexplore.studies.modes.modes_text import conclusions
from tcexplore.studies.study_json import matrix
from tcexplore.studies.study_runs import Runs
from tests.studies.playing import JOB, MACHINE, Playback, failed, timed


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
        ev.Accuracy(verdict="as accurate as eager", max_abs=1e-7, calls=1, total_calls=1), ev.Finished(),
    ]  # fmt: skip


async def found() -> tuple[list[RunFigures], Playback]:
    players: list[Playback] = []

    def runner(emit):  # noqa: ANN001, ANN202
        players.append(Playback(emit, story))
        return players[0]

    async with Runs(runner) as runs:
        jobs = plan(JOB, MACHINE, modes=("default",), dynamic=(False,))
        return [cell async for cell in cells(jobs, runs, 0.05, "/there")], players[0]


async def test_a_cell_that_fails_or_hangs_says_why_and_the_rest_goes_on():
    made, player = await found()
    assert [cell.failure for cell in made] == [
        "InductorError: lowering failed",
        "Timeout: not finished after 0.05 s",
        "",
    ]
    assert [job.run for job in player.jobs] == [1, 2, 3]
    assert len({job.cache_dir for job in player.jobs}) == 3, "none finds the kernels of another"
    assert player.closed == 1
    assert (made[2].compile_s, made[2].max_abs) == (1.5, 1e-7)


async def test_the_matrix_as_text_and_as_json():
    made, _ = await found()
    page = StringIO()
    print_matrix(made, MACHINE, stopped=True, stream=page)
    text = page.getvalue()
    assert "2.00× ▲" in text
    assert "[1.99, 2.01]" in text
    assert "✖ eager, default, dynamic false: InductorError: lowering failed" in text
    assert "stopped after 3 runs" in text
    fields = matrix(made, MACHINE, stopped=True)
    assert [cell["status"] for cell in fields["cells"]] == ["failed", "failed", "ok"]
    assert fields["cells"][2]["timing"]["speedup"] == 2.0
    assert (fields["stopped"], fields["torch"]) == (True, "2.13.0")


def cell(speedup: float, mode: str, compile_s: float = 1.0, verdict: str = "", **changed: Any) -> RunFigures:
    """A finished run of Inductor; `changed` sets fields of its configuration, of its estimate those that that has."""
    own = {name: value for name, value in changed.items() if name in ("low", "high", "eager_us")}
    config = {name: value for name, value in changed.items() if name not in own}
    job = replace(JOB, config=ev.Config(mode=mode, dynamic=False))
    run = start_snapshot(replace(job, config=replace(job.config, **config)))
    story = [
        ev.PhaseTimed(name="dynamo", seconds=compile_s, graph="0/0", depth=0),
        replace(timed(speedup, verdict=verdict), **own), ev.Finished(),
    ]  # fmt: skip
    for event in story:
        run = run.apply(replace(event, run=1))
    return RunFigures(run)


def test_of_those_that_are_level_the_one_that_compiles_soonest_is_to_be_used():
    first, *rest = conclusions([
        cell(1.5, "max-autotune", 9.0, low=1.4, high=1.6), cell(1.45, "default", 2.0, low=1.39, high=1.5),
        cell(1.2, "lite", 0.5), cell(1.3, "default", 3.0, dynamic=True),
    ])  # fmt: skip
    assert first == "Use torch.compile(…, dynamic=False): 1.45× eager's speed [1.39, 1.50]."
    assert rest == [
        "Within 5 % of it, as far as can be told: inductor, max-autotune, dynamic false. It compiles soonest of them, "
        "in 2.00 s.",
        "It compiles again for each new size; one program for many: inductor, default, dynamic true, 1.30×.",
    ]


def test_a_wide_interval_does_not_win_by_chance_nor_a_long_compile_by_a_hair():
    first, second, *_ = conclusions([
        cell(1.48, "default", 6.5, low=1.47, high=1.49), cell(1.56, "max-autotune", 10.4, low=1.51, high=1.59),
        cell(1.7, "lite", 2.0, low=1.2, high=2.1),
    ])  # fmt: skip
    assert first == "Use torch.compile(…, dynamic=False): 1.48× eager's speed [1.47, 1.49]."
    assert second == (
        "Within 5 % of it, as far as can be told: inductor, max-autotune, dynamic false; inductor, lite, dynamic false."
    )


def test_of_those_that_compile_as_soon_the_plainest_is_to_be_used():
    first, second = conclusions([cell(1.35, "default", 3.8), cell(1.35, "reduce-overhead", 3.5)])
    assert first.startswith("Use torch.compile(…, dynamic=False): 1.35×")
    assert "soonest" not in second


def test_a_wrong_result_is_never_the_one_to_use():
    bad = cell(9.0, "max-autotune")
    bad = RunFigures(bad.run.apply(ev.Accuracy(run=1, verdict="wrong", max_abs=3.0)))
    found = list(conclusions([bad, cell(1.2, "default", dynamic=None)]))
    assert found == [
        "Use torch.compile(…): 1.20× eager's speed [1.19, 1.21].",
        "✖ another result than eager, however fast: inductor, max-autotune, dynamic false",
    ]


def test_where_nothing_is_faster_eager_is_left_and_what_is_not_known_is_said():
    slow, unknown = cell(0.7, "default"), cell(1.3, "lite", verdict="undecided")
    assert list(conclusions([slow])) == ["Leave it eager: none is faster beyond the noise."]
    assert list(conclusions([slow], more=True)) == []
    assert list(conclusions([slow, cell(0.9, "lite", verdict="undecided")])) == list(conclusions([slow]))
    assert list(conclusions([slow, unknown])) == [
        "None can be recommended: of 2 runs 1 could not be told from the noise; the other is not faster. A quiet "
        "machine helps, and so does --threads 1."
    ]


def test_eager_times_that_differ_between_runs_are_warned_of():
    *_, warning = conclusions([cell(0.7, "default"), cell(0.7, "lite", eager_us=71_000.0)])
    assert warning.startswith("Eager took from 100 µs to 71.0 ms: the machine was not as busy in all runs.")
