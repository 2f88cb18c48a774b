"""What of a compiled model can be kept: names in the state dict, artifacts from one worker to another."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

from tcexplore import events as ev
from tcexplore.documents.timing.state_dict_view import state_dict_document as document
from tcexplore.report.text.ship import print_ship
from tcexplore.session import Snapshot
from tcexplore.studies.artifacts.artifacts_json import ship as fields
from tcexplore.studies.artifacts.artifacts_plan import save_and_load
from tcexplore.studies.artifacts.artifacts_result import shipped
from tcexplore.studies.study_runs import Runs
from tests.studies.playing import JOB, MACHINE, Playback

KEYS = ev.StateKeys(
    count=2, module=("weight", "bias"), compiled=("_orig_mod.weight", "_orig_mod.bias"), in_place=("weight", "bias"),
    prefix="_orig_mod.",
)  # fmt: skip


def story(job: ev.Job) -> list[ev.Event]:
    saving = bool(job.save_artifacts)
    seconds, outcome = (9.0, "miss") if saving else (4.0, "hit")
    assert Path(job.caches).parent == Path(job.save_artifacts or job.load_artifacts).parent
    return [
        ev.CallMade(index=0, variant="compiled", seconds=seconds, compiles=1, graphs=("0/0",)),
        ev.CacheLookup(graph="0/0", cache="fx_graph", outcome=outcome),
        KEYS,
        ev.ArtifactsSaved(bytes=2048, kinds=(("inductor", 1),)) if saving else ev.ArtifactsLoaded(seconds=0.1),
        *([] if saving else [ev.PhaseTimed(name="compile_file", seconds=3.0, graph="0/0", depth=1)]),
        ev.Finished(),
    ]


async def runs_of(story: object) -> tuple[list[Snapshot], Playback]:
    players: list[Playback] = []

    def runner(emit):  # noqa: ANN001, ANN202
        players.append(Playback(emit, story))  # type: ignore[arg-type]
        return players[0]

    async with Runs(runner) as runs:
        return [run async for run in save_and_load(JOB, runs, lambda _: None, 5.0)], players[0]


async def test_the_second_worker_has_empty_caches_and_what_the_first_saved():
    made, player = await runs_of(story)
    first, second = player.jobs
    assert first.caches != second.caches
    assert first.save_artifacts == second.load_artifacts != ""
    assert not Path(first.caches).parent.exists()
    found = shipped(made)
    assert found is not None
    assert (found.hits, found.spared_s) == (1, 5.0)


async def test_what_it_came_to_as_text_as_json_and_in_the_view():
    made, _ = await runs_of(story)
    page = StringIO()
    print_ship(made, MACHINE, stream=page)
    text = " ".join(page.getvalue().split())
    for said in (
        "2 names, each with the prefix '_orig_mod.'",
        "model.compile(), in place: the same names as the model",
        "saved 2.0 KiB: 1 inductor",
        "first call 9.00 s; fx_graph miss ×1",
        "1 C++ file compiled again by the second worker, 3.00 s",
        "1 hit in the second worker, 5.00 s spared at the first call",
    ):
        assert said in text, text
    whole = fields(made, MACHINE, stopped=False)
    assert (whole["saved_bytes"], whole["hits"], whole["first_call_spared_s"]) == (2048, 1, 5.0)
    assert whole["loaded"]["cpp_compiler_s"] == 3.0
    shown = document(made[0], width=100)
    assert any("_orig_mod.weight" in shown.row(index).text for index in range(len(shown)))


async def test_nothing_is_loaded_where_nothing_was_saved():
    made, player = await runs_of(lambda _: [ev.ArtifactsSaved(bytes=0), ev.Finished()])
    page = StringIO()
    print_ship(made, MACHINE, stream=page)
    assert len(player.jobs) == 1
    assert "nothing to save" in page.getvalue()
