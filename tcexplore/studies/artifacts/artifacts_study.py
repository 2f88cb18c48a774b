"""The artifacts study: cache artifacts saved by one process and loaded by another, both with empty caches."""

from __future__ import annotations

import argparse
import os
from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace

from tcexplore.documents.document import Document
from tcexplore.report.json_records import fields
from tcexplore.report.json_report import failure
from tcexplore.session import Snapshot
from tcexplore.session.run_summary import RunFigures
from tcexplore.studies.artifacts.artifacts_document import artifacts_document
from tcexplore.studies.artifacts.artifacts_result import CPP_COMPILER, artifact_runs
from tcexplore.studies.study import Announce, Study, StudyState
from tcexplore.studies.study_json import Fields
from tcexplore.studies.study_runs import Runs, failure_status

SAVING, LOADING = "compiling with empty caches and saving", "loading in a second process with empty caches"
"""The steps."""


class ArtifactsStudy(Study[None, Snapshot]):
    """Results are the run that saves and the run that loads."""

    name = "artifacts"
    title = "cache artifacts"
    studies_scripts = True
    description = (
        "Save torch's cache artifacts in one process, load them in a second one with empty caches, and compare both. "
        "Also list the names in the state dict."
    )

    def options(self, given: argparse.Namespace) -> None:  # noqa: ARG002
        return None

    def options_from(self, answers: Sequence[str]) -> None:  # noqa: ARG002
        return None

    async def plan(
        self, state: StudyState[None, Snapshot], runs: Runs, announce: Announce
    ) -> AsyncGenerator[Snapshot, None]:
        """Run twice; the second run is left out if the first saves nothing."""
        job = replace(state.job, time_for=0.0, examine=False)
        async with runs.temporary_folder("artifacts") as folder:
            file = os.path.join(folder, "artifacts")
            runs.steps.plan((SAVING, LOADING))
            announce(SAVING)
            saving = replace(job, caches=os.path.join(folder, "saving"), save_artifacts=file)
            saved = (await runs.run(saving, state.timeout)).snapshot
            yield saved
            if saved.artifacts_saved is not None and saved.artifacts_saved.bytes:
                announce(LOADING)
                loading = replace(job, caches=os.path.join(folder, "loading"), load_artifacts=file)
                yield (await runs.run(loading, state.timeout)).snapshot

    def document(
        self,
        state: StudyState[None, Snapshot],
        width: int = 78,
        toggled: frozenset[str] = frozenset(),  # noqa: ARG002
    ) -> Document:
        return artifacts_document(state.results, over=state.over, width=width)

    def fields(self, state: StudyState[None, Snapshot]) -> Fields:
        """A field is null without the run that it belongs to."""
        runs = artifact_runs(state.results)
        saved = runs.saving.artifacts_saved if runs else None
        keys = runs.saving.state_keys if runs else None
        return {
            "state_dict": fields("state_dict", keys) if keys else None,
            "saved_bytes": saved.bytes if saved else None,
            "saved_kinds": dict(saved.kinds) if saved else None,
            "saving": _run_fields(runs.saving) if runs else None,
            "loading": _run_fields(runs.loading) if runs and runs.loading else None,
            "hits": runs.hits if runs and runs.loading else None,
            "first_call_saved_s": runs.first_call_saved_s if runs else None,
        }

    def exit_status(self, state: StudyState[None, Snapshot]) -> int:
        return max((failure_status(run) for run in state.results), default=0)


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


STUDY = ArtifactsStudy()
