"""A run that a forked process reads, for a process whose threads forbid to fork later: the app."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tcexplore import events as ev
from tcexplore.processes import Forked, shares
from tcexplore.traces.trace_job import TraceJob, TraceProcess

if TYPE_CHECKING:
    from tcexplore.traces.trace_run import TraceRun


class ForkedRun:
    """Reads a run in a forked process, which begins at once; this one only receives the events."""

    def __init__(self, process: TraceProcess, run: int, ranks: int) -> None:
        self.run = run
        self.machine: ev.Standby | None = None
        self._process, self._ranks = process, ranks
        self._here: TraceRun | None = None
        """The run of this process, which reads it if the other process failed before its first item."""
        self._forked = Forked([_items(process, run, ranks)])
        self._received = iter(self._forked)

    def start(self) -> ev.Job:
        """Return the job with the main file's text."""
        job = next(self._received, None)
        if isinstance(job, ev.Job):
            return job
        self._here = _reader(self._process.reopened(), self.run, self._ranks)
        return self._here.start()

    def batches(self) -> Iterator[list[ev.Event]]:
        """Yield the events in batches, the end of the run last, also if the process failed."""
        if self._here is not None:
            for events in self._here.batches():
                self.machine = self._here.machine
                yield events
            return
        last: ev.Event | None = None
        for machine, events in self._received:
            self.machine = machine
            last = events[-1] if events else last
            yield events
        if not isinstance(last, ev.Finished):
            reason = self._forked.failure
            missing = ev.FactMissing(run=self.run, fact="the rest of the trace", symbol="os:fork", reason=reason)
            yield [missing, ev.Finished(run=self.run)]

    def close(self) -> None:
        """End the process."""
        self._forked.close()


def fork_run(job: TraceJob, rank: int | None) -> ForkedRun | None:
    """Begin to read a rank as run 1 in a forked process; return None without another core."""
    return ForkedRun(job.process(rank), 1, len(job.ranks)) if shares() > 1 else None


def _items(process: TraceProcess, run: int, ranks: int) -> Iterator[Any]:
    """Yield the job of a run, then each batch of its events with what is known of the machine."""
    reader = _reader(process, run, ranks)
    yield reader.start()
    for events in reader.batches():
        yield reader.machine, events


def _reader(process: TraceProcess, run: int, ranks: int) -> TraceRun:
    from tcexplore.traces.trace_run import TraceRun  # in the forked process: the first frame need not wait for it

    return TraceRun(process, run, ranks)
