"""The cold compile study: a run with empty compile caches, and a run with what the first one left in them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace

from tcexplore.documents.document import Document
from tcexplore.session.economics import RunFigures
from tcexplore.studies.cold.cold_document import cold_document
from tcexplore.studies.study import Announce, Study, StudyState
from tcexplore.studies.study_json import Fields, run_fields
from tcexplore.studies.study_runs import Runs, failure_status

SIDES = ("cold", "warm")
"""The runs, in their order."""


class ColdStudy(Study[None, RunFigures]):
    """Results are the cold run and the warm run, both untimed."""

    name = "cold"
    title = "cold compile"
    studies_scripts = True
    description = "A compile with empty caches, and one with warm caches."

    def options_from(self, answers: Sequence[str]) -> None:  # noqa: ARG002
        return None

    async def plan(
        self, state: StudyState[None, RunFigures], runs: Runs, announce: Announce
    ) -> AsyncGenerator[RunFigures, None]:
        """Run twice with one folder of caches."""
        async with runs.temporary_folder("caches") as folder:
            job = replace(state.job, caches=folder, time_for=0.0, examine=False)
            runs.steps.plan(SIDES)
            for side in SIDES:
                announce(side)
                yield RunFigures((await runs.run(job, state.timeout)).snapshot)

    def document(
        self,
        state: StudyState[None, RunFigures],
        width: int = 78,
        toggled: frozenset[str] = frozenset(),  # noqa: ARG002
    ) -> Document:
        return cold_document(state.results, over=state.over, width=width)

    def fields(self, state: StudyState[None, RunFigures]) -> Fields:
        return {side: run_fields(result) for side, result in zip(SIDES, state.results, strict=False)}

    def exit_status(self, state: StudyState[None, RunFigures]) -> int:
        return max((failure_status(result.run) for result in state.results), default=0)


STUDY = ColdStudy()
