"""Cache artifacts from one process to another, and names in the state dict."""

from __future__ import annotations

from pathlib import Path

from tcexplore import events as ev
from tcexplore.documents.timing.state_dict_view import state_dict_document
from tcexplore.events.inductor_events import CacheOutcome
from tcexplore.studies.artifacts.artifacts_result import artifact_runs
from tests.studies.playback import json_of, played, printed, text

KEYS = ev.StateKeys(
    count=2, module=("weight", "bias"), compiled=("_orig_mod.weight", "_orig_mod.bias"), in_place=("weight", "bias"),
    prefix="_orig_mod.",
)  # fmt: skip


def story(job: ev.Job) -> list[ev.Event]:
    saving = bool(job.save_artifacts)
    seconds = 9.0 if saving else 4.0
    outcome: CacheOutcome = "miss" if saving else "hit"
    assert Path(job.caches).parent == Path(job.save_artifacts or job.load_artifacts).parent
    return [
        ev.CallMade(index=0, variant="compiled", seconds=seconds, compiles=1, graphs=("0/0",)),
        ev.CacheLookup(graph="0/0", cache="fx_graph", outcome=outcome),
        KEYS,
        ev.ArtifactsSaved(bytes=2048, kinds=(("inductor", 1),)) if saving else ev.ArtifactsLoaded(seconds=0.1),
        *([] if saving else [ev.PhaseTimed(name="compile_file", seconds=3.0, graph="0/0", depth=1)]),
        ev.Finished(),
    ]


async def test_the_second_process_has_empty_caches_and_the_artifacts_of_the_first():
    state, player = await played("artifacts", story)
    first, second = player.jobs
    assert first.caches != second.caches
    assert first.save_artifacts == second.load_artifacts != ""
    assert not Path(first.caches).parent.exists()
    runs = artifact_runs(state.results)
    assert runs is not None
    assert (runs.hits, runs.first_call_saved_s) == (1, 5.0)


async def test_the_results_as_text_json_and_in_the_timing_pane():
    state, _ = await played("artifacts", story)
    report = " ".join(printed("artifacts", state).split())
    for sentence in (
        "2 names, each with the prefix '_orig_mod.'",
        "model.compile(), in place: the same names as the model",
        "Saved 2.0 KiB: 1 inductor",
        "first call 9.00 s 4.00 s",
        "fx_graph cache miss ×1 hit ×1",
        "the second process compiles 1 C++ file again, 3.00 s",
        "Second process: 1 hit, first call 5.00 s faster",
    ):
        assert sentence in report, report
    fields = json_of("artifacts", state)
    assert (fields["saved_bytes"], fields["hits"], fields["first_call_saved_s"]) == (2048, 1, 5.0)
    assert fields["loading"]["cpp_compiler_s"] == 3.0
    assert "_orig_mod.weight" in text(state_dict_document(state.results[0], width=100))


async def test_nothing_is_loaded_if_nothing_was_saved():
    state, player = await played("artifacts", lambda _: [ev.ArtifactsSaved(bytes=0), ev.Finished()])
    assert len(player.jobs) == 1
    assert "nothing to save" in printed("artifacts", state)
