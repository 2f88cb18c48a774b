"""The runs of one session, the one in view and the baseline. Older runs are compressed, or on disk.

Each run has a summary for the history strip and for studies.
"""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from tcexplore import events as ev
from tcexplore.quantities import factor
from tcexplore.session.ranked_breaks import uncompiled_functions
from tcexplore.session.time_ratio import call_ratio, is_even

if TYPE_CHECKING:
    from tcexplore.session.snapshot import Snapshot


class PackedRun(NamedTuple):
    """A run that is over. `unpack` returns its snapshot."""

    run: int
    summary: RunSummary
    data: bytes
    """The pickled snapshot, compressed. It never leaves this process."""

    def unpack(self) -> Snapshot:
        """Return the snapshot."""
        snapshot: Snapshot = pickle.loads(zlib.decompress(self.data))
        return snapshot


class StoredRun(NamedTuple):
    """A run of an earlier start of the app."""

    run: int
    """Negative: -1 for the newest."""
    summary: RunSummary
    file: str
    """The file that holds its snapshot."""


def pack(snapshot: Snapshot) -> PackedRun:
    """Compress a run."""
    data = pickle.dumps(snapshot, pickle.HIGHEST_PROTOCOL)
    return PackedRun(snapshot.run, summarize(snapshot), zlib.compress(data, 1))


HISTORY_LIMIT = 50
"""Runs in memory; older ones are dropped."""

UNPACKED = 6
"""Newest runs that `Session.pack` does not compress: panes and diffs use them."""


