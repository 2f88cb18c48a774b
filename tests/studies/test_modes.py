"""The modes study: a run that fails or hangs does not end it, and the recommendation is sound."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import pytest

from tcexplore import events as ev
from tcexplore.documents.verdicts import format_outcome
from tcexplore.events.timing_events import TimingVerdict
from tcexplore.session.economics import RunFigures
from tcexplore.session.snapshot import start_snapshot
from tcexplore.studies import timed_cells
from tcexplore.studies.mode_variants import ModesOptions, tried_modes
from tcexplore.studies.modes import conclusions, planned_jobs
from tcexplore.studies.study import StudyState
from tests.studies.playback import JOB, MACHINE, Playback, failed, json_of, played, printed, timed


def planned(options: ModesOptions) -> list[tuple[str, str, bool | None]]:
    configs = [job.config for job in planned_jobs(JOB, MACHINE, options)]
    return [(config.backend, config.mode, config.dynamic) for config in configs]


def test_the_plan_has_the_modes_of_this_torch_for_inductor_only():
    assert planned(ModesOptions()) == [
        ("eager", "default", None), ("aot_eager", "default", None),
        ("inductor", "default", None), ("inductor", "default", True), ("inductor", "max-autotune", None),
    ]  # fmt: skip


async def test_on_a_cpu_modes_that_differ_in_cuda_graphs_only_are_left_out():
    modes = ("default", "lite", "reduce-overhead", "max-autotune-no-cudagraphs", "max-autotune")
    cpu, gpu = (replace(MACHINE, modes=modes, device=device) for device in ("cpu", "cuda: NVIDIA H200"))

    def run(machine: ev.Standby, options: ModesOptions) -> set[str]:
        return {job.config.mode for job in planned_jobs(JOB, machine, options)}

    assert run(cpu, ModesOptions()) == {"default", "lite", "max-autotune"}
    assert run(gpu, ModesOptions()) == set(modes)
    assert run(cpu, ModesOptions(modes=("reduce-overhead",))) == {"default", "reduce-overhead"}, "as the user says"
    state, _ = await played("modes", story, ModesOptions(dynamic=(None,)))
    assert "Not run" not in printed("modes", state)
    state.machine = cpu
    assert "Not run: reduce-overhead, max-autotune-no-cudagraphs. On a CPU" in printed("modes", state)


def test_the_plan_has_cudagraphs_on_a_gpu():
    on_gpu = planned_jobs(JOB, replace(MACHINE, device="cuda: NVIDIA H200"), ModesOptions(dynamic=(None,)))
    assert [job.config.backend for job in on_gpu] == ["eager", "aot_eager", "inductor", "inductor", "cudagraphs"]


def test_requested_modes_and_backends_are_planned_unchanged():
    options = ModesOptions(backends=("tvm",), modes=("lite",))
    assert planned(options) == [("tvm", "default", None)]
    of_a_mode = ModesOptions(backends=("eager", "inductor"), modes=("lite", "max-autotune"))
    assert planned(of_a_mode) == [
        ("eager", "default", None), ("inductor", "lite", None), ("inductor", "lite", True),
        ("inductor", "max-autotune", None),
    ]  # fmt: skip
    options = ModesOptions(backends=("inductor",), modes=("lite",))
    static = replace(JOB, config=ev.Config(dynamic=False))
    assert [job.config.dynamic for job in planned_jobs(static, MACHINE, options)] == [False, True]
    dynamic = replace(JOB, config=ev.Config(dynamic=True))
    assert [job.config.dynamic for job in planned_jobs(dynamic, MACHINE, options)] == [True, None]


def story(job: ev.Job) -> list[ev.Event]:
    if job.config.backend == "eager":
        return [failed()]
    if job.config.backend == "aot_eager":
        return [ev.PhaseStarted(phase="inductor", at=0.1)]
    return [
        ev.PhaseTimed(name="dynamo", seconds=1.5, graph="0/0", depth=0), timed(2.0),
        ev.Accuracy(verdict="as accurate as eager", max_abs=1e-7, calls=1, total_calls=1), ev.Finished(),
    ]  # fmt: skip


async def compared() -> tuple[StudyState[Any, Any], Playback]:
    return await played("modes", story, ModesOptions(modes=("default",), dynamic=(False,)), timeout=0.05)


async def test_a_run_that_fails_or_hangs_does_not_end_the_study():
    state, player = await compared()
    results = state.results
    assert [result.failure for result in results] == [
        "InductorError: lowering failed",
        "Timeout: not finished after 0.05 s",
        "",
    ]
    assert [job.run for job in player.jobs] == [1, 2, 3]
    assert len({job.cache_dir for job in player.jobs}) == 3, "no run uses kernels of another"
    assert player.closed
    assert (results[2].compile_s, results[2].max_abs) == (1.5, 1e-7)


async def test_a_file_that_fails_is_not_tried_in_other_modes():
    def story(_: ev.Job) -> list[ev.Event]:
        return [ev.Failed(stage="eager", blame="user", type="TypeError", message="no tensor")]

    state, player = await played("modes", story, ModesOptions())
    assert len(player.jobs) == 1
    assert "✖ inductor, default, dynamic auto: TypeError: no tensor" in " ".join(printed("modes", state).split())
    assert len(json_of("modes", state)["runs"]) == len(state.planned) == 1


async def test_on_a_cpu_modes_that_differ_in_cuda_graphs_only_come_last(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(timed_cells, "_core_count", lambda: 1)
    modes = ("default", "reduce-overhead", "lite", "max-autotune-no-cudagraphs", "max-autotune")
    options = ModesOptions(modes=modes, backends=("inductor",), dynamic=(False,))
    _, player = await played("modes", lambda _: [timed(2.0), ev.Finished()], options)
    order = ["default", "max-autotune", "lite", "reduce-overhead", "max-autotune-no-cudagraphs"]
    assert [job.config.mode for job in player.jobs] == order


async def test_the_results_as_text_and_json():
    state, _ = await compared()
    state.stopped = True
    report = printed("modes", state)
    assert "2.00× ▲" in report
    assert "[1.99, 2.01]" in report
    assert "✖ eager, default, dynamic false: InductorError: lowering failed" in report
    assert "stopped after 3 results" in report
    assert "enter" not in report, "keys mean nothing in a report"
    fields = json_of("modes", state)
    assert [run["status"] for run in fields["runs"]] == ["failed", "failed", "ok"]
    assert fields["runs"][2]["timing"]["speedup"] == 2.0
    assert (fields["schema"], fields["study"], fields["stopped"], fields["torch"]) == (3, "modes", True, "2.13.0")


def finished(
    speedup: float, mode: str, compile_s: float = 1.0, verdict: TimingVerdict | None = None, **changed: Any
) -> RunFigures:
    """Return a finished run of Inductor; `changed` are fields of its estimate or of its configuration."""
    estimate = {name: value for name, value in changed.items() if name in ("low", "high", "eager_us", "compiled_us")}
    config = {name: value for name, value in changed.items() if name not in estimate}
    run = start_snapshot(replace(JOB, config=replace(ev.Config(mode=mode, dynamic=False), **config)))
    events = [
        ev.PhaseTimed(name="dynamo", seconds=compile_s, graph="0/0", depth=0),
        replace(timed(speedup, verdict=verdict), **estimate), ev.Finished(),
    ]  # fmt: skip
    for event in events:
        run = run.apply(replace(event, run=1))
    return RunFigures(run)


def test_of_equally_fast_modes_the_one_with_the_shortest_compile_is_recommended():
    first, *rest = conclusions([
        finished(1.5, "max-autotune", 9.0, low=1.4, high=1.6), finished(1.45, "default", 2.0, low=1.39, high=1.5),
        finished(1.2, "lite", 0.5), finished(1.3, "default", 3.0, dynamic=True),
    ])  # fmt: skip
    assert first == "Use torch.compile(…, dynamic=False): 1.45× eager's speed [1.39, 1.50]."
    assert rest == [
        "May be within 5% of it, or faster: inductor, max-autotune, dynamic false.",
        "The recommended one compiles fastest of these: 2.00 s.",
        "It recompiles for each new size; with dynamic shapes: inductor, default, dynamic true, 1.30×.",
    ]


def test_neither_a_wide_interval_nor_a_slightly_longer_compile_decides():
    first, second, *_ = conclusions([
        finished(1.48, "default", 6.5, low=1.47, high=1.49), finished(1.56, "max-autotune", 10.4, low=1.51, high=1.59),
        finished(1.7, "lite", 2.0, low=1.2, high=2.1),
    ])  # fmt: skip
    assert first == "Use torch.compile(…, dynamic=False): 1.48× eager's speed [1.47, 1.49]."
    assert (
        second
        == "May be within 5% of it, or faster: inductor, max-autotune, dynamic false; inductor, lite, dynamic false."
    )


def test_a_mode_that_is_not_certainly_faster_does_not_replace_the_default():
    """The interval of the default may be wider by chance."""
    default = finished(1.41, "default", 29.6, low=1.02, high=1.68)
    tuned = finished(1.41, "max-autotune", 40.3, low=1.25, high=1.59)
    assert next(conclusions([default, tuned])).startswith("Use torch.compile(…, dynamic=False): 1.41×")
    faster = finished(1.7, "max-autotune", 40.3, low=1.5, high=1.8)
    assert "max-autotune" in next(conclusions([default, faster]))


def test_an_undecided_default_mode_that_may_be_as_fast_is_named():
    default = finished(1.1, "default", low=0.95, high=1.2, verdict="undecided")
    tuned = finished(1.14, "max-autotune", 2.0, low=1.06, high=1.2)
    first, *others = conclusions([default, tuned])
    assert "max-autotune" in first
    assert "The default mode may be as fast: undecided, 1.10× [0.95, 1.20]." in others
    certain = finished(1.5, "max-autotune", 2.0, low=1.4, high=1.6)
    assert not any("may be as fast" in text for text in conclusions([default, certain]))


def test_of_modes_with_similar_compile_times_the_first_is_recommended():
    first, second = conclusions([finished(1.35, "default", 3.8), finished(1.35, "reduce-overhead", 3.5)])
    assert first.startswith("Use torch.compile(…, dynamic=False): 1.35×")
    assert "shortest" not in second


def test_of_modes_with_the_same_kernels_the_first_is_recommended():
    def with_kernel(figures: RunFigures, source: str) -> RunFigures:
        kernel = ev.Kernel(run=1, graph="0/0", phase="forward", name="cpp_0", language="cpp", source=source)
        return RunFigures(figures.run.apply(kernel))

    default, graphs = finished(1.48, "default", 20.0), finished(1.5, "reduce-overhead", 7.0)
    assert next(conclusions([default, graphs])).startswith('Use torch.compile(…, mode="reduce-overhead"')
    first, second = conclusions([with_kernel(default, "a"), with_kernel(graphs, "a")])
    assert first.startswith("Use torch.compile(…, dynamic=False): 1.48×")
    assert second == "Same kernels: inductor, reduce-overhead, dynamic false."
    noisy = finished(1.3, "default", 20.0, low=1.1, high=1.6)
    assert next(conclusions([with_kernel(noisy, "a"), with_kernel(graphs, "a")])).startswith(
        "Use torch.compile(…, dynam"
    )
    slower = finished(1.4, "default", 20.0, low=1.35, high=1.45)
    assert "reduce-overhead" in next(conclusions([with_kernel(slower, "a"), with_kernel(graphs, "a")]))
    assert "reduce-overhead" in next(conclusions([with_kernel(default, "a"), with_kernel(graphs, "b")]))


def test_how_often_autotuning_took_the_call_of_the_library_is_said():
    def tuned(kind: Literal["template", "extern"], node: str) -> ev.Autotuned:
        choices = (ev.TuningChoice("fast", kind, 1.0, chosen=True), ev.TuningChoice("slow", "template", 2.0))
        return ev.Autotuned(
            run=1, graph="0/0", phase="forward", method="algorithms", op="mm", node=node, choices=choices
        )

    kernel = ev.Kernel(run=1, graph="0/0", phase="forward", name="cpp_0", language="cpp", source="same")
    runs = [RunFigures(finished(1.5, mode).run.apply(kernel)) for mode in ("default", "max-autotune")]
    assert not any("measure" in line for line in conclusions(runs[:1]))
    name = "inductor, max-autotune, dynamic false"
    text = f"{name}: torch had no template to measure against the library, so the kernels are the usual ones."
    assert text in list(conclusions(runs))
    autotuned = runs[1].run.apply(tuned("extern", "mm")).apply(tuned("template", "mm_1"))
    text = f"{name}: a library call was the fastest for 1 of 2 ops that were measured."
    assert text in list(conclusions([runs[0], RunFigures(autotuned)]))


async def test_a_study_that_decides_nothing_gives_the_verdict_of_the_files_own_timing():
    state, _ = await played("modes", story, ModesOptions(dynamic=(None,)))
    own = finished(1.1, "default", low=1.08, high=1.12).run
    state.results = [finished(1.1, "default", verdict="undecided", low=1.02, high=1.2)]
    assert own.timing is not None
    text = f"The timing of the file decides, with {own.timing.pairs} pairs: 1.10× faster [1.08, 1.12]."
    assert text not in printed("modes", state), "without one"
    state.own = own
    assert text in printed("modes", state)
    state.results = [finished(1.5, "default")]
    assert text not in printed("modes", state), "this study decides"
    state.own, state.results = (
        finished(1.1, "default", verdict="undecided").run,
        [finished(1.1, "lite", verdict="undecided")],
    )
    assert "The timing of the file" not in printed("modes", state)


def test_a_mode_that_the_noise_leaves_undecided_says_so():
    run = finished(1.08, "default", verdict="undecided", low=1.02, high=1.2).run
    assert run.timing is not None
    noisy = run.apply(replace(run.timing, noise_floor=0.13))
    assert "1.08× [1.02, 1.20] (eager against itself varies by up to 13%" in format_outcome(RunFigures(noisy))
    clear = run.apply(replace(run.timing, speedup=1.15, noise_floor=0.13))
    assert "varies" not in format_outcome(RunFigures(clear)), "the noise does not explain it"


def test_the_next_steps_know_modes_that_were_timed_without_a_verdict():
    wide = finished(1.2, "max-autotune", verdict="undecided", low=0.8, high=1.9)
    runs = [
        finished(1.5, "default"), finished(1.4, "lite"), wide,
        finished(0.9, "max-autotune-no-cudagraphs", verdict="undecided"),
    ]  # fmt: skip
    tried = tried_modes([*runs, finished(1.2, "reduce-overhead", verdict="measuring")], ev.Config())
    assert [(step.step, step.verdict) for step in tried] == [
        ("mode lite", "slower"),
        ("mode max-autotune", "undecided"),
        ("mode max-autotune-no-cudagraphs", "slower"),
    ]


def test_a_mode_with_the_kernels_of_the_usual_one_is_no_gain_on_a_cpu():
    kernel = ev.Kernel(run=1, graph="0/0", phase="forward", name="cpp_0", language="cpp", source="same")
    usual, tuned = (finished(speedup, mode) for speedup, mode in ((1.5, "default"), (1.7, "max-autotune")))
    runs = [RunFigures(each.run.apply(kernel)) for each in (usual, tuned)]
    (step,) = tried_modes(runs, ev.Config())
    assert (step.same_code, step.problem, step.speedup) == (True, "", None)
    (step,) = tried_modes([runs[0], RunFigures(tuned.run.apply(replace(kernel, source="other")))], ev.Config())
    assert (step.same_code, step.verdict) == (False, "faster")
    timing = tuned.run.timing
    assert timing is not None
    on_gpu = RunFigures(tuned.run.apply(kernel).apply(replace(timing, device="cuda")))
    (step,) = tried_modes([runs[0], on_gpu], ev.Config())
    assert (step.same_code, step.verdict) == (False, "faster"), "there, a mode may replay CUDA graphs"


def test_a_mode_is_not_faster_by_less_than_the_noise_of_undecided_runs():
    def tried(noise: float) -> TimingVerdict | None:
        runs = [
            finished(speedup, mode, verdict="undecided", low=speedup - 0.02, high=speedup + 0.02)
            for speedup, mode in ((1.0, "default"), (1.08, "lite"))
        ]
        timings = [run.run.timing for run in runs]
        noisy = [
            RunFigures(run.run.apply(replace(timing, noise_floor=noise)))
            for run, timing in zip(runs, timings, strict=True)
            if timing is not None
        ]
        (step,) = tried_modes(noisy, ev.Config())
        return step.verdict

    assert (tried(0.0), tried(0.13)) == ("faster", "undecided")


def test_the_next_steps_know_modes_that_failed_or_are_wrong():
    failure = ev.Failed(run=1, stage="inductor", blame="compiler", type="InductorError", message="no template\nfits")
    broken = RunFigures(finished(1.0, "max-autotune").run.apply(failure))
    wrong = finished(9.0, "lite")
    wrong = RunFigures(wrong.run.apply(ev.Accuracy(run=1, verdict="wrong", max_abs=3.0)))
    tried = tried_modes([finished(1.5, "default"), broken, wrong], ev.Config())
    assert [(step.step, step.problem, step.speedup) for step in tried] == [
        ("mode max-autotune", "InductorError: no template", None),
        ("mode lite", "its result differs from eager's", None),
    ]


def test_a_mode_with_a_wrong_result_is_never_recommended():
    wrong = finished(9.0, "max-autotune")
    wrong = RunFigures(wrong.run.apply(ev.Accuracy(run=1, verdict="wrong", max_abs=3.0)))
    assert list(conclusions([wrong, finished(1.2, "default", dynamic=None)])) == [
        "Use torch.compile(…): 1.20× eager's speed [1.19, 1.21].",
        "✖ result differs from eager's: inductor, max-autotune, dynamic false",
    ]


def test_eager_is_recommended_if_nothing_is_faster_and_undecided_runs_are_counted():
    slow, unknown = finished(0.7, "default"), finished(1.3, "lite", verdict="undecided")
    assert list(conclusions([slow])) == ["Stay with eager: no run is faster beyond the noise."]
    assert list(conclusions([slow], more=True)) == [
        "So far no run is certainly faster than eager; the fastest is inductor, default, dynamic false, slower, "
        "0.70× [0.69, 0.71]."
    ]
    assert list(conclusions([slow, finished(0.9, "lite", verdict="undecided")])) == list(conclusions([slow]))
    (recommendation,) = conclusions([slow, unknown])
    assert recommendation.startswith(
        "No certain recommendation: 1 of 2 runs may be faster, most likely inductor, lite, dynamic false, undecided, "
        "1.30× [1.29, 1.31]; the other is not faster. "
    )
    assert "--threads 1" in recommendation


def test_eager_times_that_differ_between_runs_cause_a_warning():
    slower_machine = finished(0.7, "lite", eager_us=71_000.0, compiled_us=101_400.0)
    *_, warning = conclusions([finished(0.7, "default"), slower_machine])
    assert warning.startswith("Eager took 100 µs to 71.0 ms: the load of the machine changed between runs.")


def test_times_that_do_not_give_the_speedup_beside_them_are_explained():
    varied = finished(1.17, "lite", eager_us=110.0, compiled_us=109.0)
    assert list(conclusions([finished(1.5, "default"), varied]))[-1] == (
        "Speedups are those of calls next to each other, times are medians of all calls. They give another ratio where "
        "times varied: inductor, lite, dynamic false 1.01×."
    )
