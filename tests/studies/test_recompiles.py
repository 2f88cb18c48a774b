"""The recompile study: which variants are tried, what they gain, and the conclusions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tcexplore import events as ev
from tcexplore.events.input_specs import MAX_CALLS, VaryError, parse_varies, parse_vary
from tcexplore.session import Snapshot
from tcexplore.session.compile_time import COMPILE, RECOMPILE
from tcexplore.session.snapshot import start_snapshot
from tcexplore.studies.recompiles import (
    PASSES,
    STUDY,
    UNCHANGED,
    RecompilesOptions,
    VariantRun,
    call_lane,
    suggested_specs,
    variants,
)
from tcexplore.studies.runs import Runs
from tcexplore.studies.study import StudyState, run_study
from tests.studies.playback import JOB, Story, failed, json_of, played, printed, shown
from tests.supervisor.runs import Runs as SharedRuns

SIZE = ev.Recompiled(
    graph="0/1", failed_entry="0/0", failed_guard="size of x", reason="", old="2", new="3", kind="size", name="x",
    dim=0,
    origin="argument",
)  # fmt: skip
FLOAT = replace(SIZE, graph="0/2", failed_guard="lr == 0.1", old="0.1", new="0.01", kind="float", name="lr", dim=None)


def made(*seconds: float, compiles: dict[int, str]) -> list[ev.Event]:
    """Return each call once eagerly, then `PASSES` times compiled; `compiles` are the graphs of the first pass."""
    eager = [ev.CallMade(index=i, variant="eager", seconds=1e-4) for i in range(len(seconds))]
    first = [
        ev.CallMade(index=i, variant="compiled", seconds=s, compiles=int(i in compiles), graphs=(compiles.get(i, ""),))
        for i, s in enumerate(seconds)
    ]
    later = [ev.CallMade(index=i, variant="compiled", seconds=5e-5) for i in range(len(seconds))]
    return [*eager, *first, *later * (PASSES - 1), ev.Finished()]


def story(job: ev.Job) -> list[ev.Event]:
    config = job.config
    if config.buckets:
        return [failed("no room to pad")]
    if config.dynamic:
        return made(1.0, 1e-4, 1e-4, compiles={0: "0/0"})
    if config.as_tensors or config.mark_dynamic:
        left = SIZE if config.as_tensors else FLOAT
        return [left, *made(1.0, 0.5, 1e-4, compiles={0: "0/0", 1: left.graph})]
    return [SIZE, FLOAT, *made(1.0, 0.5, 0.5, compiles={0: "0/0", 1: "0/1", 2: "0/2"})]


VARIED = RecompilesOptions(("x.0=2,3", "lr=0.1,0.01"))


async def studied(story: Story = story) -> StudyState[RecompilesOptions, VariantRun]:
    state, _ = await played("recompiles", story, VARIED)
    return state


async def test_applicable_variants_are_tried_and_combined_ones_only_if_needed():
    results = (await studied()).results
    assert [result.variant.name for result in results] == [
        "unchanged", "dynamic=True", "mark_dynamic", "buckets", "tensor for float",
    ]  # fmt: skip
    configs = {result.variant.name: result.run.config for result in results}
    assert configs["mark_dynamic"].mark_dynamic == ("x.0",)
    assert configs["tensor for float"].as_tensors == ("lr",)
    assert (configs["buckets"].buckets, configs["buckets"].dynamic) == (("x.0",), False)
    assert [result.recompiles for result in results] == [2, 0, 1, 0, 1]
    first = results[0]
    assert (first.calls, first.first_pass_s, round(first.warm_call_us or 0)) == (3, 2.0, 50)
    assert [mark.kind for mark in call_lane(first.run).marks] == [COMPILE, RECOMPILE, RECOMPILE]


async def test_the_results_as_text_json_and_on_the_screen():
    state = await studied()
    report, screen = printed("recompiles", state), shown("recompiles", state)
    for sentence in (
        "3 calls, the file's own first, each made 3 times",
        "call 2: recompiled, 500 ms",
        "2 → 3: size of x",
        "torch._dynamo.mark_dynamic(x, 0)",
        "InductorError: no room to pad",
        "dynamic=True avoids the most: 2 recompiles → 0, first pass 2.00 s → 1.00 s",
    ):
        assert sentence in report, report
        assert sentence in screen
    fields = json_of("recompiles", state)
    assert [variant["recompiles"] for variant in fields["variants"]] == [2, 0, 1, 0, 1]
    assert fields["variants"][3]["error"]["message"] == "no room to pad"
    assert len(fields["variants"][0]["compiled_calls"]) == 3 * PASSES


def test_only_arguments_are_varied():
    attribute = replace(FLOAT, name="self.scale", origin="attribute")
    run = ev.Job(run=1, file="f", source="")
    assert variants(start_snapshot(run)) == ()
    assert variants(start_snapshot(run).apply(replace(attribute, run=1))) == ()
    position = start_snapshot(run).apply(replace(SIZE, run=1, name="args[1]"))
    assert [variant.change(ev.Config()).mark_dynamic for variant in variants(position)][1] == ("1.0",)


def test_inputs_of_resume_functions_are_not_varied():
    rest = ev.FrameEntered(run=1, graph=SIZE.graph, resumed=True)
    again = start_snapshot(ev.Job(run=1, file="f", source="")).apply(rest).apply(replace(SIZE, run=1))
    assert [variant.name for variant in variants(again)] == ["dynamic=True"]


def test_sizes_that_change_together_are_marked_and_padded_together():
    sources = [ev.SymbolSource(name=name, kind="size", dim=0) for name in ("x", "y", "kwargs['z']")]
    symbols = tuple(ev.Symbol(name=f"s{index}", sources=(one,)) for index, one in enumerate(sources))
    run = start_snapshot(ev.Job(run=1, file="f", source="")).apply(replace(SIZE, run=1))
    tried = variants(run.apply(ev.GraphSymbols(run=1, graph=SIZE.graph, symbols=symbols)))
    configs = {variant.name: variant.change(ev.Config()) for variant in tried}
    assert configs["mark_dynamic"].mark_dynamic == configs["buckets"].buckets == ("x.0", "y.0")


def test_the_call_that_hits_the_recompile_limit_is_known():
    limited = replace(SIZE, limit_hit=True)
    run = [limited, *made(1.0, 0.5, 1e-4, compiles={0: "0/0", 1: "0/1"})]
    result = VariantRun(UNCHANGED, applied(run))
    assert result.limit_hit_at == 2
    assert result.recompiles == 0


def applied(events: list[ev.Event]) -> Snapshot:
    snapshot = start_snapshot(JOB)
    for event in events:
        snapshot = snapshot.apply(replace(event, run=JOB.run))
    return snapshot


def test_specs_are_parsed():
    assert parse_vary("x.0=1..3,8").values == (1, 2, 3, 8)
    assert (parse_vary("lr=0.1,-1,True,None,'a'").dim, parse_vary("lr=0.1,True").values) == (None, (0.1, True))
    assert (parse_vary(" 1 . 2 = 4").argument, parse_vary("1.2=4").dim) == ("1", 2)


@pytest.mark.parametrize(
    "text", ["x", "=1", "x.0=", "x.0=3..1", "x.0=1.5", "x.0=-1", "x=[1]", "x.0=True", "x=1,,2", f"x=1..{10**12}"]
)
def test_an_invalid_spec_has_a_message_of_one_line(text: str):
    with pytest.raises(VaryError) as raised:
        parse_varies((text,))
    assert "\n" not in str(raised.value)


def test_combinations_have_a_limit():
    with pytest.raises(VaryError, match="10,000 calls"):
        parse_varies((f"x.0=1..{MAX_CALLS // 10}", f"y=1..{MAX_CALLS // 10}"))


def test_the_first_tensor_is_suggested():
    def entry(*calls: tuple[str, ...]) -> ev.EntryFound:
        return ev.EntryFound(name="model", kind="module", rule="", calls=calls)

    assert suggested_specs(entry(("True", "f32[8, 4]")), ()) == "1.0=1..16"
    assert suggested_specs(entry(("x=f32[8, 4]",)), ()) == "x.0=1..16"
    assert suggested_specs(entry(("f32[8]",), ("f32[9]",)), ()) == ""
    assert suggested_specs(entry(("f32[8]",)), ("x.1=1,2",)) == "x.1=1,2"
    guard = ev.Recompiled(graph="0/1", failed_entry="0/0", failed_guard="", reason="", name="x", dim=0, old="8",
                          new="33", kind="size")  # fmt: skip
    answer = ev.EntryAnswer(graph="0/0", matches=False, failed=guard)
    frame = ev.FrameAnswer(number="0", verdict="recompiles", entries=(answer,))
    checked = ev.RecompileAnswer(number=1, inputs=("f32[33, 4]",), frames=(frame,))
    assert suggested_specs(entry(("x=f32[8, 4]",)), (), (checked,)) == "x.0=8,33"


SCALED = """\
import torch

