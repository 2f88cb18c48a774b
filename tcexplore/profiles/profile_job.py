"""The profiles of a job, one per rank, with the TORCH_TRACE of the same job; each rank is a run."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from mmap import mmap

from tcexplore import events as ev
from tcexplore.profiles.generated_code import NO_TRACE, GeneratedCode
from tcexplore.profiles.profile_join import JoinedProfile, join
from tcexplore.profiles.profile_run import Collective, collectives, compare_profiles, profile_events, unseen_kernels
from tcexplore.profiles.profile_table import HEADER, NoProfileError, is_profile, read_profile, read_rank
from tcexplore.profiles.step_timeline import modules_of, step_timelines
from tcexplore.traces.trace_content import InputError, Say, Scratch, TraceContent, file_content, silent, unpacked
from tcexplore.traces.trace_inputs import open_local
from tcexplore.traces.trace_job import TraceJob, TraceProcess
from tcexplore.traces.trace_run import TraceRun

_PACKED = (".gz", ".zst", ".xz", ".bz2")
_ENDINGS = (".json", *(f".json{ending}" for ending in _PACKED))

NOT_IN_PROFILES = (
    (ev.RunFact.ACCURACY, "a profile holds no results to compare"),
    (ev.RunFact.MEMORY, "a profile holds no measurement of memory"),
)
"""Facts that neither a profile nor a trace has, with the reasons."""

NOT_TIMED = "a profile holds calls of the compiled program only: there is nothing to compare them with"


def is_profile_path(path: str) -> bool:
    """Return whether an argument of `open` is a profile, by its name and its beginning."""
    local = os.path.expanduser(path)
    if not path.endswith(_ENDINGS) or not os.path.isfile(local):
        return path.endswith(_ENDINGS) and not os.path.exists(local)
    if path.endswith(_PACKED):
        return True
    try:
        with open(local, "rb") as file:
            return is_profile(file.read(1 << 16))
    except OSError:
        return True  # the reader says why


@dataclass(slots=True)
class RankProfile:
    """The profile of one rank."""

    name: str
    data: mmap | bytes
    _content: TraceContent
    """Owns the data."""


@dataclass(slots=True)
class ProfileJob:
    """The profiles of all ranks."""

    ranks: dict[int, RankProfile]
    trace: TraceJob | None = None
    joined: dict[int, tuple[ev.ProfileRead, list[Collective]]] = field(default_factory=dict)
    """What is known of the ranks that were read."""

    def process(self, rank: int) -> TraceProcess | None:
        """Return the process of the trace that wrote the profile of a rank."""
        if self.trace is None:
            return None
        own = next((process for process in self.trace.ranks if process.number == rank), None)
        return own or (self.trace.ranks[0] if len(self.trace.ranks) == len(self.ranks) == 1 else None)

    def compare(self) -> ev.RanksProfiled | None:
        """Return all ranks side by side; read those that are not yet. None if there is only one."""
        if len(self.ranks) < 2:
            return None
        for rank, profile in self.ranks.items():
            if rank not in self.joined:
                joined = join(read_profile(profile.name, profile.data), GeneratedCode([], {}))
                self._add(rank, joined)
        return compare_profiles([(rank, *known) for rank, known in sorted(self.joined.items())])

    def _add(self, rank: int, joined: JoinedProfile) -> ev.ProfileRead:
        read = next(event for event in profile_events(joined) if isinstance(event, ev.ProfileRead))
        self.joined[rank] = (read, collectives(joined))
        return read


def open_profiles(paths: Sequence[str], say: Say = silent) -> ProfileJob:
    """Return the profiles of a job. Raise `InputError`, or `NoProfileError` for another kind of file."""
    scratch = Scratch(say)
    ranks: dict[int, RankProfile] = {}
    for number, path in enumerate(dict.fromkeys(paths)):
        local = os.path.expanduser(path)
        shown = ev.clean(path)
        if not os.path.exists(local):
            raise InputError(f"{shown} does not exist")
        content = _content(local, shown, scratch)
        data = content.buffer()
        if not is_profile(data):
            raise NoProfileError(f"{shown} is not a Chrome trace of torch.profiler")
        rank = read_rank(bytes(data[:HEADER]))
        if rank is None or rank in ranks:
            rank = number if number not in ranks else max(ranks) + 1
        ranks[rank] = RankProfile(shown, data, content)
    return ProfileJob(dict(sorted(ranks.items())))


def _content(path: str, shown: str, scratch: Scratch) -> TraceContent:
    if not path.endswith(_PACKED):
        return file_content(path)
    with open_local(path, shown) as file:
        return unpacked(shown, file, scratch)


class ProfileRun:
    """Reads the profile of a rank, and its process of the trace, as the run of a number."""

    def __init__(self, job: ProfileJob, rank: int, run: int) -> None:
        self._job = job
        self._rank = rank
        self.run = run
        process = job.process(rank)
        ranks = len(job.ranks)
        self._trace = TraceRun(process, run, ranks) if process is not None else None
        if self._trace is not None:
            folders = [os.path.dirname(profile.name) for profile in job.ranks.values()]
            if process is not None and process.source.name:
                folders.append(os.path.dirname(process.source.name))
            self._trace.reader.context.sources.folders = tuple(dict.fromkeys(folders))
        self._code: list[ev.Event] = []
        self.joined: JoinedProfile | None = None

    @property
    def label(self) -> str:
        """Name of the profile for the user."""
        name = os.path.basename(self._job.ranks[self._rank].name)
        return f"{name}, rank {self._rank} of {len(self._job.ranks)}" if len(self._job.ranks) > 1 else name

    @property
    def machine(self) -> ev.Standby | None:
        """Versions of torch and Python, if the trace has them."""
        return self._trace.machine if self._trace is not None else None

    def start(self) -> ev.Job:
        """Return the job with the main file's text."""
        if self._trace is None:
            return ev.Job(run=self.run, file=self._job.ranks[self._rank].name, source="", trace=self.label)
        return replace(self._trace.start(), trace=self.label)

    def batches(self) -> Iterator[list[ev.Event]]:
        """Yield the events in batches, the end of the run last."""
        end: list[ev.Event] = []
        if self._trace is not None:
            for batch in self._trace.batches():
                self._code += [
                    event for event in batch if isinstance(event, ev.Kernel | ev.CompiledGraphKey | ev.AtenGraph)
                ]
                end += [event for event in batch if isinstance(event, ev.Finished)]
                yield [event for event in batch if not self._is_replaced(event)]
        else:
            name = ev.EntryFound(run=self.run, name="", kind="script", rule="read from a profile", calls=())
            end = [name, ev.FactMissing(fact="graphs, guards and lines", symbol="TORCH_TRACE", reason=NO_TRACE)]
            end.append(ev.Finished())
        yield self._numbered([ev.PhaseStarted(phase="profile", at=0.0)])
        yield self._numbered([*self._profile_events(), *self._missing(), *end])

    @staticmethod
    def _is_replaced(event: ev.Event) -> bool:
        """Return whether an event of the trace is not true of a profile with it, or has to come later."""
        if isinstance(event, ev.FactMissing):
            return event.fact in (ev.RunFact.CALL_PROFILE, ev.RunFact.LINE_TIMES, ev.RunFact.TIMELINE)
        return isinstance(event, ev.Finished | ev.TimingSkipped)

    def _numbered(self, events: list[ev.Event]) -> list[ev.Event]:
        return [replace(event, run=self.run, rank=self._rank) for event in events]

    def _missing(self) -> Iterator[ev.Event]:
        yield ev.TimingSkipped(reason=NOT_TIMED)
        if self._trace is None:
            for fact, reason in NOT_IN_PROFILES:
                yield ev.FactMissing(fact=fact, symbol="torch.profiler", reason=reason)

    def _profile_events(self) -> list[ev.Event]:
        profile = self._job.ranks[self._rank]
        table = read_profile(profile.name, profile.data)
        joined = self.joined = join(table, GeneratedCode.of_events(self._code), self._sources())
        events = profile_events(joined)
        read = next(event for event in events if isinstance(event, ev.ProfileRead))
        self._job.joined[self._rank] = (read, collectives(joined))
        names = [step.name for step in read.steps]
        timelines = step_timelines(joined, read.steps, names.index(read.median), modules_of(self._code))
        return [*([] if self._code else unseen_kernels(joined)), *events, *timelines]

    def _sources(self) -> dict[str, str]:
        """Return the whole text of each file of the user that is on this machine, and agrees with the trace."""
        if self._trace is None:
            return {}
        sources = self._trace.reader.context.sources
        texts = {file: sources.whole_text(file) for file in sources.files}
        return {file: text for file, text in texts.items() if text is not None}
