"""The kernel, cache entry or graph break of the row under the cursor, and comparisons of two of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING

from tcexplore.keymap import hint
from tcexplore.session import Session, Snapshot
from tcexplore.session.links import Link, break_link, kernel_link, line_link
from tcexplore.ui.lines.row_painter import MARKED
from tcexplore.ui.lines.row_view import RowView
from tcexplore.ui.panes.pane import Pane

if TYPE_CHECKING:
    from tcexplore.events import GraphBreak, Kernel  # not imported before the first frame
    from tcexplore.ui.screens.overlay_screen import AnswerScreen


def no_kernel() -> str:
    """Return why no kernel can be marked."""
    return f"Put the cursor on a kernel in the code pane ({hint('code-pane')}) to mark it."


def fusion_how() -> str:
    """Return how to compare two kernels."""
    return _how("Why are two kernels not fused?", f"the code pane ({hint('code-pane')})")


def _no_entry() -> str:
    return f"Put the cursor on a cache entry in the entries view ({hint('next-view')}) of the guards pane."


def _how(question: str, place: str) -> str:
    return f"{question} Mark one in {place} with {hint('mark')}, go to another, press {hint('compare')}."


def _another(kind: str) -> str:
    return f"go to another {kind} and press {hint('compare')}."


def kernel_at_cursor(view: RowView, snapshot: Snapshot) -> Kernel | None:
    """Return the kernel of the row under the cursor, or of the nearest row above that has one."""
    return kernel_of(snapshot, _link_at_cursor(view, ("kernel",)))


def kernel_of(snapshot: Snapshot, link: Link | None) -> Kernel | None:
    """Return the kernel that a link stands for, if this run has it."""
    return next((kernel for kernel in snapshot.code.kernels if kernel_link(kernel) == link), None)


def break_of(snapshot: Snapshot, links: Sequence[Link]) -> GraphBreak | None:
    """Return the break that these links stand for, else one on their line, else the only one of the run."""
    by_link = {break_link(graph_break): graph_break for graph_break in snapshot.breaks}
    by_line = {line_link(each.location): each for each in reversed(snapshot.breaks) if each.location}
    only = snapshot.breaks[0] if len(snapshot.breaks) == 1 else None
    return next((breaks[link] for breaks in (by_link, by_line) for link in links if link in breaks), only)


def mark_kernel(pane: Pane, snapshot: Snapshot) -> str:
    """Mark the kernel under the cursor, or remove its mark; return a message if there is none."""
    kernel = kernel_at_cursor(pane.rows, snapshot)
    if kernel is None:
        return no_kernel()
    from tcexplore.documents.labels import labels

    link = kernel_link(kernel)
    again = link == pane.rows.marked
    pane.rows.marked = None if again else link
    pane.note = "" if again else f"{MARKED} {labels(snapshot).kernel[link].name}"
    return ""


def mark_entry(pane: Pane) -> str:
    """Mark the cache entry under the cursor, or remove its mark; return a message for the user."""
    entry = _entry_at_cursor(pane.rows)
    if not entry:
        return _no_entry()
    again = pane.note == f"{MARKED} {entry}"
    pane.note = "" if again else f"{MARKED} {entry}"
    return f"{entry} is no longer marked." if again else f"{entry} is marked: {_another('entry')}"


def fusion_reasons(pane: Pane, snapshot: Snapshot) -> AnswerScreen | str:
    """Return a screen on why the marked kernel and the one under the cursor were not fused, or a message."""
    marked, other = kernel_of(snapshot, pane.rows.marked), kernel_at_cursor(pane.rows, snapshot)
    if marked is None or other is None:
        return fusion_how()
    if marked is other:
        return f"This is the marked kernel: {_another('one')}"
    from tcexplore.documents.code.fusion_view import fusion_reasons_document
    from tcexplore.ui.screens.overlay_screen import AnswerScreen

    return AnswerScreen(
        "Why are they not fused?", ("code", "5 Code"), partial(fusion_reasons_document, snapshot, marked, other)
    )


def entry_differences(pane: Pane, session: Session) -> AnswerScreen | str:
    """Return a screen on how the guards of the marked entry and the one under the cursor differ, or a message."""
    snapshot = session.view(pane.view.has)
    marked, other = pane.note.removeprefix(f"{MARKED} "), _entry_at_cursor(pane.rows)
    if snapshot is None or not pane.note or not other:
        return _how("How do two cache entries differ?", "the entries view")
    if marked == other:
        return f"This is the marked entry: {_another('one')}"
    from tcexplore.documents.guards.cache_entries_view import guard_diff_document
    from tcexplore.ui.screens.overlay_screen import AnswerScreen

    build = partial(guard_diff_document, snapshot, marked, other)
    return AnswerScreen(f"Guards of {marked} and {other}", ("guards", "4 Guards"), build)


def _entry_at_cursor(view: RowView) -> str:
    """Return the compile id of the entry under the cursor, or of the nearest row above that has one."""
    link = _link_at_cursor(view, ("entry", "guard"))
    return link.where if link is not None else ""


def _link_at_cursor(view: RowView, kinds: Collection[str]) -> Link | None:
    for index in range(view.cursor, -1, -1) if len(view.document) else ():
        link = next((link for link in view.document.row(index).links if link.kind in kinds), None)
        if link is not None:
            return link
    return None
