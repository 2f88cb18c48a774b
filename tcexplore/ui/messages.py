"""What widgets tell the screen and the app."""

from __future__ import annotations

from dataclasses import dataclass

from textual.message import Message

from tcexplore.documents.document import Row
from tcexplore.events import Event, Job


@dataclass
class RunEvents(Message):
    """A batch of what the engine delivered: a `Job` for each run that began, and events of runs, in order."""

    items: tuple[Job | Event, ...]


@dataclass
class CursorMoved(Message):
    """The user moved the cursor of a pane onto a row."""

    row: Row


@dataclass
class RowEntered(Message):
    """Enter (or a double click) on a row of a pane."""

    row: Row


@dataclass
class HitReached(Message):
    """The cursor of a pane was put on a hit of what is selected: `hit 3/12`; empty where the pane has none."""

    words: str


@dataclass
class SearchCounted(Message):
    """A search in a pane got further: match `at` (1-based, 0 for none yet) of `count`; `done` when all is read."""

    at: int
    count: int
    done: bool
