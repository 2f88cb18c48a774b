"""What it brings to take compile artifacts along: a worker that made them, and one that was given them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from tcexplore.session.run_figures import RunFigures
from tcexplore.session.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Shipped:
    """The run that saved its artifacts, on empty caches, and the one that loaded them, on empty caches too."""

    made: Snapshot
    loaded: Snapshot | None = None

    @property
    def saved(self) -> bool:
        """Whether there was something to take along."""
        return self.made.artifacts_saved is not None and self.made.artifacts_saved.bytes > 0

    def outcomes(self, run: Snapshot) -> Counter[tuple[str, str]]:
        """How often each cache was asked, by its name and the outcome."""
        return Counter((used.cache, used.outcome) for used in run.cache_lookups)

    @property
    def hits(self) -> int:
        return 0 if self.loaded is None else sum(used.outcome == "hit" for used in self.loaded.cache_lookups)

    @property
    def spared_s(self) -> float | None:
        """Seconds of the first call that the artifacts spared; None before both are known."""
        first = [RunFigures(run).first_call_s for run in (self.made, self.loaded) if run is not None]
        return first[0] - first[1] if len(first) == 2 and first[0] is not None and first[1] is not None else None


def shipped(runs: Sequence[Snapshot]) -> Shipped | None:
    """The two runs of the study; None before the first is done."""
    return Shipped(*runs[:2]) if runs else None
