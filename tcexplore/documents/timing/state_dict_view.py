"""The timing pane's view on what of a compiled model can be kept."""

from __future__ import annotations

from collections.abc import Iterator

from tcexplore.documents.document import Row
from tcexplore.documents.document_parts import Parts, fixed
from tcexplore.documents.empty_states import nothing
from tcexplore.documents.prose import BLANK, heading, wrapped
from tcexplore.session import Snapshot
from tcexplore.studies.artifacts import artifacts_text as words

TEACHES = "What a checkpoint of the compiled model would hold, and what torch can save of the compile itself."

NO_STATE = "What was compiled is no module with parameters: it has no state dict."


def ship(snapshot: Snapshot, toggled: frozenset[str] = frozenset(), width: int = 78) -> Parts:  # noqa: ARG001
    """The document of the view."""
    if snapshot.state_keys is None and not snapshot.complete:
        return Parts("", [nothing(snapshot, width, TEACHES)])
    return Parts("", [fixed(_rows(snapshot, width))])


def _rows(snapshot: Snapshot, width: int) -> Iterator[Row]:
    yield from checkpoint(snapshot, width)
    yield BLANK
    yield heading("The compile itself")
    yield from wrapped(words.KEPT, width, "muted")


def checkpoint(snapshot: Snapshot, width: int) -> Iterator[Row]:
    """The names in the state dict of the compiled model beside the model's own."""
    keys = snapshot.state_keys
    yield heading("A checkpoint of it", "measured from the live objects")
    if keys is None:
        yield from wrapped(NO_STATE, width, "muted")
    else:
        first, *rest = words.state(keys)
        yield from wrapped(first, width, "warn" if keys.prefix != "" else "ok")
        for said in rest:
            yield from wrapped(said, width)
        yield BLANK
        for name, kept in (("model", keys.module), ("compiled", keys.compiled), ("in place", keys.in_place)):
            yield from wrapped(", ".join(kept) + (", …" if keys.count > len(kept) else ""), width, "dim",
                               lead=f"{name:<9} ")  # fmt: skip
