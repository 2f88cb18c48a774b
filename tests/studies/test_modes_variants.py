"""Variants in the modes study: planned where the model has a use for them, and compared with the row they vary."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from tcexplore import events as ev
from tcexplore.cli.arguments import parse
from tcexplore.documents.configurations import describe_variant
from tcexplore.session.economics import RunFigures
from tcexplore.session.snapshot import start_snapshot
from tcexplore.studies.mode_variants import SHAPES, ModesOptions
from tcexplore.studies.modes import planned_jobs
from tcexplore.studies.study import StudyState
from tcexplore.studies.study_json import run_fields
from tests.studies import playback
from tests.studies.playback import JOB, MACHINE, Playback, json_of, played, printed, timed

FEATURES = ("nested_compile_region", "nested_graph_breaks", "numerics", "guard_filter_fn")
FIRST_CALL_S = {"whole": 8.0, "blocks": 2.0, "nested": 4.0}
COLD_S = {"whole": 12.0, "blocks": 6.0, "nested": 8.0}
SPEEDUP = {"whole": 1.5, "blocks": 1.2, "nested": 1.5}

GUARDS = ev.GuardsInstalled(graph="0/0", guards=(), latency_us=20.0)


def story(job: ev.Job) -> Sequence[ev.Event]:
    config = job.config
    if job.cold:
        return [ev.CallMade(index=0, variant="compiled", seconds=COLD_S[config.regions], compiles=1), ev.Finished()]
    faster = 1.25 if config.guard_filter else 1.0
    return [
        ev.RepeatedBlocks(kinds=(("Layer", 8),)),
        ev.CallMade(index=0, variant="compiled", seconds=FIRST_CALL_S[config.regions], compiles=1),
        *([GUARDS] if not config.guard_filter else []),
        timed(SPEEDUP[config.regions] * faster),
        ev.Accuracy(verdict="as accurate as eager", max_abs=1e-7, calls=1, total_calls=1), ev.Finished(),
    ]  # fmt: skip


@pytest.fixture
def featured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(playback, "MACHINE", replace(MACHINE, features=FEATURES))


async def compared(**options: Any) -> tuple[StudyState[Any, Any], Playback]:
    given = {"backends": ("inductor",), "modes": ("default",), "dynamic": (False,), **options}
    return await played("modes", story, ModesOptions(**given))


@pytest.mark.usefixtures("featured")
async def test_a_model_with_repeated_blocks_gets_rows_for_regions_and_expensive_guards_rows_for_filters():
    state, _ = await compared()
    rows = [(result.run.config.regions, result.run.config.guard_filter) for result in state.results]
    assert rows == [
        ("whole", ""), ("blocks", ""), ("nested", ""), ("whole", "skip_guard_on_inbuilt_nn_modules_unsafe"),
        ("whole", "skip_guard_on_all_nn_modules_unsafe"), ("whole", "skip_guard_eval_unsafe"),
    ]  # fmt: skip


@pytest.mark.usefixtures("featured")
async def test_all_modes_are_compared_before_the_variants_of_one():
    _, player = await compared(modes=("default", "max-autotune"), backends=("inductor", "eager"))
    jobs = [job.config for job in player.jobs if not job.cold]
    variants = [config for config in jobs if config.regions != "whole" or config.guard_filter]
    others = [config for config in jobs if config not in variants and config.backend == "inductor"]
    assert len(variants) > 2
    assert jobs[: len(others)] == others


@pytest.mark.usefixtures("featured")
async def test_the_regions_are_compared_in_compile_time_and_speed():
    state, _ = await compared()
    table = printed("modes", state, 300)
    head = next(line for line in table.splitlines() if "variant" in line)
    assert "speedup  95% interval" in head[:80], "a long variant does not hide the speedup"
    report = " ".join(table.split())
    assert "Repeated blocks: 8 × Layer. Against the whole model:" in report
    assert (
        "blocks by themselves, first call in a new process 6.00 s instead of 12.0 s (2.00×), then 0.80× its speed"
        in report
    )
    blocks, nested = json_of("modes", state)["regional"]
    assert (blocks["regions"], blocks["blocks"]) == ("blocks", {"Layer": 8})
    assert (blocks["cold_ratio"], blocks["cold_s"], blocks["whole_cold_s"]) == (2.0, 6.0, 12.0)
    assert blocks["steady_ratio"] == pytest.approx(0.8)
    assert blocks["steady_low"] < 0.8 < blocks["steady_high"]
    assert nested["steady_ratio"] == pytest.approx(1.0)
    assert nested["accuracy"] == "as accurate as eager"


@pytest.mark.usefixtures("featured")
async def test_regions_without_a_verdict_are_not_compared_in_speed():
    def noisy(job: ev.Job) -> Sequence[ev.Event]:
        return [timed(1.2, verdict="undecided") if isinstance(e, ev.TimingEstimate) else e for e in story(job)]

    given = ModesOptions(backends=("inductor",), modes=("default",), dynamic=(False,))
    state, _ = await played("modes", noisy, given)
    assert "(2.00×), then undecided because of noise" in " ".join(printed("modes", state, 300).split())


@pytest.mark.usefixtures("featured")
async def test_a_guard_filter_is_shown_with_its_gain_and_danger_but_never_recommended():
    state, _ = await compared(regions=("whole",))
    report = " ".join(printed("modes", state, 300).split())
    assert "The first, cold check of the guards takes 20.0 µs, 30% of a compiled call. skip_guard_on_inbuilt" in report
    assert "skip_guard_on_all_nn_modules_unsafe: 1.25× the speed" in report
    assert "Unsafe: a change of any attribute of a module after the compile goes unnoticed." in report
    fields = json_of("modes", state)
    assert fields["use"]["guard_filter"] is None
    assert [filtered["steady_ratio"] for filtered in fields["guard_filters"]] == [pytest.approx(1.25)] * 3
    assert fields["guard_filters"][0]["guard_share"] == pytest.approx(0.3)


@pytest.mark.usefixtures("featured")
async def test_requested_variants_replace_the_automatic_ones():
    state, _ = await compared(regions=("blocks",), nested_breaks=(False, True), guard_filters=("none",))
    variants = [(result.run.config.regions, result.run.config.settings) for result in state.results]
    assert variants == [("blocks", ()), ("blocks", ("torch._dynamo.config.nested_graph_breaks=True",))]


@pytest.mark.usefixtures("featured")
@pytest.mark.parametrize(
    ("verdict", "tried"),
    [("as accurate as eager", []), ("less accurate than eager", ["strict numerics"]), ("wrong", ["strict numerics"])],
)
async def test_strict_numerics_are_tried_if_results_are_worse(verdict: ev.AccuracyVerdict, tried: list[str]):
    def inexact(job: ev.Job) -> Sequence[ev.Event]:
        exact = "torch._inductor.config.numerics=strict" in job.config.settings
        accuracy = ev.Accuracy(verdict="as accurate as eager" if exact else verdict, calls=1, total_calls=1)
        return [accuracy if isinstance(event, ev.Accuracy) else event for event in story(job)]

    given = ModesOptions(
        backends=("inductor",), modes=("default",), dynamic=(False,), regions=("whole",), guard_filters=("none",)
    )
    state, _ = await played("modes", inexact, given)
    rows = {describe_variant(result.run.config): result.run.accuracy for result in state.results}
    assert list(rows) == ["", *tried]
    if tried:
        assert rows["strict numerics"].verdict == "as accurate as eager"
        assert "strict numerics" in printed("modes", state)


def test_requested_numerics_are_settings_of_inductor_only():
    options = ModesOptions(
        backends=("eager", "inductor"), modes=("default",), dynamic=(False,), numerics=("default", "strict_reduction")
    )
    configs = [job.config for job in planned_jobs(JOB, MACHINE, options)]
    assert [(config.backend, config.settings) for config in configs] == [
        ("eager", ()), ("inductor", ()), ("inductor", ("torch._inductor.config.numerics=strict_reduction",)),
    ]  # fmt: skip


def test_kinds_of_shapes_replace_dynamic():
    job = replace(JOB, config=replace(JOB.config, vary=("x.0=8,16",)))
    configs = [job.config for job in planned_jobs(job, MACHINE, ModesOptions(shapes=SHAPES))]
    assert [config.dynamic for config in configs] == [False, None, True, None, True]
    assert [config.mark_unbacked for config in configs] == [(), (), (), ("x.0",), ()]
    assert configs[-1].settings == ("torch.fx.experimental._config.backed_size_oblivious=True",)
    assert {(config.backend, config.mode) for config in configs} == {("inductor", "default")}


def test_recompiles_are_graphs_and_not_records():
    entries = [("0/1", "0/0"), ("0/2", "0/1"), ("0/2", "0/0"), ("0/3", "0/2"), ("0/3", "0/1"), ("0/3", "0/0")]
    run = start_snapshot(JOB)
    for graph, failed in entries:
        run = run.apply(ev.Recompiled(run=JOB.run, graph=graph, failed_entry=failed, failed_guard="", reason=""))
    assert run_fields(RunFigures(run))["recompiles"] == 3


async def test_kinds_of_shapes_have_their_recompiles_in_the_table_and_in_json():
    def recompiling(job: ev.Job) -> Sequence[ev.Event]:
        again = ev.Recompiled(graph="0/1", failed_entry="0/0", failed_guard="", reason="size mismatch")
        return [*([again] if job.config.dynamic is False else []), *story(job)]

    state, _ = await played("modes", recompiling, ModesOptions(shapes=("static", "backed")))
    static, backed = json_of("modes", state)["shapes"]
    assert (static["shapes"], static["recompiles"], static["speedup"]) == ("static", 1, 1.5)
    assert (backed["shapes"], backed["recompiles"]) == ("backed", 0)
    assert "recompiles" in printed("modes", state)


def test_the_command_line_names_variants(capsys: pytest.CaptureFixture[str]):
    given = ["modes", "model.py", "--regions", "whole,blocks", "--nested-graph-breaks", "true",
             "--guard-filters", "none", "--shapes", "static,backed", "--vary", "x.0=8,16"]  # fmt: skip
    request = parse(given)
    assert (request.study.regions, request.study.nested_breaks) == (("whole", "blocks"), (True,))
    assert (request.study.shapes, request.config.vary) == (("static", "backed"), ("x.0=8,16",))
    for wrong in (["--regions", "half"], ["--shapes", "unbacked"], ["--nested-graph-breaks", "maybe"]):
        with pytest.raises(SystemExit):
            parse(["modes", "model.py", *wrong])
    assert "--vary" in capsys.readouterr().err
