"""The state dict view of the timing pane: the names of a compiled model's parameters in a checkpoint."""

from __future__ import annotations

from collections.abc import Iterator

from tcexplore import events as ev
from tcexplore.documents.document import Parts, Row, fixed
from tcexplore.documents.empty_states import empty_part
from tcexplore.documents.prose import BLANK, heading, wrapped
from tcexplore.events import StateKeys
from tcexplore.quantities import count
from tcexplore.session import Snapshot

EMPTY_TEXT = (
    "The names in the state dict of the compiled model appear here, next to those of the model itself. torch can also "
    "save the result of compiling."
)

NO_STATE = "The compiled callable is not a module with parameters, so it has no state dict."

ARTIFACTS = (
    "`cache artifacts` in ^p saves the compile caches in one process, loads them in another and times both, as does "
    "tcexplore artifacts FILE."
)


def state_dict_document(snapshot: Snapshot, toggled: frozenset[str] = frozenset(), width: int = 78) -> Parts:  # noqa: ARG001
    """Return the document of the view."""
    if snapshot.state_keys is None and (snapshot.trace or not snapshot.complete):
        return Parts("", [empty_part(snapshot, width, EMPTY_TEXT, ev.RunFact.STATE_DICT)])
    rows = [*state_dict_rows(snapshot, width), BLANK, heading("Cache artifacts"), *wrapped(ARTIFACTS, width, "muted")]
    return Parts("", [fixed(rows)])


def state_dict_rows(snapshot: Snapshot, width: int) -> Iterator[Row]:
    """Yield the names in the state dict of the compiled model next to the model's own."""
    keys = snapshot.state_keys
    yield heading("State dict", "read from the live objects")
    if keys is None:
        yield from wrapped(NO_STATE, width, "muted")
        return
    first, *others = name_differences(keys)
    yield from wrapped(first, width, "warn" if keys.prefix != "" else "ok")
    for text in others:
        yield from wrapped(text, width)
    yield BLANK
    for name, listed in (("model", keys.module), ("compiled", keys.compiled), ("in place", keys.in_place)):
        more = ", …" if keys.count > len(listed) else ""
        yield from wrapped(", ".join(listed) + more, width, "dim", lead=f"{name:<9} ")


def name_differences(keys: StateKeys) -> Iterator[str]:
    """Yield how the names differ from the model's, and what to save instead."""
    names = count(keys.count, "name")
    if keys.prefix:
        yield f"state_dict of torch.compile(model): {names}, each with the prefix {keys.prefix!r}"
        yield f"`{keys.compiled[0]}` is `{keys.module[0]}` in the model itself"
        yield "Save and load model.state_dict() of the original module: it holds the same tensors."
    elif keys.prefix == "":
        yield f"state_dict of torch.compile(model): {names}, the same as the model's"
    else:
        yield f"state_dict of torch.compile(model): names differ from the model's: {', '.join(keys.compiled)}"
    same = keys.in_place == keys.module
    yield f"model.compile(), in place: {'the same names as the model' if same else ', '.join(keys.in_place)}"
