"""Messages from widgets to their screen, and from screens to the app."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual.events import Key
from textual.message import Message

from tcexplore.documents.document import Link, Row

if TYPE_CHECKING:
    from tcexplore.events import Event, Job  # not imported before the first frame


@dataclass
class KeyHandled(Message):
    """A key was handled by the widgets from the focus up to the app, which this message passes after it."""

    key: Key


@dataclass
class CursorMoved(Message):
    """The user moved the cursor of a pane onto a row."""

    row: Row


@dataclass
class RowEntered(Message):
    """The user pressed enter (or double-clicked) on a row."""

    row: Row


@dataclass
class Steered(Message):
    """The user zoomed a document that is drawn along an axis, or moved its mark."""

    choices: tuple[str, ...]


@dataclass
class CopyRequested(Message):
    """The user selected text with the mouse."""

    text: str


@dataclass
class HitReached(Message):
    """The cursor was put on a highlighted row."""

    label: str
    """`highlight 3/12`; empty if the pane has no highlighted row."""


@dataclass
class SearchCounted(Message):
    """A search made progress."""

    at: int
    """1-based number of the match under the cursor, 0 for none."""
    count: int
    done: bool
    """Whether all rows have been read."""


@dataclass
class FixRequested(Message):
    """The user wants a fix of the graph break that these links stand for."""

    links: tuple[Link, ...]


@dataclass
class RecompileCheckRequested(Message):
    """The user wants to check inputs against the guards of the cache entry that these links stand for."""

    links: tuple[Link, ...]


@dataclass
class MachineCodeRequested(Message):
    """The user wants the machine code of the selected row."""


@dataclass
class StudyMeasured(Message):
    """A study measured facts of the run of a job."""

    facts: tuple[Event, ...]
    job: Job


@dataclass
class NewestRequested(Message):
    """The user leaves the history: the newest run comes into view again."""


@dataclass
class StepRequested(Message):
    """The user wants to try the next step with this key."""

    step: str


@dataclass
class RunNeeded(Message):
    """A screen needs the snapshot of a run that is compressed or on disk."""

    run: int


@dataclass
class RunChosen(Message):
    """The user chose a run of the history."""

    run: int
