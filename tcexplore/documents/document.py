"""Content of a pane or a report as data: rows of styled text, each with links to what it stands for.

Documents are pure: they are built from a `Snapshot`, cheap to make, and build long parts row by row on demand.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

from tcexplore.events import Location
from tcexplore.session.identity_cache import by_identity as by_identity
from tcexplore.session.links import Link

if TYPE_CHECKING:
    from tcexplore.session import Snapshot


__all__ = [
    "Builder", "Chapter", "Document", "Link", "Move", "Row", "Span", "chapters", "choice_of", "start", "steered",
    "with_choices",
]  # fmt: skip


class Span(NamedTuple):
    """Text in one style."""

    text: str
    style: str = ""
    """A name from `style_names.py`, or several with blanks in between; empty for plain text."""


class Row(NamedTuple):
    """One line of a document."""

    spans: tuple[Span, ...]
    links: tuple[Link, ...] = ()
    """What the row stands for. The kind of the first link is the kind of the row (a row of the graph is a `node`); more
    links of that kind may follow, then links to other things, which enter follows."""
    location: Location | None = None
    """Where the editor opens."""
    fold: str | None = None
    """The fold group that enter opens or closes on this row; `NAME=VALUE` takes the place of another value."""
    copy: str | None = None
    """What is copied, if it differs from the text."""
    hides: tuple[Link, ...] = ()
    """Links of the rows that a closed fold hides: its own row is highlighted in their place. `links` are then only what
    a selection of the row selects."""
    inside: Callable[[], str] | None = None
    """Returns the text that a closed fold hides, which a search finds on the fold's row."""
    target: str | None = None
    """The fold group of the same document that enter goes to."""
    place: tuple[int, int] | None = None
    """The characters that a view scrolls to when it goes to the row: its graph break."""
    keys_only: bool = False
    """Whether the row is about keys, so that a printed report leaves it out."""
    kept: int | None = None
    """Number of spans that a view cuts last: where the row is too wide, the others give way first, from the end. None:
    all up to the quiet ones at the end."""
    continued: bool = False
    """Whether the row is the rest of the line of the row above, whose `copy` has all of it."""
    meaning: str = ""
    """What the marks of the row mean, in words: the line below the panes says it for the row under the cursor."""
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


Move = Literal["zoom", "along"]
"""What the user does in a document that is drawn along an axis: zoom it, or move its mark."""


def steered(document: Document, move: Move, by: int, row: int) -> tuple[str, ...]:
    """Return the choices that a move leads to, with the cursor on a row; none if the document has no axis."""
    steer = getattr(document, "steer", None)
    choices: tuple[str, ...] = steer(move, by, row) if steer is not None else ()
    return choices


def with_choices(toggled: frozenset[str], choices: Iterable[str]) -> frozenset[str]:
    """Return the toggled fold groups with choices, each `NAME=VALUE`, in place of earlier ones of the same name."""
    chosen = frozenset(choices)
    names = tuple(f"{choice.partition('=')[0]}=" for choice in chosen)
    return frozenset(known for known in toggled if not known.startswith(names)) | chosen


def choice_of(toggled: frozenset[str], name: str) -> str:
    """Return the value of a choice; empty if there is none."""
    return next((known.partition("=")[2] for known in toggled if known.startswith(f"{name}=")), "")


class Builder(Protocol):
    """Function that builds the document of one pane from a run.

    `toggled` names the fold groups (`Row.fold`) that the user opened or closed; a folded row and its opened form have
    the same `fold`. `width` is the number of cells of a row: prose wraps to it, plots and columns fit it, code does
    not.
    """

    def __call__(self, snapshot: Snapshot, toggled: frozenset[str], width: int = 78) -> Document: ...


@dataclass(frozen=True, slots=True)
class Part:
    """Rows that are built on demand."""

    count: int
    build: Callable[[int], Row]
    """Returns the row at an index of the part."""
    chapter: str = ""
    """Title of the chapter that begins with this part, if one does."""


def fixed(rows: Iterable[Row], chapter: str = "") -> Part:
    """Return a part of given rows."""
    built: Sequence[Row] = tuple(rows)
    return Part(len(built), built.__getitem__, chapter)


class Parts:
    """A document of parts, one below the other. A pane opens it at the row `start`."""

    def __init__(self, title: str, parts: Iterable[Part], start: int = 0) -> None:
        self.title = title
        self.start = start
        self._parts = [part for part in parts if part.count]
        self._ends = list(accumulate(part.count for part in self._parts))
        begins = zip(self._parts, (0, *self._ends), strict=False)
        self.chapters = tuple(Chapter(row, part.chapter) for part, row in begins if part.chapter)

    @property
    def parts(self) -> list[Part]:
        """The parts with rows, for a document that contains this one."""
        return self._parts

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def row(self, index: int) -> Row:
        """Return the row at `index`. Raises IndexError outside the document."""
        if not 0 <= index < len(self):
            raise IndexError(index)
        at = bisect_right(self._ends, index)
        part = self._parts[at]
        return part.build(index - self._ends[at] + part.count)


@dataclass(frozen=True, slots=True)
class StaticDocument:
    """A document of given rows."""

    title: str
    rows: tuple[Row, ...]

    def __len__(self) -> int:
        return len(self.rows)

    def row(self, index: int) -> Row:
        return self.rows[index]


def message(*lines: str, style: str = "muted") -> StaticDocument:
    """Return a document of a few lines of text."""
    return StaticDocument("", tuple(Row((Span(f" {line}", style),)) for line in lines))