@dataclass(frozen=True, slots=True)
class Session:
    """All runs, oldest first."""

    runs: tuple[Snapshot, ...] = field(default=())
    """The newest runs, and older ones in view."""
    packed: tuple[PackedRun | StoredRun, ...] = ()
    """The other runs, oldest first."""
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

    def begin(self, job: ev.Job, at: float = 0.0) -> Session:
        """Return the session with a new run, which the view follows; `at` is the time in seconds since the epoch."""
        from tcexplore.session.snapshot import end_snapshot, start_snapshot, trials  # not before the first frame

        before = () if self.newest is None or self.newest.file != job.file else trials(self.newest, job.source)
        snapshot = replace(start_snapshot(job, at), expected_calls=self.expected_calls, tried_before=before)
        runs = (*self.runs[:-1], *(end_snapshot(run) for run in self.runs[-1:]), snapshot)
        oldest = [summary.run for summary in self.summaries][-HISTORY_LIMIT + 1 :][:1]
        kept = tuple(run for run in runs if not oldest or run.run >= oldest[0] or run.run == self.baseline)
        packed = tuple(run for run in self.packed if not oldest or run.run >= oldest[0])
        return replace(self, runs=kept, packed=packed, pinned=None)

    def pack(self) -> Session:
        """Compress runs that are neither new nor in view, which takes milliseconds for each."""
        full = {self.pinned, self.baseline, *(run.run for run in self.runs[-UNPACKED:])}
        full |= {run.run for run in [run for run in self.runs if run.complete][-2:]}
        old = [run for run in self.runs if run.run not in full]
        if not old:
            return self
        packed = sorted((*self.packed, *map(pack, old)), key=lambda run: run.run)
        return replace(self, runs=tuple(run for run in self.runs if run.run in full), packed=tuple(packed))

    def unpack(self, number: int) -> Session:
        """Return the session with the snapshot of a compressed run, with the target and the calls of the newest."""
        packed = next((run for run in self.packed if run.run == number), None)
        return self.unpacked(packed.unpack()) if isinstance(packed, PackedRun) else self

    def unpacked(self, snapshot: Snapshot) -> Session:
        """Return the session with the snapshot of a run that it has in compressed form or on disk."""
        newest = self.newest
        if newest is None or all(run.run != snapshot.run for run in self.packed):
            return self
        snapshot = replace(snapshot, expected_calls=self.expected_calls)
        if snapshot.has_code(newest.target):
            snapshot = snapshot.with_target(newest.target)
        runs = sorted((*self.runs, snapshot), key=lambda run: run.run)
        return replace(self, runs=tuple(runs)).without_packed(snapshot.run)

    def with_stored(self, stored: Sequence[StoredRun]) -> Session:
        """Return the session with runs of earlier starts before its own."""
        return replace(self, packed=tuple(sorted((*self.packed, *stored), key=lambda run: run.run)))

    def without_packed(self, number: int) -> Session:
        """Return the session without the compressed or stored form of a run."""
        return replace(self, packed=tuple(run for run in self.packed if run.run != number))

    def stored(self, number: int) -> StoredRun | None:
        """Return the run of this number if its snapshot is on disk."""
        return next((run for run in self.packed if run.run == number and isinstance(run, StoredRun)), None)

    @property
    def summaries(self) -> tuple[RunSummary, ...]:
        """The figures of all runs, oldest first."""
        summaries = (*(run.summary for run in self.packed), *map(summarize, self.runs))
        return tuple(sorted(summaries, key=lambda summary: summary.run))

    def apply(self, event: ev.Event) -> Session:
        """Return the session with one more event; drop an event of any run but the newest."""
        newest = self.newest
        if newest is None or event.run != newest.run:
            return self
        return replace(self, runs=(*self.runs[:-1], newest.apply(event)))

    def apply_all(self, events: Iterable[ev.Event]) -> Session:
        """Return the session with more events; drop those of any run but the newest."""
        newest = self.newest
        return self if newest is None else replace(self, runs=(*self.runs[:-1], newest.apply_all(events)))

    def with_query(self, number: int, inputs: tuple[str, ...]) -> Session:
        """Return the session with a recompile query that the newest run has not answered yet."""
        newest = self.newest
        if newest is None or any((each.number, each.asked) == (number, inputs) for each in newest.recompile_answers):
            return self
        # An answer of this number is to the inputs as they were while the user typed.
        runs = self.without_answer(number).runs
        return replace(self, runs=(*runs[:-1], replace(runs[-1], recompile_asked=(number, inputs))))

    def without_answer(self, number: int) -> Session:
        """Return the session without the answer to the recompile queries of this number."""
        newest = self.newest
        if newest is None or all(answer.number != number for answer in newest.recompile_answers):
            return self
        kept = tuple(answer for answer in newest.recompile_answers if answer.number != number)
        return replace(self, runs=(*self.runs[:-1], replace(newest, recompile_answers=kept)))

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
        shown = self.shown
        return self if shown is None else self.go_to(self.number_at(shown.run, by))

    def number_at(self, number: int, by: int) -> int:
        """Return the number of the run `by` runs after that of a number, or of the first or last run."""
        numbers = [summary.run for summary in self.summaries]
        return numbers[max(0, min(numbers.index(number) + by, len(numbers) - 1))]

    def go_to(self, number: int) -> Session:
        """Return the session with this run in view, unless its snapshot is on disk; see `unpacked`."""
        if self.newest is None or self.stored(number) is not None:
            return self
        return replace(self.unpack(number), pinned=None if number == self.newest.run else number)

    def last_complete_before(self, snapshot: Snapshot) -> Snapshot | None:
        """Return the last complete run before this one."""
        earlier = [s for s in self.runs if s.run < snapshot.run and s.complete]
        return earlier[-1] if earlier else None

    def toggle_baseline(self) -> Session:
        """Make the run in view the baseline, or remove it if it already is."""
        shown = self.shown
        return replace(self, baseline=None if shown is None or shown.run == self.baseline else shown.run)

    def baseline_of(self, snapshot: Snapshot) -> RunSummary | None:
        """Return the figures of the run to compare with: the baseline, else the last complete one of the same entry.

        It may be compressed, or of an earlier start and on disk.
        """
        own = summarize(snapshot)
        others = [summary for summary in self.summaries if summary.run != own.run]
        chosen = next((summary for summary in others if summary.run == self.baseline), None)
        earlier = (summary for summary in reversed(others) if summary.run < own.run and summary.complete)
        return chosen or next((summary for summary in earlier if not summary.entry or summary.entry == own.entry), None)

    def snapshot_of(self, number: int) -> Snapshot | None:
        """Return the snapshot of a run that is neither compressed nor on disk."""
        return next((run for run in self.runs if run.run == number), None)


@dataclass(frozen=True, slots=True)
class RunSummary:
    """Figures of a run in the history; None if unknown so far."""

    run: int
    status: str
    target: str
    """Target of the kernels."""
    breaks: int
    graphs: int
    ops: int
    kernels: int
    extern: int
    guards: int
    recompiles: int
    speedup: float | None
    speedup_range: tuple[float, float] | None
    """Its 95% interval."""
    verdict: str
    error: str
    wrong: bool
    past: str = ""
    """When an earlier start of the app made the run, such as `Sat 17:32`; empty for a run of this start."""
    uncompiled: int = 0
    """Functions whose ops run eagerly since Dynamo skipped their whole frame."""
    complete: bool = False
    """Whether the compile was over: figures of a run that ended earlier are lower bounds."""
    limit_reached: bool = False
    """Whether a frame reached the recompile limit: calls that match no compiled version of it run eagerly."""
    trace: str = ""
    """The trace that the run was read from; empty for a live run."""
    entry: str = ""
    """The name in the file that was compiled; empty if unknown, and in runs stored before it was noted."""
    timing: ev.TimingEstimate | None = None

    @property
    def label(self) -> str:
        """The name of the run on the screen."""
        return self.trace or (f"run of {self.past}" if self.past else f"run {self.run}")


