"""What makes a pane: its name, and the views of a run that it has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tcexplore.documents.document import Builder
from tcexplore.session import Snapshot
from tcexplore.session.links import Link


@dataclass(frozen=True, slots=True)
class View:
    """One way to show what a pane is about.

    `name` is the word for it in the pane's title. `about` gives the parts of a run that the document is made of: it is
    built anew only when one of them is another object. `has` says whether a run knows any of it yet; until then the
    pane goes on showing the run before, as old. `kinds` are the kinds of links that its rows stand for.
    """

    name: str
    build: Builder
    about: Callable[[Snapshot], tuple[object, ...]]
    has: Callable[[Snapshot], bool]
    kinds: frozenset[str] = frozenset()
    opens: Callable[[Snapshot, Sequence[Link]], frozenset[str]] = lambda _snapshot, _links: frozenset()
    """The folds that hide what is selected when the view is turned to: they are opened then."""


@dataclass(frozen=True, slots=True)
class PaneSpec:
    """One pane. `number` is its key; it opens with the first of its views."""

    id: str
    number: int
    title: str
    views: tuple[View, ...]

    def view(self, name: str) -> View | None:
        """The view of that name."""
        return next((view for view in self.views if view.name == name), None)

    def beside(self, view: View, by: int) -> View:
        """The view `by` places behind another one, round the end."""
        names = [known.name for known in self.views]
        return self.views[(names.index(view.name) + by) % len(names)]
