"""Which panes are in view at once."""

from __future__ import annotations

from collections.abc import Callable

from textual.geometry import Size

from tcexplore.documents.document import Row, Span
from tcexplore.ui.panes import PANES, PaneSpec

WIDE = Size(140, 40)
"""Cells from which on all panes are in view."""

_SHARED = ("timing", "output")
"""Panes that share one place; the first has it unless the other is the current one."""


def visible(size: Size, current: str, shared: str, zoomed: bool) -> tuple[str, ...]:
    """The panes in view, by id. `shared` is the pane that has the shared place."""
    if zoomed or not fits_all(size):
        return (current,)
    return tuple(pane.id for pane in PANES if pane.id not in _SHARED or pane.id == shared)


def fits_all(size: Size) -> bool:
    """Whether the terminal is large enough to show all panes side by side."""
    return size.width >= WIDE.width and size.height >= WIDE.height


def takes_shared_place(pane: str) -> bool:
    """Whether the pane has no place of its own."""
    return pane in _SHARED


def tabs(current: str) -> Callable[[int], Row]:
    """The line of pane names for when one pane is in view; where names do not fit, numbers do."""

    def row(width: int) -> Row:
        short = sum(len(pane.title) + 4 for pane in PANES) > width
        return Row(tuple(_tab(pane, chosen=pane.id == current, short=short) for pane in PANES))

    return row


def _tab(pane: PaneSpec, *, chosen: bool, short: bool) -> Span:
    if chosen:
        return Span(f"[{pane.number} {pane.title}]", "badge.muted")
    return Span(f" {pane.number} {pane.title[:3] if short else pane.title} ", "muted")
