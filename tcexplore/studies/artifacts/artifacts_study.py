"""The artifacts study: compiled code saved by one process and loaded by another, in each way that torch has."""

from __future__ import annotations

import argparse
import os
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tcexplore.argument_types import name, one_of, several
from tcexplore.documents.document import Document
from tcexplore.events import Job
from tcexplore.events.config import IN_CACHES, SHIPPING, Shipping
from tcexplore.report.json_records import fields
from tcexplore.report.json_report import failure
from tcexplore.session import Snapshot
from tcexplore.session.economics import RunFigures
from tcexplore.studies.artifacts.artifacts_document import artifacts_document
from tcexplore.studies.artifacts.artifacts_result import (
    CPP_COMPILER,
    SHIP_STEPS,
    ArtifactRuns,
    ShipRun,
    ShipStep,
    artifact_runs,
    count_lookups,
    key_differences,
    missing_ways,
    ready_s,
)
from tcexplore.studies.study import Announce, Study, StudyState
from tcexplore.studies.study_json import Fields
from tcexplore.studies.study_runs import RefusedError, Runs, failure_status

OTHER_SETTINGS = ("torch._inductor.config.cpp.simdlen=256",)
"""Settings of another machine: vectors of 256 bits."""

PRECOMPILE = "torch._dynamo.config.caching_precompile=True"


@dataclass(frozen=True, slots=True)
class ArtifactsOptions:
    """Ways to try, and the settings of another machine."""

    ways: tuple[Shipping, ...] = SHIPPING
    other: tuple[str, ...] = OTHER_SETTINGS


class ArtifactsStudy(Study[ArtifactsOptions, ShipRun]):
    """Results are the runs of each way, in their order."""

    name = "artifacts"
    title = "cache artifacts"
    studies_scripts = True
    examples = ("model.py", "model.py --ways cache,aotinductor --json")
    description = (
        "Save compiled code in one process, load it in a second one with empty caches, and compare both, in each way "
        "that torch has. Also list the names in the state dict."
    )

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        group = parser.add_argument_group("ways to ship")
        group.add_argument(
            "--ways", type=several(one_of(SHIPPING)), default=SHIPPING, metavar="A,B",
            help=f"any of {', '.join(SHIPPING)} (default: all; a script has only the first two)",
        )  # fmt: skip
        group.add_argument(
            "--other", action="append", type=name, metavar="SETTING",
            help=f"a setting of another machine, to see what differs in the cache key (default: {OTHER_SETTINGS[0]})",
        )  # fmt: skip

    def options(self, given: argparse.Namespace) -> ArtifactsOptions:
        return ArtifactsOptions(given.ways, tuple(given.other or OTHER_SETTINGS))

    def options_from(self, answers: Sequence[str]) -> ArtifactsOptions:  # noqa: ARG002
        return ArtifactsOptions()

    async def plan(
        self, state: StudyState[ArtifactsOptions, ShipRun], runs: Runs, announce: Announce
    ) -> AsyncGenerator[ShipRun, None]:
        """Save, load, and load with other settings; a way that saves nothing is not loaded."""
        async with runs.temporary_folder("artifacts") as folder:
            state.machine = await runs.machine(state.timeout)
            lacking = missing_ways(state.machine, state.options.ways)
            if len(lacking) == len(state.options.ways):
                raise RefusedError(f"{'; '.join(lacking.values())}.")
            steps = [(way, step) for way in state.options.ways if way not in lacking for step in SHIP_STEPS]
            runs.steps.plan(f"{way}: {step}" for way, step in steps)
            unsaved: set[Shipping] = set()
            for way, step in steps:
                if way in unsaved:
                    continue
                announce(f"{way}: {step}")
                run = (await runs.run(_job(state, way, step, folder), state.timeout)).snapshot
                yield ShipRun(way, step, run)
                if step == "saving" and not (run.artifacts_saved and run.artifacts_saved.bytes):
                    unsaved.add(way)
                if run.is_script:
                    unsaved.update(set(SHIPPING) - set(IN_CACHES))

    def document(
        self,
        state: StudyState[ArtifactsOptions, ShipRun],
        width: int = 78,
        toggled: frozenset[str] = frozenset(),  # noqa: ARG002
    ) -> Document:
        missing = missing_ways(state.machine, state.options.ways)
        return artifacts_document(state.results, state.options.ways, missing, over=state.over, width=width)

    def fields(self, state: StudyState[ArtifactsOptions, ShipRun]) -> Fields:
        """Return the runs; a field is null without its run. All fields but `ways` are of cache artifacts."""
        runs = artifact_runs(state.results)
        keys = next((ship.run.state_keys for ship in state.results if ship.run.state_keys), None)
        saved = runs.saving.artifacts_saved if runs else None
        ways = {way: artifact_runs(state.results, way) for way in state.options.ways}
        missing = missing_ways(state.machine, state.options.ways)
        return {
            "state_dict": fields("state_dict", keys) if keys else None,
            "saved_bytes": saved.bytes if saved else None,
            "saved_kinds": dict(saved.kinds) if saved else None,
            "saving": _run_fields(runs.saving) if runs else None,
            "loading": _run_fields(runs.loading) if runs and runs.loading else None,
            "hits": runs.hits if runs and runs.loading else None,
            "first_call_saved_s": runs.first_call_saved_s if runs else None,
            "other_settings": list(state.options.other),
            "ways": [
                _way_fields(way, known, missing.get(way)) for way, known in ways.items() if known or way in missing
            ],
        }

    def exit_status(self, state: StudyState[ArtifactsOptions, ShipRun]) -> int:
        """Return an error only if no way works."""
        ways = {ship.way for ship in state.results}
        worst = (max(failure_status(ship.run) for ship in state.results if ship.way == way) for way in ways)
        return min(worst, default=0)


