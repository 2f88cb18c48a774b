"""Two runs on empty caches: one saves cache artifacts, the other loads them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tcexplore.session.run_summary import RunFigures
from tcexplore.session.snapshot import Snapshot

CPP_COMPILER = "compile_file"
"""torch's name for the span of one call of the C++ compiler."""


@dataclass(frozen=True, slots=True)
class ArtifactRuns:
    """The run that saves, and the run that loads once it is finished."""

    saving: Snapshot
    loading: Snapshot | None = None

    @property
    def saved(self) -> bool:
        """Return whether anything was saved."""
        return self.saving.artifacts_saved is not None and self.saving.artifacts_saved.bytes > 0

    @property
    def hits(self) -> int:
        """Return the number of cache hits in the second run."""
        return 0 if self.loading is None else sum(lookup.outcome == "hit" for lookup in self.loading.cache_lookups)

    @property
    def first_call_saved_s(self) -> float | None:
        """Return the seconds that the artifacts save in the first call; None before both runs are finished."""
        seconds = [RunFigures(run).first_call_s for run in (self.saving, self.loading) if run is not None]
        if len(seconds) < 2 or seconds[0] is None or seconds[1] is None:
            return None
        return seconds[0] - seconds[1]


def artifact_runs(runs: Sequence[Snapshot]) -> ArtifactRuns | None:
    """Return the runs of the study; None before the first is finished."""
    return ArtifactRuns(*runs[:2]) if runs else None