def model(x, rate=0.1):
    return (x * rate).relu()

inputs = (torch.randn(4, 8),)
"""


@pytest.mark.torch
@pytest.mark.asyncio(loop_scope="session")
async def test_variants_avoid_real_recompiles(tmp_path: Path, shared_runs: SharedRuns):
    file = tmp_path / "model.py"
    file.write_text(SCALED)
    job = ev.Job(run=1, file=str(file), source=SCALED, config=ev.Config(backend="eager"))
    state = StudyState[RecompilesOptions, VariantRun](job, RecompilesOptions(("x.0=3,5,6", "rate=0.1,0.2")), 60)
    async with Runs(shared_runs.supervisor.study_queue) as runs:
        await run_study(STUDY, state, runs, lambda _: None, lambda _: None)
    results = {result.variant.name: result for result in state.results}
    assert {name: result.run.failure for name, result in results.items()} == dict.fromkeys(results)
    assert {result.calls for result in results.values()} == {7}, "the file's own call, then all combinations"
    assert results["unchanged"].recompiles >= 2
    assert results["mark_dynamic"].recompiles < results["unchanged"].recompiles
    assert results["tensor for float"].recompiles < results["unchanged"].recompiles
    assert results["dynamic=True"].recompiles == 0
    padding = results["buckets"].run.padding_check
    assert padding is not None
    assert (padding.verdict, padding.calls) == ("equal", 6)
    assert all((result.warm_call_us or 0) > 0 for result in results.values())


@pytest.mark.parametrize(
    ("judged", "sentence"),
    [
        (
            ev.PaddingChecked(verdict="equal", calls=3, max_abs=1e-7),
            "results of 3 padded calls equal those of eager",
        ),
        (ev.PaddingChecked(verdict="different", calls=1, max_abs=0.5, reason="call 1, output"), "changes the results"),
        (ev.PaddingChecked(verdict="not compared", reason="it draws"), "not compared with unpadded ones: it draws"),
    ],
    ids=lambda given: getattr(given, "verdict", None),
)
async def test_a_variant_whose_padding_changes_the_results_is_not_recommended(judged: ev.PaddingChecked, sentence: str):
    def padded(job: ev.Job) -> list[ev.Event]:
        return [judged, *made(0.1, 1e-4, 1e-4, compiles={0: "0/0"})] if job.config.buckets else story(job)

    state = await studied(padded)
    report = " ".join(printed("recompiles", state).split())
    assert sentence in report
    assert sentence in " ".join(shown("recompiles", state).split())
    assert ("buckets avoids the most" in report) == (judged.verdict != "different")
    variants = json_of("recompiles", state)["variants"]
    (buckets,) = [variant for variant in variants if variant["variant"] == "buckets"]
    assert buckets["padding"]["verdict"] == judged.verdict


async def test_no_run_uses_kernels_of_another():
    state, player = await played("recompiles", story, RecompilesOptions())
    assert len(state.results) > 1
    folders = [job.cache_dir for job in player.jobs]
    assert len(set(folders)) == len(folders)
    assert not Path(folders[0]).parent.exists()
