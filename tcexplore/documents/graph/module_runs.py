"""A long graph cut into stretches of nodes that belong to one of the user's modules, so that each can be folded."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import groupby
from typing import NamedTuple

from tcexplore.events import FxNode

FROM = 200
"""Nodes from which on a graph is cut; each stretch is folded at first."""

SHORTEST = 4
"""Nodes of a stretch that is worth a fold."""


class ModuleRun(NamedTuple):
    """Nodes from index `first` up to `last` (not included); `module` is None for those that are not folded together."""

    module: str | None
    first: int
    last: int


def runs(nodes: Sequence[FxNode]) -> list[ModuleRun]:
    """The stretches of a graph's nodes, in order, all nodes covered."""
    if len(nodes) < FROM:
        return [ModuleRun(None, 0, len(nodes))]
    found: list[ModuleRun] = []
    for module, members in groupby(enumerate(nodes), key=lambda item: block(item[1].module)):
        indices = [index for index, _ in members]
        named = module if len(indices) >= SHORTEST else None
        found.append(ModuleRun(named, indices[0], indices[-1] + 1))
    return found


@lru_cache(maxsize=4096)
def block(module: str | None) -> str | None:
    """The part of a module's path that is worth a fold: up to its first number (`self.layers.3`), else two names."""
    if not module:
        return None
    parts = module.split(".")
    number = next((index for index, part in enumerate(parts) if part.isdigit()), None)
    return ".".join(parts[: 2 if number is None else number + 1])
