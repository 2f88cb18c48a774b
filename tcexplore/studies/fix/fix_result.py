"""Graph breaks with the fixes that were tried for them, and the files that the fixes change."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from tcexplore.events import GraphBreak, Job
from tcexplore.fixes.advice import advice
from tcexplore.fixes.fix import Change
from tcexplore.fixes.proposals import installed, proposals
from tcexplore.fixes.verification import Verification
from tcexplore.session import Snapshot
from tcexplore.watch import read_source


@dataclass(frozen=True, slots=True)
class AttemptedFix:
    """One fix that was tried for a break, or a break that has no fix."""

    number: int
    """The break's number, from 1."""
    broken: GraphBreak
    """The break, on its line in the user's own file."""
    advice: str
    """What the user can do if no fix is verified."""
    verification: Verification | None = None


@dataclass(frozen=True, slots=True)
class BreakFixes:
    """A break with all fixes that were tried, of which the last may be verified."""

    number: int
    broken: GraphBreak
    advice: str
    verifications: tuple[Verification, ...]

    @property
    def verified(self) -> Verification | None:
        """Return the successful verification."""
        return next((one for one in self.verifications if one.verified), None)


def by_break(results: Iterable[AttemptedFix | Snapshot]) -> tuple[BreakFixes, ...]:
    """Group attempts by break."""
    breaks: dict[int, BreakFixes] = {}
    for attempt in results:
        if isinstance(attempt, AttemptedFix):
            known = breaks.get(attempt.number) or BreakFixes(attempt.number, attempt.broken, attempt.advice, ())
            new = (attempt.verification,) if attempt.verification else ()
            breaks[attempt.number] = replace(known, verifications=(*known.verifications, *new))
    return tuple(breaks.values())


@dataclass(slots=True)
class FixedFiles:
    """The texts of a program's files with the fixes adopted so far."""

    job: Job
    texts: dict[str, str] = field(default_factory=dict)
    adopted: list[Change] = field(default_factory=list)

    def text(self, file: str) -> str:
        """Return the text of a file with its fixes. Raises `UnreadableError`."""
        if file not in self.texts:
            self.texts[file] = self.job.source if file == self.job.file else read_source(file)
        return self.texts[file]

    def changes(self, broken: GraphBreak) -> tuple[Change, ...]:
        """Return the changes that could remove a break. Raises `UnreadableError`."""
        at = broken.location
        return proposals(at.file, self.text(at.file), at.line, broken.kind) if at and not installed(at.file) else ()

    def advice(self, broken: GraphBreak) -> str:
        """Return what the user can do if no change is verified. Raises `UnreadableError`."""
        at = broken.location
        text = self.text(at.file) if at and not installed(at.file) else ""
        return advice(at.file, text, at.line, broken.kind) if at else ""

    def job_with(self, change: Change) -> Job:
        """Return the job that runs a change on top of the adopted ones, and compares it with the original source."""
        texts = {**self.texts, change.file: change.after}
        overlay = tuple((file, text) for file, text in texts.items() if file != self.job.file)
        source = texts.get(self.job.file, self.job.source)
        return replace(self.job, source=source, overlay=overlay, baseline=self.job.source, examine=True)

    def adopt(self, change: Change) -> None:
        """Continue from the changed file."""
        self.texts[change.file] = change.after
        self.adopted.append(change)

    def in_original(self, broken: GraphBreak) -> GraphBreak:
        """Return a break of the changed files on its line in the user's own file."""
        at = broken.location
        line = at.line if at else None
        for change in reversed(self.adopted):
            if at is not None and line is not None and change.file == at.file:
                line = change.line_before(line)
        return broken if at is None or line is None else replace(broken, location=replace(at, line=line))