def _job(state: StudyState[ArtifactsOptions, Any], way: Shipping, step: ShipStep, folder: str) -> Job:
    file = os.path.join(folder, f"{way}.pt2")
    settings = [PRECOMPILE] if way == "precompile" else []
    settings += state.options.other if step == "other settings" else []
    config = replace(state.job.config, settings=(*state.job.config.settings, *settings))
    caches = os.path.join(folder, f"{way}-{step.replace(' ', '-')}")
    job = replace(
        state.job, time_for=0.0, examine=step == "loading", artifacts=way, config=config, caches=caches
    )  # fmt: skip
    return replace(job, save_artifacts=file) if step == "saving" else replace(job, load_artifacts=file)


def _run_fields(run: Snapshot) -> Fields:
    figures, loaded = RunFigures(run), run.artifacts_loaded
    return {
        "error": failure(run.failure),
        "first_call_s": figures.first_call_s,
        "compile_s": figures.compile_s,
        "load_s": loaded.seconds if loaded else None,
        "caches": [
            {"cache": lookup.cache, "outcome": lookup.outcome, "reason": lookup.reason} for lookup in run.cache_lookups
        ],
        "cpp_compiler_s": sum(span.seconds for span in run.phase_times if span.name == CPP_COMPILER),
    }


_WAY_KEYS = (
    "saved_bytes", "save_s", "guards", "ready_saving_s", "ready_loading_s", "accuracy", "hits", "misses", "saving",
    "loading", "other",
)  # fmt: skip
"""Keys of a way besides `way` and `missing`."""


def _way_fields(way: Shipping, runs: ArtifactRuns | None, missing: str | None) -> Fields:
    """Return the keys of a way. `missing` is the reason if this torch lacks it; all others are null then."""
    if runs is None:
        return {"way": way, "missing": missing, **dict.fromkeys(_WAY_KEYS)}
    saved, loading, other = runs.saving.artifacts_saved, runs.loading, runs.other
    return {
        "way": way,
        "missing": None,
        "saved_bytes": saved.bytes if saved else None,
        "save_s": saved.seconds if saved else None,
        "guards": runs.guards,
        "ready_saving_s": ready_s(runs.saving),
        "ready_loading_s": ready_s(loading) if loading else None,
        "accuracy": loading.accuracy.verdict if loading and loading.accuracy else None,
        "hits": count_lookups(loading, "hit") if loading else None,
        "misses": count_lookups(loading, "miss") if loading else None,
        "saving": _run_fields(runs.saving),
        "loading": _run_fields(loading) if loading else None,
        "other": None if other is None else {
            **_run_fields(other),
            "hits": count_lookups(other, "hit"),
            "misses": count_lookups(other, "miss"),
            "key_differences": [difference._asdict() for difference in key_differences(runs.saving, other)],
        },
    }  # fmt: skip


STUDY = ArtifactsStudy()
