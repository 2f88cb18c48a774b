"""What a pane shows, as data: a sequence of rows, each a few spans of text with a style name and what it stands for.

Documents are pure: built from a `Snapshot`, without textual, and cheap to make; rows are built when they are asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from tcexplore.events import Location
from tcexplore.session import Snapshot


class Link(NamedTuple):
    """One thing that rows in several panes stand for.

    `kind` is `line` (`where` is the file, `name` the line number), `node` (graph id, Dynamo node name), `aten`
    (`graph/phase`, post-grad node name), `kernel` (`graph/phase`, kernel name), `break` or `guard`.
    """

    kind: str
    where: str
    name: str


class Span(NamedTuple):
    """Text in one style; `style` is a name of `ui/palette.py`, empty for plain text."""

    text: str
    style: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a pane.

    `links` say what the row stands for (rows in any pane that share one are lit together); `location` is where `e`
    opens the editor; `fold` names the group that enter opens or closes on this row; `copy` is what `y` copies where
    that differs from the text.
    """

    spans: tuple[Span, ...]
    links: tuple[Link, ...] = ()
    location: Location | None = None
    fold: str | None = None
    copy: str | None = None

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


class Builder(Protocol):
    """Makes the document of one pane out of a run.

    `toggled` names the fold groups (`Row.fold`) whose state the person changed from how the pane shows them at first;
    a folded row and its opened form keep the same `fold`, so that enter works both ways.
    """

    def __call__(self, snapshot: Snapshot, toggled: frozenset[str]) -> Document: ...
