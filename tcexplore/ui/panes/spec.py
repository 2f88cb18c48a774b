"""What makes a pane: its name, what it shows of a run, and what of a run that is about."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tcexplore.session import Snapshot
from tcexplore.ui.document import Builder


@dataclass(frozen=True, slots=True)
class PaneSpec:
    """One pane. `number` is its key.

    `about` gives the parts of a run that the document is made of: it is built anew only when one of them is another
    object. `has` says whether a run knows any of it yet; until then the pane goes on showing the run before, as old.
    `leads_to` is the pane that enter goes to from a row without a fold; `other` shows the same in another form.
    """

    id: str
    number: int
    title: str
    build: Builder
    about: Callable[[Snapshot], tuple[object, ...]]
    has: Callable[[Snapshot], bool]
    leads_to: str
    other: Builder | None = None
