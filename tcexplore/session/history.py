"""The runs of one session, the one in view and the baseline."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from tcexplore import events as ev
from tcexplore.session.snapshot import Snapshot, end_snapshot, start_snapshot

HISTORY_LIMIT = 50
"""Runs in memory; older ones are dropped."""


@dataclass(frozen=True, slots=True)
class Session:
    """All runs, oldest first."""

    runs: tuple[Snapshot, ...] = field(default=())
    pinned: int | None = None
    """Run that the user stepped back to; None follows the newest."""
    baseline: int | None = None
    """Run that others are compared with; None compares each run with the previous one."""

    @property
    def newest(self) -> Snapshot | None:
        return self.runs[-1] if self.runs else None

    @property
    def shown(self) -> Snapshot | None:
        """The run in view: the pinned one, else the newest."""
        return next((s for s in self.runs if s.run == self.pinned), self.newest)

    def view(self, has: Callable[[Snapshot], bool]) -> Snapshot | None:
        """Return the run that a pane shows; `has` tells whether a run has the facts of the pane.

        If the newest run does not have them yet, or failed, return the last run that has them; the pane marks it as
        old (`snapshot is not session.shown`). A pinned run is always shown.
        """
        shown = self.shown
        if shown is None or self.pinned is not None or shown.complete or has(shown):
            return shown
        return next((s for s in reversed(self.runs) if has(s)), shown)

    def begin(self, job: ev.Job) -> Session:
        """Return the session with a new run, which the view follows."""
        snapshot = replace(start_snapshot(job), expected_calls=self.expected_calls)
        runs = (*self.runs[:-1], *(end_snapshot(run) for run in self.runs[-1:]), snapshot)
        baseline = tuple(s for s in runs[:-HISTORY_LIMIT] if s.run == self.baseline)
        return replace(self, runs=(*baseline, *runs[-HISTORY_LIMIT:]), pinned=None)

    def apply(self, event: ev.Event) -> Session:
        """Return the session with one more event; drop an event of any run but the newest."""
        newest = self.newest
        if newest is None or event.run != newest.run:
            return self
        return replace(self, runs=(*self.runs[:-1], newest.apply(event)))

    def with_target(self, target: str) -> Session:
        """Return the session with another target in view, in every run that has its code and in the newest."""
        runs = tuple(s.with_target(target) if s.has_code(target) else s for s in self.runs)
        newest = self.newest
        if newest is None or newest.has_code(target):
            return replace(self, runs=runs)
        alive = newest.complete and newest.status == "running"
        return replace(
            self, runs=(*runs[:-1], replace(newest.with_target(target), phase="switching" if alive else newest.phase))
        )

    @property
    def expected_calls(self) -> int | None:
        """Number of calls to compute the net gain for."""
        return self.runs[-1].expected_calls if self.runs else None

    def set_expected_calls(self, calls: int | None) -> Session:
        """Return the session with this number of expected calls in every run."""
        return replace(self, runs=tuple(replace(run, expected_calls=calls) for run in self.runs))

    def step(self, by: int) -> Session:
        """Move the view by a number of runs, negative for older; at the newest run, the view follows again."""
        if not self.runs:
            return self
        shown = self.shown
        index = next(i for i, s in enumerate(self.runs) if s is shown) + by
        index = max(0, min(index, len(self.runs) - 1))
        pinned = None if index == len(self.runs) - 1 else self.runs[index].run
        return replace(self, pinned=pinned)

    def last_complete_before(self, snapshot: Snapshot) -> Snapshot | None:
        """Return the last complete run before this one."""
        earlier = [s for s in self.runs if s.run < snapshot.run and s.complete]
        return earlier[-1] if earlier else None

    def toggle_baseline(self) -> Session:
        """Make the run in view the baseline, or remove it if it already is."""
        shown = self.shown
        return replace(self, baseline=None if shown is None or shown.run == self.baseline else shown.run)

    def baseline_of(self, snapshot: Snapshot) -> Snapshot | None:
        """Return the run to compare with: the baseline, else the last complete run before this one."""
        baseline = (s for s in self.runs if s.run == self.baseline and s.run != snapshot.run)
        return next(baseline, None) or self.last_complete_before(snapshot)
