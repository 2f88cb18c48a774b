"""The lines above and below the panes, as rows made for the width there is."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tcexplore import events as ev
from tcexplore.documents.document import Row
from tcexplore.session import Session, Snapshot

if TYPE_CHECKING:
    from tcexplore.ui.study_task import StudyTask


def title_line(session: Session, standby: ev.Standby | None, now: float) -> Callable[[int], Row]:
    """File, torch, device, configuration, and the run under way; `now` is seconds since it began."""
    from tcexplore.documents.strip.title_line import title_row

    return lambda width: title_row(session, standby, now, width)


def verdict_line(session: Session) -> Callable[[int], Row]:
    """What the compiler made of the file, in one line."""
    from tcexplore.documents.strip.verdict_line import verdict_row

    return lambda width: verdict_row(session, width)


def history_line(session: Session) -> Callable[[int], Row]:
    """One cell per save."""
    from tcexplore.documents.strip.history_strip import history_row

    return lambda width: history_row(session, width)


def study_line(name: str, job: ev.Job, study: StudyTask[Any] | None) -> Callable[[int], Row]:
    """What a study is about and how far it is; a study that is over has no run under way."""
    from tcexplore.studies.study_title import study_title

    return lambda width: study_title(name, job, study, width)


def compare_line(before: Snapshot | None, after: Snapshot | None, base: int | None) -> Callable[[int], Row]:
    """Which runs are compared, and why these."""
    from tcexplore.documents.fitted_row import fitted, piece

    if after is None:
        return lambda width: fitted([piece(" compare", "title"), piece("no run yet", "muted")], width)
    why = "" if before is None else f"with the base, run {base}" if before.run == base else f"with run {before.run}"
    pieces = [piece(" compare", "title"), piece(f"run {after.run} of {os.path.basename(after.file)}"), piece(why)]
    return lambda width: fitted(pieces, width)
