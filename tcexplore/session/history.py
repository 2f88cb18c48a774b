"""The saves of one sitting: which snapshot is in view, and whether it is the newest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from tcexplore import events as ev
from tcexplore.session.snapshot import Snapshot, end_snapshot, start_snapshot

KEPT = 50
"""Saves kept whole; older ones are let go."""


@dataclass(frozen=True, slots=True)
class Session:
    """All runs, oldest first. `pinned` is the run that the user stepped back to, None follows the newest; `base` is
    the run that they want others compared with, None compares each with the one before."""

    runs: tuple[Snapshot, ...] = field(default=())
    pinned: int | None = None
    baseline: int | None = None

    @property
    def newest(self) -> Snapshot | None:
        return self.runs[-1] if self.runs else None

    @property
    def shown(self) -> Snapshot | None:
        """The run in view: the pinned one, else the newest."""
        return next((s for s in self.runs if s.run == self.pinned), self.newest)

    def view(self, has: Callable[[Snapshot], bool]) -> Snapshot | None:
        """The run that a pane shows, `has` telling whether a run knows anything of what that pane is about.

        While the newest run does not know it yet, and after it failed, that is the last run that did: the pane
        marks it as old (`snapshot is not session.shown`). A pinned run is shown as it is.
        """
        shown = self.shown
        if shown is None or self.pinned is not None or shown.complete or has(shown):
            return shown
        return next((s for s in reversed(self.runs) if has(s)), shown)

    def begin(self, job: ev.Job) -> Session:
        """A new run starts; the view follows it again."""
        snapshot = replace(start_snapshot(job), expected_calls=self.expected_calls)
        runs = (*self.runs[:-1], *(end_snapshot(run) for run in self.runs[-1:]), snapshot)
        based = tuple(s for s in runs[:-KEPT] if s.run == self.baseline)
        return replace(self, runs=(*based, *runs[-KEPT:]), pinned=None)

    def apply(self, event: ev.Event) -> Session:
        """The session with one event more. An event of any run but the newest is late and is dropped."""
        newest = self.newest
        if newest is None or event.run != newest.run:
            return self
        return replace(self, runs=(*self.runs[:-1], newest.apply(event)))

    def with_target(self, target: str) -> Session:
        """Look at the code for a device: in every run that knows it, and in the newest, which may come to know it."""
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
        """For how many calls the user wants to know what compiling wins."""
        return self.runs[-1].expected_calls if self.runs else None

    def set_expected_calls(self, calls: int | None) -> Session:
        """The session with every run asked for so many calls."""
        return replace(self, runs=tuple(replace(run, expected_calls=calls) for run in self.runs))

    def step(self, by: int) -> Session:
        """Look `by` saves further (negative: back); past the newest one the view follows again."""
        if not self.runs:
            return self
        shown = self.shown
        index = next(i for i, s in enumerate(self.runs) if s is shown) + by
        index = max(0, min(index, len(self.runs) - 1))
        pinned = None if index == len(self.runs) - 1 else self.runs[index].run
        return replace(self, pinned=pinned)

    def last_complete_before(self, snapshot: Snapshot) -> Snapshot | None:
        """The last complete run before this one, to compare with."""
        earlier = [s for s in self.runs if s.run < snapshot.run and s.complete]
        return earlier[-1] if earlier else None

    def toggle_baseline(self) -> Session:
        """Compare others with the run in view; if they are already, compare each with the one before again."""
        shown = self.shown
        return replace(self, baseline=None if shown is None or shown.run == self.baseline else shown.run)

    def baseline_of(self, snapshot: Snapshot) -> Snapshot | None:
        """The run to compare with: the base, else the last complete run before this one."""
        based = (s for s in self.runs if s.run == self.baseline and s.run != snapshot.run)
        return next(based, None) or self.last_complete_before(snapshot)
