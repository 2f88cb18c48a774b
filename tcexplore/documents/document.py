"""What a pane shows, as data: a sequence of rows, each a few spans of text with a style name and what it stands for.

Documents are pure: built from a `Snapshot`, without textual, and cheap to make; rows are built when they are asked for.
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
    """Text in one style; `style` is a name of `ui/palette.py`, empty for plain text."""

    text: str
    style: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a pane.

    `links` say what the row stands for: the first one's kind is what the row is (a row of the graph is a `node`), more
    of that kind may follow, and then links to other things, which enter follows. A row is lit when one of its own kind
    is on the chain through the selection (`session/links.py`). `location` is where `e` opens the editor; `fold` names
    the group that enter opens or closes on this row; `copy` is what `y` copies where that differs from the text;
    `leads` names the group of the same document that enter goes to.
    """

    spans: tuple[Span, ...]
    links: tuple[Link, ...] = ()
    location: Location | None = None
    fold: str | None = None
    copy: str | None = None
    leads: str | None = None

    @property
    def text(self) -> str:
        return "".join(span.text for span in self.spans)


class Document(Protocol):
    """A sequence of rows. `title` goes into the pane's border beside its name."""

    @property
    def title(self) -> str: ...

    def __len__(self) -> int: ...

    def row(self, index: int) -> Row:
        """The row at `index`; must be fast (a page is built on each key) and always give the same answer."""
        ...


class Chapter(NamedTuple):
    """A kernel's or a graph's part of a document: its first row, and what to call it."""

    row: int
    title: str


def chapters(document: Document) -> Sequence[Chapter]:
    """The chapters of a document, where it has any, in the order of their rows."""
    found: Sequence[Chapter] = getattr(document, "chapters", ())
    return found


def start(document: Document) -> int:
    """The row that a pane which nobody has moved in opens at: what matters, where the document says so."""
    found: int = getattr(document, "start", 0)
    return found


class Builder(Protocol):
    """Makes the document of one pane out of a run.

    `toggled` names the fold groups (`Row.fold`) whose state the user changed from how the pane shows them at first;
    a folded row and its opened form keep the same `fold`, so that enter works both ways. `width` is how many cells a
    row has: prose is wrapped to it, plots and columns are fitted to it, code is not.
    """

    def __call__(self, snapshot: Snapshot, toggled: frozenset[str], width: int = 78) -> Document: ...
