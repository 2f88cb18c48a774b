"""Cache artifacts from one process to another, and names in the state dict."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tcexplore import events as ev
from tcexplore.documents.timing.state_dict_view import state_dict_document
from tcexplore.events.config import SHIPPING
from tcexplore.studies.artifacts import STUDY, ArtifactsOptions, artifact_runs
from tcexplore.studies.runs import Runs
from tcexplore.studies.study import StudyState, run_study
from tests.studies import playback
from tests.studies.playback import failed, json_of, played, printed, text
from tests.studies.stories import artifacts_story
from tests.supervisor.runs import Runs as SharedRuns

CACHE = ArtifactsOptions(("cache",))

SOURCE = """\
import torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 2)
    def forward(self, x):
        return self.linear(x).relu()

model, inputs = Model(), (torch.ones(3, 4),)
"""


async def test_the_second_process_has_empty_caches_and_the_artifacts_of_the_first():
    state, player = await played("artifacts", artifacts_story, CACHE)
    first, second, third = player.jobs
    assert third.config.settings == ("torch._inductor.config.cpp.simdlen=256",)
    assert first.caches != second.caches
    assert first.save_artifacts == second.load_artifacts != ""
    assert not Path(first.caches).parent.exists()
    runs = artifact_runs(state.results)
    assert runs is not None
    assert (runs.hits, runs.first_call_saved_s) == (1, 4.9)


async def test_the_results_as_text_json_and_in_the_timing_pane():
    state, _ = await played("artifacts", artifacts_story, CACHE)
    report = " ".join(printed("artifacts", state).split())
    for sentence in (
        "2 names, each with the prefix '_orig_mod.'",
        "model.compile(), in place: the same names as the model",
        "Saved 2.0 KiB: 1 inductor",
        "first call 9.00 s 4.00 s",
        "fx_graph cache miss ×1 hit ×1",
        "the second process compiles 1 C++ file again, 3.00 s",
        "Second process: 1 hit, first call 4.90 s faster",
        "With the other settings: miss ×1. The keys differ in: inductor_config[cpp.simdlen]: None → 256",
    ):
        assert sentence in report, report
    fields = json_of("artifacts", state)
    assert (fields["saved_bytes"], fields["hits"], fields["first_call_saved_s"]) == (2048, 1, 4.9)
    assert fields["loading"]["cpp_compiler_s"] == 3.0
    assert "_orig_mod.weight" in text(state_dict_document(state.results[0].run, width=100))


async def test_nothing_is_loaded_if_nothing_was_saved():
    state, player = await played("artifacts", lambda _: [ev.ArtifactsSaved(bytes=0), ev.Finished()])
    assert [job.artifacts for job in player.jobs] == list(SHIPPING), "each way is tried once"
    assert "nothing to save" in printed("artifacts", state)


async def test_each_way_has_a_row_and_a_way_that_fails_does_not_end_the_study():
    def ahead(job: ev.Job) -> list[ev.Event]:
        if job.artifacts == "aotinductor":
            return [failed("export failed")]
        if job.artifacts != "aot_compile":
            return artifacts_story(job)
        done: list[ev.Event] = [
            ev.CallMade(index=0, variant="compiled", seconds=0.5, compiles=0),
            ev.Accuracy(verdict="identical", calls=1, total_calls=1), ev.Finished(),
        ]  # fmt: skip
        if job.save_artifacts:
            return [ev.ArtifactsSaved(bytes=4096, seconds=6.0, guards=7), *done]
        return [ev.ArtifactsLoaded(seconds=0.25), *done]

    state, player = await played("artifacts", ahead)
    assert [(job.artifacts, bool(job.save_artifacts)) for job in player.jobs].count(("aotinductor", False)) == 0
    report = " ".join(printed("artifacts", state, 160).split())
    assert "aot_compile 6.50 s 4.0 KiB 7 750 ms identical" in report
    assert "AOTInductor ✖ failed" in report
    assert "InductorError: export failed" in report
    ways = {way["way"]: way for way in json_of("artifacts", state)["ways"]}
    assert (ways["aot_compile"]["guards"], ways["aot_compile"]["ready_loading_s"]) == (7, 0.75)
    assert ways["precompile"]["other"]["misses"] == 1
    (difference,) = ways["cache"]["other"]["key_differences"]
    assert difference == {
        "part": "inductor_config[cpp.simdlen]", "before": "None", "after": "256", "file": None, "line": None,
    }  # fmt: skip


async def test_a_way_that_this_torch_lacks_is_missing_with_the_reason(monkeypatch: pytest.MonkeyPatch):
    machine = replace(playback.MACHINE, features=("guard_filter_fn",))
    monkeypatch.setattr(playback, "MACHINE", machine)
    state, player = await played("artifacts", artifacts_story, ArtifactsOptions(("cache", "precompile_capture")))
    assert {job.artifacts for job in player.jobs} == {"cache"}
    report = " ".join(printed("artifacts", state, 160).split())
    assert "precompile.capture missing" in report
    reason = "torch 2.13.0 has no torch.compiler.precompile.capture, which is new in torch 2.15"
    assert f"precompile.capture: {reason}." in report
    cache, capture = json_of("artifacts", state)["ways"]
    assert (cache["missing"], capture["missing"], capture["saving"]) == (None, reason, None)
    assert cache.keys() == capture.keys()
    assert STUDY.exit_status(state) == 0
    alone, player = await played("artifacts", artifacts_story, ArtifactsOptions(("precompile_capture",)))
    assert (player.jobs, alone.refused) == ([], f"{reason}.")


@pytest.mark.torch
@pytest.mark.asyncio(loop_scope="session")
async def test_torch_loads_in_a_second_process_what_the_first_one_saved(tmp_path: Path, shared_runs: SharedRuns):
    from torch._inductor import cpu_vec_isa

    aot = "torch._inductor.config.aot_inductor"
    # AOTInductor would precompile headers for two files; the options of the wrapper do not matter.
    config = ev.Config(settings=(f"{aot}.precompile_headers=False", f"{aot}.compile_wrapper_opt_level='O0'"))
    # The vectors of this machine: other ones would need other precompiled headers.
    other = (f"torch._inductor.config.cpp.simdlen={cpu_vec_isa.pick_vec_isa().bit_width() or 256}",)
    job = ev.Job(run=1, file=str(tmp_path / "model.py"), source=SOURCE, config=config)
    state: StudyState[ArtifactsOptions, Any] = StudyState(job, ArtifactsOptions(other=other), 120.0)
    async with Runs(shared_runs.supervisor.study_queue) as runs:
        await run_study(STUDY, state, runs, lambda _: None, lambda _: None)
    for ship in state.results:
        assert ship.run.failure is None, (ship.way, ship.step, ship.run.failure)
        if ship.step == "loading":
            assert ship.run.accuracy is not None
            assert ship.run.accuracy.verdict in ("identical", "as accurate as eager"), ship.way
    ways = {way["way"]: way for way in json_of("artifacts", state)["ways"]}
    assert list(ways) == list(SHIPPING)
    assert {name for name, way in ways.items() if way["missing"]} <= {"precompile_capture"}, "before torch 2.15"
    assert all(way["saved_bytes"] > 0 for way in ways.values() if not way["missing"])
    assert ways["cache"]["hits"] > 0
    other = ways["cache"]["other"]
    assert (other["hits"], other["misses"] > 0) == (0, True)
    assert {"simdlen" in difference["part"] for difference in other["key_differences"]} >= {True}
    assert ways["aot_compile"]["guards"] > 0 == ways["aotinductor"]["guards"]
