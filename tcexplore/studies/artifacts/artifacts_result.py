"""Runs that save compiled code, load it in another process, and load it with other settings, for each way to ship."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

from tcexplore.events import Standby
from tcexplore.events.config import Shipping
from tcexplore.session.economics import RunFigures
from tcexplore.session.snapshot import Snapshot

CPP_COMPILER = "compile_file"
"""torch's name for the span of one call of the C++ compiler."""

SINCE_TORCH_2_15: dict[Shipping, str] = {"precompile_capture": "torch.compiler.precompile.capture"}
"""Ways that are new in torch 2.15, each with its API. `Standby.features` has them if this torch does."""

ShipStep = Literal["saving", "loading", "other settings"]
SHIP_STEPS: tuple[ShipStep, ...] = get_args(ShipStep)


class ShipRun(NamedTuple):
    """One run of the study."""

    way: Shipping
    step: ShipStep
    run: Snapshot


class KeyDifference(NamedTuple):
    """A part of a cache key that differs between two processes."""

    cache: str
    part: str
    saved: str
    """The value in the process that saved; empty if it has no such part."""
    loaded: str


@dataclass(frozen=True, slots=True)
class ArtifactRuns:
    """The runs of one way: the one that saves, and those that load once it is finished."""

    way: Shipping
    saving: Snapshot
    loading: Snapshot | None = None
    other: Snapshot | None = None
    """With other settings than `saving`."""

    @property
    def saved(self) -> bool:
        """Return whether anything was saved."""
        return self.saving.artifacts_saved is not None and self.saving.artifacts_saved.bytes > 0

    @property
    def hits(self) -> int:
        """Return the number of cache hits in the second run."""
        return 0 if self.loading is None else count_lookups(self.loading, "hit")

    @property
    def first_call_saved_s(self) -> float | None:
        """Return the seconds that loading saves until the end of the first call; None before both are finished."""
        if self.loading is None:
            return None
        saving, loading = ready_s(self.saving), ready_s(self.loading)
        return None if saving is None or loading is None else saving - loading

    @property
    def guards(self) -> int | None:
        """Return the number of guards that loaded code checks; None if unknown."""
        saved = self.saving.artifacts_saved
        if saved is not None and saved.guards is not None:
            return saved.guards
        return sum(len(installed.guards) for installed in self.saving.guards) or None


def ready_s(run: Snapshot) -> float | None:
    """Return the seconds of the first call, with what is compiled or loaded ahead of it; None without a call."""
    first, saved, loaded = RunFigures(run).first_call_s, run.artifacts_saved, run.artifacts_loaded
    if first is None:
        return None
    compiled_ahead = saved.seconds if saved is not None and saved.guards is not None else 0.0
    return first + compiled_ahead + (loaded.seconds if loaded else 0.0)


def count_lookups(run: Snapshot, outcome: str) -> int:
    return sum(lookup.outcome == outcome for lookup in run.cache_lookups)


def key_differences(saving: Snapshot, loading: Snapshot) -> tuple[KeyDifference, ...]:
    """Return the parts of cache keys that differ, of graphs that both processes looked up."""
    saved = {(key.graph, key.cache): dict(key.parts) for key in saving.cache_keys}
    differences: dict[KeyDifference, None] = {}
    for key in loading.cache_keys:
        before, after = saved.get((key.graph, key.cache)), dict(key.parts)
        for part in {**before, **after} if before is not None else ():
            assert before is not None
            if before.get(part) != after.get(part):
                differences[KeyDifference(key.cache, part, before.get(part, ""), after.get(part, ""))] = None
    return tuple(differences)


def missing_ways(machine: Standby | None, ways: Sequence[Shipping]) -> dict[Shipping, str]:
    """Return the ways that this torch does not have, each with the reason."""
    if machine is None or not machine.features:
        return {}
    lacking = ((way, name) for way, name in SINCE_TORCH_2_15.items() if way in ways and way not in machine.features)
    return {way: f"torch {machine.torch} has no {name}, which is new in torch 2.15" for way, name in lacking}


def artifact_runs(runs: Sequence[ShipRun], way: Shipping = "cache") -> ArtifactRuns | None:
    """Return the runs of a way; None before the first is finished."""
    by_step = {ship.step: ship.run for ship in runs if ship.way == way}
    if "saving" not in by_step:
        return None
    return ArtifactRuns(way, by_step["saving"], by_step.get("loading"), by_step.get("other settings"))
