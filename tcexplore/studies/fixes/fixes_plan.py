"""Cures of one file's graph breaks, one after another, each tried in a worker of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field, replace

from tcexplore.events import GraphBreak, Job
from tcexplore.fixes.advice import advice
from tcexplore.fixes.attempted_fixes import AttemptedFixes
from tcexplore.fixes.fix import Change
from tcexplore.fixes.proposals import installed, proposals
from tcexplore.fixes.verification import Proof
from tcexplore.session import Snapshot
from tcexplore.studies.study_runs import Runs, Say

Read = Callable[[str], str]


@dataclass(slots=True)
class FixAttempts:
    """The texts of a program's files as far as they have been cured. `read` gives the text of a file."""

    job: Job
    read: Read
    texts: dict[str, str] = field(default_factory=dict)
    originals: dict[str, str] = field(default_factory=dict)
    """The same files' texts as they were read."""
    adopted: list[Change] = field(default_factory=list)

    def text(self, file: str) -> str:
        """The text of a file with the cures so far. Raises what `read` raises."""
        if file not in self.texts:
            self.texts[file] = self.originals[file] = self.job.source if file == self.job.file else self.read(file)
        return self.texts[file]

    def changes(self, found: GraphBreak) -> tuple[Change, ...]:
        """What could be changed to remove a break. Raises what `read` raises."""
        at = found.location
        return proposals(at.file, self.text(at.file), at.line, found.kind) if at and not installed(at.file) else ()

    def advice(self, found: GraphBreak) -> str:
        """What to do where no change is proven. Raises what `read` raises."""
        at = found.location
        text = self.text(at.file) if at and not installed(at.file) else ""
        return advice(at.file, text, at.line, found.kind) if at else ""

    def trial(self, change: Change, time_for: float) -> Job:
        """The job that tries a change on top of the cures so far, beside the files as they are on the disk."""
        return trial(self.job, {**self.texts, change.file: change.after}, time_for)

    def adopt(self, change: Change) -> None:
        """Go on from the changed file."""
        self.texts[change.file] = change.after
        self.adopted.append(change)

    def as_written(self, found: GraphBreak) -> GraphBreak:
        """A break of the files as they are by now, on the line that it has in the user's own."""
        at = found.location
        line = at.line if at else None
        for change in reversed(self.adopted):
            if at is not None and line is not None and change.file == at.file:
                line = change.line_before(line)
        return found if at is None or line is None else replace(found, location=replace(at, line=line))


def trial(job: Job, texts: Mapping[str, str], time_for: float) -> Job:
    """The job that runs these texts in the place of the files' own, and compares them with the job's own source."""
    overlay = tuple((file, text) for file, text in texts.items() if file != job.file)
    return replace(
        job,
        source=texts.get(job.file, job.source),
        overlay=overlay,
        baseline=job.source,
        time_for=time_for,
        examine=True,
    )


async def treat(
    treatment: FixAttempts,
    runs: Runs,
    within: float,
    time_for: float,
    only: int | None = None,
    say: Say = lambda _: None,
) -> AsyncIterator[AttemptedFixes | Snapshot]:
    """The run of the file as it is, then each of its breaks (or the one with the number `only`) with what was tried.

    A cure that is proven stays in place for the breaks behind it.
    """
    current = (await runs.run(replace(treatment.job, time_for=0.0), within)).snapshot
    yield current
    number, seen = 0, set[tuple[str, str, str]]()
    while (found := _next(current, seen)) is not None:
        number += 1
        if only not in (None, number):
            continue
        proofs: list[Proof] = []
        written, said = treatment.as_written(found), treatment.advice(found)
        for change in treatment.changes(found):
            say(f"break {number}: {change.cure.name}")
            run = await runs.run(treatment.trial(change, time_for), within)
            proofs.append(Proof(change, found, current, run.snapshot))
            if proofs[-1].proven:
                treatment.adopt(change)
                current = run.snapshot
                break
        yield AttemptedFixes(number, written, tuple(proofs), said)


def _next(snapshot: Snapshot, seen: set[tuple[str, str, str]]) -> GraphBreak | None:
    """The first break that has not been looked at; lines move, so that it is known by what is written there."""
    for found in snapshot.breaks:
        key = (found.location.file if found.location else "", found.code, found.kind)
        if key not in seen:
            seen.add(key)
            return found
    return None
