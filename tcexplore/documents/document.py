"""Content of a pane or a report as data: rows of styled text, each with links to what it stands for.

Documents are pure: they are built from a `Snapshot`, cheap to make, and build long parts row by row on demand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from tcexplore.events import Location
from tcexplore.session import Snapshot
from tcexplore.session.links import Link

__all__ = ["Builder", "Chapter", "Document", "Link", "Row", "Span", "chapters", "start"]


class Span(NamedTuple):
    """Text in one style."""

    text: str
    style: str = ""
    """A name from `style_names.py`, or several with blanks in between; empty for plain text."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a document."""

    spans: tuple[Span, ...]
    links: tuple[Link, ...] = ()
    """What the row stands for. The kind of the first link is the kind of the row (a row of the graph is a `node`); more
    links of that kind may follow, then links to other things, which enter follows."""
    location: Location | None = None
    """Where the editor opens."""
    fold: str | None = None
    """The fold group that enter opens or closes on this row."""
    copy: str | None = None
    """What is copied, if it differs from the text."""
    hides: tuple[Link, ...] = ()
    """Links of the rows that a closed fold hides: its own row is highlighted in their place."""
    target: str | None = None
    """The fold group of the same document that enter goes to."""
    place: tuple[int, int] | None = None
    """The characters that a view scrolls to when it goes to the row: its graph break."""
    keys_only: bool = False
    """Whether the row is about keys, so that a printed report leaves it out."""
    no_wrap: bool = False
    """Whether the row is code or part of a table, so that a printed report keeps it on one line."""

    @property
    def text(self) -> str:
        return "".join(span.text for span in self.spans)


class Document(Protocol):
    """A sequence of rows."""

    @property
    def title(self) -> str:
        """The summary in the pane's border, next to the pane's name."""
        ...

    def __len__(self) -> int: ...

    def row(self, index: int) -> Row:
        """Return the row at `index`. It must be fast, because each key builds a page, and always the same."""
        ...


class Chapter(NamedTuple):
    """The part of a document about one kernel or graph."""

    row: int
    """Its first row."""
    title: str


def chapters(document: Document) -> Sequence[Chapter]:
    """Return the chapters of a document in the order of their rows."""
    listed: Sequence[Chapter] = getattr(document, "chapters", ())
    return listed


def start(document: Document) -> int:
    """Return the row at which a pane first opens the document."""
    first: int = getattr(document, "start", 0)
    return first


class Builder(Protocol):
    """Function that builds the document of one pane from a run.

    `toggled` names the fold groups (`Row.fold`) that the user opened or closed; a folded row and its opened form have
    the same `fold`. `width` is the number of cells of a row: prose wraps to it, plots and columns fit it, code does
    not.
    """

    def __call__(self, snapshot: Snapshot, toggled: frozenset[str], width: int = 78) -> Document: ...
