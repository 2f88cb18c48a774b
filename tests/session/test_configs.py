"""What torch.compile was called with, by tcexplore or by the file itself."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tcexplore import events as ev
from tcexplore.documents.configurations import format_configurations
from tcexplore.session import Snapshot
from tcexplore.session.snapshot import start_snapshot

SCRIPT = ev.EntryFound(name="__main__", kind="script", rule="", calls=())
MODEL = ev.EntryFound(name="model", kind="module", rule="", calls=())


def run_of(*events: ev.Event, config: ev.Config | None = None) -> Snapshot:
    snapshot = start_snapshot(
        ev.Job(run=1, file="train.py", source="", config=config or ev.Config(mode="max-autotune"))
    )
    for event in events:
        snapshot = snapshot.apply(replace(event, run=1))
    return snapshot


def region(number: int, *arguments: str, compiles: bool = True) -> list[ev.Event]:
    created = ev.RegionCreated(region=number, name="f", kind="function", arguments=arguments)
    return [created, *([ev.RegionGraph(region=number, graph=f"{number}/0")] if compiles else [])]


def test_a_model_that_tcexplore_compiles_has_the_configuration_of_the_run() -> None:
    assert format_configurations(run_of(MODEL)) == "inductor · max-autotune"


def test_a_model_that_its_file_compiles_has_the_arguments_of_the_file() -> None:
    own = replace(MODEL, arguments=("dynamic=False", "fullgraph=True"))
    assert format_configurations(run_of(own)) == "inductor · default · dynamic=False · fullgraph"


@pytest.mark.parametrize(
    ("regions", "text"),
    [
        (region(0), "inductor · default"),
        ([*region(0), *region(1)], "inductor · default"),
        (
            [*region(0, "backend='aot_eager'", "dynamic=True"), *region(1)],
            "aot_eager · dynamic=True, inductor · default",
        ),
        ([*region(0, "mode='reduce-overhead'"), *region(1, compiles=False)], "inductor · reduce-overhead"),
        (region(0, "backend=my_backend"), "my_backend"),
    ],
)
def test_a_script_has_the_arguments_of_its_regions(regions: list[ev.Event], text: str) -> None:
    assert format_configurations(run_of(SCRIPT, *regions)) == text


def test_a_trace_does_not_tell() -> None:
    assert format_configurations(replace(run_of(SCRIPT, *region(0)), trace="rank 0")) == ""
