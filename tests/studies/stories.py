"""Events of the runs of a study."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tcexplore import events as ev
from tcexplore.events.inductor_events import CacheOutcome


def spans(seconds: float) -> Sequence[ev.Event]:
    return [
        ev.PhaseTimed(name="codegen", seconds=seconds / 2, graph="0/0", depth=1),
        ev.PhaseTimed(name="tiny", seconds=seconds / 1000, graph="0/0", depth=1),
        ev.PhaseTimed(name="compile", seconds=seconds, graph="0/0", depth=0),
    ]


def cold_story(job: ev.Job) -> Sequence[ev.Event]:
    cold = job.run == 1
    outcome: CacheOutcome = "miss" if cold else "hit"
    return [
        *(spans(8.0) if cold else spans(1.0)[-1:]), ev.CallMade(index=0, variant="compiled", seconds=9.0, compiles=1),
        ev.CacheLookup(graph="0/0", cache="fx_graph", outcome=outcome), ev.Finished(),
    ]  # fmt: skip


def exists(folder: str) -> bool:
    return Path(folder).exists()


KEY = ev.KeyPart("inductor_config[cpp.simdlen]", "None", "a"), ev.KeyPart("torch_version", "2.13", "b")
KEYS = ev.StateKeys(
    count=2, module=("weight", "bias"), compiled=("_orig_mod.weight", "_orig_mod.bias"), in_place=("weight", "bias"),
    prefix="_orig_mod.",
)  # fmt: skip


def artifacts_story(job: ev.Job) -> list[ev.Event]:
    saving = bool(job.save_artifacts)
    seconds = 9.0 if saving else 4.0
    other = bool(job.config.settings)
    outcome: CacheOutcome = "miss" if saving or other else "hit"
    assert Path(job.caches).parent == Path(job.save_artifacts or job.load_artifacts).parent
    return [
        ev.CallMade(index=0, variant="compiled", seconds=seconds, compiles=1, graphs=("0/0",)),
        ev.CacheLookup(graph="0/0", cache="fx_graph", outcome=outcome),
        ev.CacheKey(
            graph="0/0",
            cache="fx_graph",
            key="k",
            parts=(replace(KEY[0], value="256", digest="c"), KEY[1]) if other else KEY,
        ),
        KEYS,
        ev.ArtifactsSaved(bytes=2048, kinds=(("inductor", 1),)) if saving else ev.ArtifactsLoaded(seconds=0.1),
        *([] if saving else [ev.PhaseTimed(name="compile_file", seconds=3.0, graph="0/0", depth=1)]),
        ev.Finished(),
    ]
