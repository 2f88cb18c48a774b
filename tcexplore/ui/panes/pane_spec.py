"""The definition of a pane: its name, its views of a run, and the title in its frame."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.cells import cell_len
from textual.content import Content

from tcexplore.documents.document import Builder
from tcexplore.session.links import Link
from tcexplore.ui.lines.row_painter import flat

if TYPE_CHECKING:
    from tcexplore.session import Snapshot

MORE = "…"
"""Marks a title that has no room for all view names."""


class View(NamedTuple):
    """One view of a pane."""

    name: str
    """The view's name in the pane's title."""

    builder: str
    """`module:function` of the document's builder. It is imported at the first use, after the first frame."""

    fields: tuple[str, ...]
    """Fields of a snapshot that the document depends on. It is rebuilt only when one of them is another object."""

    shown_with: tuple[str, ...] = ()
    """Fields of which one must be set, or the pane still shows the previous run, marked as old. Empty: always shown."""

    kinds: frozenset[str] = frozenset()
    """Kinds of links that the rows stand for."""

    folds: str = ""
    """`module:function` that returns the folds that hide the selection; they open when the user turns to the view."""

    changing: Callable[[Snapshot], tuple[object, ...]] = lambda _: ()
    """Fields that the document depends on only in some phases of a run."""

    @property
    def build(self) -> Builder:
        """The function that builds the document of a run, with some folds toggled, for a width in cells."""
        builder: Builder = _load(self.builder)
        return builder

    def key(self, snapshot: Snapshot) -> tuple[object, ...]:
        """Return the objects that the document of this run is built from."""
        # Every view may say why a trace does not hold its facts.
        lacking = (snapshot.missing_facts,) if snapshot.trace else ()
        return (*(attrgetter(field)(snapshot) for field in self.fields), *self.changing(snapshot), *lacking)

    def has(self, snapshot: Snapshot) -> bool:
        """Return whether the run has something to show in this view."""
        return not self.shown_with or any(attrgetter(field)(snapshot) for field in self.shown_with)

    def opens(self, snapshot: Snapshot, links: Sequence[Link]) -> frozenset[str]:
        """Return the folds that hide rows of these links."""
        folds: frozenset[str] = _load(self.folds)(snapshot, links) if self.folds else frozenset()
        return folds


def _load(path: str) -> Callable[..., Any]:
    module, _, function = path.partition(":")
    loaded: Callable[..., Any] = getattr(import_module(module), function)
    return loaded


class PaneSpec(NamedTuple):
    """One pane. `number` is its key; it opens with the first of its views."""

    id: str
    number: int
    title: str
    views: tuple[View, ...]

    def view(self, name: str) -> View | None:
        """Return the view with this name."""
        return next((view for view in self.views if view.name == name), None)

    def next_view(self, view: View, by: int) -> View:
        """Return the view `by` places after another one, cyclically."""
        names = [known.name for known in self.views]
        return self.views[(names.index(view.name) + by) % len(names)]


def heading(spec: PaneSpec, view: View, summary: str, notes: tuple[str, ...], room: int) -> Content:
    """Return the title for `room` cells: number, name, views (the current one in brackets), the view's summary, notes.

    If room is scarce, the views that the next keys lead to come first, and notes come before the summary.
    """
    least = cell_len(f"{spec.number} {spec.title} [{view.name}] {MORE}")
    tail = _tail((summary, *notes))
    if least + cell_len(tail) > room:
        tail = _tail(notes) if any(notes) else tail
    left = room - cell_len(f"{spec.number} {spec.title}{tail}")
    # Content is never parsed as markup.
    return Content.assemble((str(spec.number), "bold"), f" {spec.title}", *_views(spec, view, left), tail)


def view_at(spec: PaneSpec, title: str, column: int) -> View | None:
    """Return the view whose name in the title of a pane is at this column."""
    at = title.find(spec.title) + len(spec.title)
    for view in sorted(spec.views, key=lambda view: title.find(view.name, at)):
        first = title.find(view.name, at)
        if 0 <= first <= column < first + len(view.name):
            return view
    return None


def _tail(texts: tuple[str, ...]) -> str:
    return "".join(f" ─ {flat(text)}" for text in texts if text)


def _views(spec: PaneSpec, view: View, room: int) -> list[tuple[str, str]]:
    """Return the view names that fit, the current one in brackets."""
    if len(spec.views) == 1:
        return []
    names = [known.name for known in spec.views]
    at = names.index(view.name)
    after = [*names[at + 1 :], *names[:at]]
    left = room - cell_len(f" [{view.name}]") - sum(cell_len(f" {name}") for name in after)
    more: list[tuple[str, str]] = []
    while after and left < 0:
        left += cell_len(f" {after.pop()}") - (0 if more else cell_len(f" {MORE}"))
        more = [(f" {MORE}", "dim")]
    named = [(f" [{n}]", "bold") if n == view.name else (f" {n}", "dim") for n in names if n in {view.name, *after}]
    return [*named, *more]