def wrong_result(snapshot: Snapshot) -> bool:
    """Return whether the compiled program gave a wrong result."""
    return snapshot.accuracy is not None and snapshot.accuracy.verdict == "wrong"


def summarize(snapshot: Snapshot) -> RunSummary:
    """Return the summary of a snapshot, complete or not."""
    timing = snapshot.timing
    return RunSummary(
        run=snapshot.run,
        status=snapshot.status,
        target=snapshot.target,
        breaks=len(snapshot.breaks),
        uncompiled=len(uncompiled_functions(snapshot)),
        graphs=len(snapshot.graphs),
        ops=sum(graph.ops for graph in snapshot.graphs),
        kernels=sum(kernel.generated for kernel in snapshot.code.kernels),
        extern=sum(not kernel.generated for kernel in snapshot.code.kernels),
        guards=sum(len(installed.guards) for installed in snapshot.guards),
        recompiles=len({recompile.graph for recompile in snapshot.recompiles if not recompile.limit_hit}),
        limit_reached=any(recompile.limit_hit for recompile in snapshot.recompiles),
        speedup=timing.speedup if timing else None,
        speedup_range=(timing.low, timing.high) if timing else None,
        verdict=timing.verdict if timing else "",
        error=snapshot.failure.type if snapshot.failure else "",
        wrong=wrong_result(snapshot),
        past=snapshot.past,
        complete=snapshot.complete,
        trace=snapshot.trace,
        entry=snapshot.entry.name if snapshot.entry is not None else "",
        timing=timing,
    )


def changes(before: RunSummary, after: RunSummary) -> tuple[str, ...]:
    """Return the differences of the counts, and that of the speed.

    The speed is that of a compiled call. Where eager calls took longer or less long, too, the machine or the edit may
    be why: then it is the speedup over them.
    """
    return (*changed_counts(before, after), *filter(None, (_speed_change(before, after),)))


def changed_counts(before: RunSummary, after: RunSummary) -> tuple[str, ...]:
    """Return the differences as `breaks 3→1`, in the order breaks, graphs, recompiles, kernels.

    Kernels for different targets are not compared.
    """
    return tuple(
        f"{name} {old}→{new}"
        for name in ("breaks", "graphs", "recompiles", *(("kernels",) if before.target == after.target else ()))
        if (old := getattr(before, name)) != (new := getattr(after, name))
    )


def _speed_change(before: RunSummary, after: RunSummary) -> str:
    """Return `compiled 1.50× faster`, or `speedup 1.08×→1.62×`; empty without two verdicts, or if it is equal."""
    if not {before.verdict, after.verdict} <= {"faster", "slower", "no difference"}:
        return ""
    if before.timing is not None and after.timing is not None:
        ratio = call_ratio(before.timing, after.timing)
        even = is_even(before.timing, after.timing)
        if ratio is not None and even and ratio.verdict != "undecided":
            return f"compiled {factor(ratio.value)} {ratio.verdict}"
    if not before.speedup or not after.speedup or f"{before.speedup:.2f}" == f"{after.speedup:.2f}":
        return ""
    unclear = "" if _apart(before.speedup_range, after.speedup_range) else ", no clear difference"
    return f"{_speedups(before.speedup, after.speedup)}{unclear}"


def _apart(one: tuple[float, float] | None, other: tuple[float, float] | None) -> bool:
    """Return whether two intervals are known and have no value in common."""
    return one is not None and other is not None and (one[1] < other[0] or other[1] < one[0])


def _speedups(before: float, after: float) -> str:
    """Return `speedup 1.08×→1.62×`, or `1.59× slower→1.80× faster`: of a slowdown the factor, as in the history."""
    if min(before, after) >= 1:
        return f"speedup {before:.2f}×→{after:.2f}×"
    return "→".join(f"{factor(speedup)} {'faster' if speedup >= 1 else 'slower'}" for speedup in (before, after))
