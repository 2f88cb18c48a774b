"""The title in a pane's frame: number and name, its views with the one in view in brackets, what that one tells."""

from __future__ import annotations

from rich.cells import cell_len
from textual.content import Content

from tcexplore.ui.lines.strips import flat
from tcexplore.ui.panes.pane_spec import PaneSpec, View

MORE = "…"
"""There are more views than there is room for."""


def heading(spec: PaneSpec, view: View, told: str, notes: tuple[str, ...], room: int) -> Content:
    """The title in `room` cells; where there is little, the views that the next keys lead to are named first, and the
    notes stay rather than what the view tells."""
    least = cell_len(f"{spec.number} {spec.title} [{view.name}] {MORE}")
    tail = _tail((told, *notes))
    if least + cell_len(tail) > room:
        tail = _tail(notes) if any(notes) else tail
    left = room - cell_len(f"{spec.number} {spec.title}{tail}")
    # Content: no markup is read in it.
    return Content.assemble((str(spec.number), "bold"), f" {spec.title}", *_views(spec, view, left), tail)


def _tail(texts: tuple[str, ...]) -> str:
    return "".join(f" ─ {flat(text)}" for text in texts if text)


def _views(spec: PaneSpec, view: View, room: int) -> list[tuple[str, str]]:
    """The names that fit, that of the view in brackets."""
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
