"""The line above a study: what is studied, how far it is, and that the file's own timing waits for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tcexplore.documents.document import Row
from tcexplore.documents.empty_states import PHASES
from tcexplore.documents.fitted_row import Piece, fitted, piece
from tcexplore.documents.locations import display_path
from tcexplore.events import Job
from tcexplore.quantities import count

if TYPE_CHECKING:
    from tcexplore.ui.study_task import StudyTask


def study_title(name: str, job: Job, study: StudyTask[Any] | None, width: int) -> Row:
    """The line, `width` cells wide."""
    left = [piece(f" {name}", "title"), piece(display_path(job.file), "", 2), piece(f"as of run {job.run}", "muted", 3)]
    if study is None:
        return fitted(left, width - 1)
    return fitted([*left, *_state(study)], width - 1, list(_pause(study)))


def _state(study: StudyTask[Any]) -> Iterator[Piece]:
    if study.trouble:
        yield piece(f"✖ {study.trouble}", "error")
    elif study.stopped:
        yield piece(f"stopped after {count(len(study.found), 'result')}", "warn")
    elif study.over:
        yield piece("done", "ok")
    else:
        yield piece(f"◐ {study.said}", "running")
        if study.run is not None:
            yield piece(PHASES.get(study.run.phase, study.run.phase), "muted", 1)


def _pause(study: StudyTask[Any]) -> Iterator[Piece]:
    if not study.over:
        yield piece("the timing of your own run is paused", "muted", 4)
