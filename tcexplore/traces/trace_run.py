"""One process of a trace as a run: its job, then its events."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice
from typing import Literal, Protocol

from tcexplore import events as ev
from tcexplore.session import Snapshot
from tcexplore.session.snapshot import start_snapshot
from tcexplore.traces.event_reader import EventReader
from tcexplore.traces.trace_job import TraceProcess

BATCH = 200
"""Records that are converted at a time; events that are delivered at a time."""

_FIRST_RECORDS = 300
"""Records in which the main file is searched before the job begins."""


class TraceRun:
    """Reads one process as the run of a number."""

    def __init__(
        self, process: TraceProcess, run: int, ranks: int = 1, prefix: str = "", *, growing: bool = False
    ) -> None:
        """`ranks` is the number of ranks of the job; `prefix` precedes the name of the trace.

        Of a `growing` trace, `new_events` yields the events, else `batches`.
        """
        self._prefix = prefix
        self.process = process
        self.run = run
        self._ranks = ranks
        self._events: list[ev.Event] = []
        self._sources: dict[str, str] = {}
        self._phase: tuple[ev.Phase | Literal[""], str | None] = ("", None)
        pid = process.pid if process.shared else None
        self.reader = EventReader(process.index, self._events.append, pid, growing=growing)

    @property
    def label(self) -> str:
        """Name of the trace for the user: `rank 3 of 8`, or the file's name."""
        rank = self.process.rank
        if rank is None:
            return self._prefix + os.path.basename(self.process.source.name)
        return f"{self._prefix}rank {rank}" + (f" of {self._ranks}" if self._ranks > 1 else "")

    @property
    def machine(self) -> ev.Standby | None:
        """Versions of torch and Python, once a record with them is read."""
        torch = self.reader.versions.get("torch")
        if torch is None:
            return None
        python = self.reader.versions.get("python", "").partition(" ")[0]
        return ev.Standby(run=self.run, torch=torch, python=python, device=self._device(), seconds=0.0)

    def _device(self) -> str:
        nodes = (node for nodes in self.reader.context.graphs.values() for node in nodes)
        return next((node.device for node in nodes if node.device), "")

    def start(self) -> ev.Job:
        """Read the beginning of the trace, and return the job with the main file's text."""
        self.reader.read(_FIRST_RECORDS, last=False)
        sources = self.reader.context.sources
        return ev.Job(
            run=self.run,
            file=sources.main or self.process.source.name,
            source=sources.text(sources.main),
            trace=self.label,
        )

    def batches(self) -> Iterator[list[ev.Event]]:
        """Yield the events in batches, the end of the run last."""
        index, indexed = self.process.index, False
        self._events.append(ev.PhaseStarted(phase="trace", at=0.0))
        yield self._taken()
        while True:
            # The last record of an index that is not complete may be cut.
            if not self.reader.read(BATCH, last=indexed):
                if indexed:
                    break
                indexed = index.extend()
            yield self._taken()
        for events in self.reader.read_later():
            while some := list(islice(events, BATCH)):
                self._events += some
                yield self._taken()
        yield self.end()

    def new_events(self, *, last: bool) -> Iterator[list[ev.Event]]:
        """Yield the events of records that arrived since the last call; `last` is whether the last one is complete."""
        more = True
        while more:
            more = self.reader.read(BATCH, last=last)
            self._add_sources()
            self._add_phase()
            yield self._taken()

    def end(self) -> list[ev.Event]:
        """Return the last events, after all records."""
        self.reader.finish()
        sources = self.reader.context.sources
        name = os.path.basename(sources.main)
        self._events.append(
            ev.EntryFound(name="", kind="script", rule=f"read from a trace of {name}" if name else "a trace", calls=())
        )
        self._events.append(ev.Finished())
        return self._taken()

    def _add_sources(self) -> None:
        sources = self.reader.context.sources
        for file in sources.files:
            text = sources.text(file)
            if self._sources.get(file) != text:
                self._sources[file] = text
                self._events.append(ev.SourceRead(file=file, text=text))

    def _add_phase(self) -> None:
        spans = self.reader.spans
        phase = (spans.phase or "", spans.graph if spans.phase else None)
        if phase != self._phase:
            self._phase = phase
            at = (spans.phase_began or 0.0) - (self.reader.context.began or 0.0)
            self._events.append(ev.PhaseStarted(phase=phase[0], graph=phase[1], at=at))

    def _taken(self) -> list[ev.Event]:
        events = self._events[:]
        self._events.clear()
        for event in events:  # nobody else has them yet: a copy of each would take longer than to read it
            object.__setattr__(event, "run", self.run)
            object.__setattr__(event, "rank", self.process.number)
        return events


class RunReader(Protocol):
    """A run that is read from files."""

    @property
    def machine(self) -> ev.Standby | None: ...

    def start(self) -> ev.Job: ...

    def batches(self) -> Iterator[list[ev.Event]]: ...


def read_snapshot(run: RunReader) -> Snapshot:
    """Return the finished run."""
    snapshot = start_snapshot(run.start())
    return snapshot.apply_all(event for batch in run.batches() for event in batch)
