"""Which kernel the user means: the one that the cursor is on or in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tcexplore.session import Snapshot
from tcexplore.session.links import Link, kernel_link
from tcexplore.ui.lines.line_view import LineView

if TYPE_CHECKING:
    from tcexplore.events import Kernel  # not before the first frame


def kernel_under(view: LineView) -> Link | None:
    """The kernel of the row under the cursor, or of the nearest row above that has one."""
    for index in range(view.cursor, -1, -1) if len(view.document) else ():
        found = next((link for link in view.document.row(index).links if link.kind == "kernel"), None)
        if found is not None:
            return found
    return None


def kernel_of(snapshot: Snapshot, link: Link | None) -> Kernel | None:
    """The kernel that a link stands for, if this run has it."""
    return next((kernel for kernel in snapshot.code.kernels if kernel_link(kernel) == link), None)


def kernel_name(snapshot: Snapshot, link: Link) -> str:
    """`kernel 2`, as every pane numbers it."""
    from tcexplore.documents.labels import labels

    return labels(snapshot).kernel[link].words
