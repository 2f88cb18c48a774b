"""Fusions that are chosen instead of left to Inductor's heuristics, through its own `InductorChoices`.

Only heuristics are overruled. What a fusion needs to be correct, such as loops that fit, is still torch's decision.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from torch._inductor import config
from torch._inductor.choices import InductorChoices
from torch._inductor.virtualized import V

from tcexplore.capture.inductor.aten_graphs import compilation
from tcexplore.events.config import FusionChoice


def choose_fusions(choices: tuple[FusionChoice, ...]) -> None:
    """Let the next compiles fuse as chosen; an empty tuple leaves all fusions to Inductor again."""
    choose: Any = ChosenFusions(choices) if choices else None
    # In the configuration, since torch's caches have it in their keys; the handler, since torch makes it only once.
    config.inductor_choices_class = choose
    config.aggressive_fusion = _aggressive or any(choice.together for choice in choices)
    V.set_choices_handler(choose() if choose is not None else InductorChoices())


_aggressive: bool = config.aggressive_fusion
"""Whether nodes that share no data are fused, by the user's own setting."""


@dataclasses.dataclass(frozen=True)
class ChosenFusions:
    """Makes the handler of Inductor's choices."""

    choices: tuple[FusionChoice, ...]

    def __call__(self) -> Any:
        return _Handler(self.choices)


_Base: Any = InductorChoices


class _Handler(_Base):  # type: ignore[misc]
    """Torch's heuristics, except for pairs of nodes with a choice."""

    def __init__(self, choices: tuple[FusionChoice, ...]) -> None:
        self._choices = choices
        self._places: dict[tuple[str, str, str], set[tuple[FusionChoice, int]]] = {}
        """The choices of a scheduler node with its part, by graph, phase and name."""
        for choice in choices:
            for part, names in enumerate(choice.parts):
                for name in names:
                    self._places.setdefault((choice.graph, choice.phase, name), set()).add((choice, part))

    def uuid(self) -> str:
        """Return what distinguishes it in the keys of torch's caches."""
        return repr(self._choices)

    def can_fuse(self, scheduler: Any, node1: Any, node2: Any, shared_data_score: int, *rest: Any) -> bool:
        chosen = self._chosen(node1, node2)
        if chosen is not None:
            return chosen
        if not shared_data_score and not _aggressive:
            return False  # without a choice, no such pair is compared
        return bool(_Base.can_fuse(scheduler, node1, node2, shared_data_score, *rest))

    def can_fuse_vertical(self, scheduler: Any, node1: Any, node2: Any, *rest: Any) -> bool:
        return self._chosen(node1, node2) or bool(_Base.can_fuse_vertical(scheduler, node1, node2, *rest))

    def can_fuse_horizontal(self, scheduler: Any, node1: Any, node2: Any, *rest: Any) -> bool:
        return self._chosen(node1, node2) or bool(_Base.can_fuse_horizontal(scheduler, node1, node2, *rest))

    def score_fusion(self, scheduler: Any, node1: Any, node2: Any, *rest: Any) -> Any:
        """Return torch's score; a chosen fusion comes first."""
        score = _Base.score_fusion(scheduler, node1, node2, *rest)
        return _first(score) if self._chosen(node1, node2) else score

    def _chosen(self, node1: Any, node2: Any) -> bool | None:
        """Return whether the nodes are to be fused; None where this is not chosen."""
        first, second = self._parts(node1), self._parts(node2)
        chosen = next((one for one in first if one in second and len(first[one] | second[one]) > 1), None)
        return None if chosen is None else chosen.together

    def _parts(self, node: Any) -> dict[FusionChoice, set[int]]:
        """Return the positions of the parts of each choice that are in a scheduler node."""
        compiled = compilation(V.graph)
        parts: dict[FusionChoice, set[int]] = {}
        for one in node.get_nodes():
            for choice, part in self._places.get((compiled.graph, compiled.phase, one.get_name()), ()):
                parts.setdefault(choice, set()).add(part)
        return parts


def _first(score: Any) -> Any:
    """Return a score before all others."""
    if isinstance(score, tuple):
        return type(score)((math.inf, *score[1:]))
    return dataclasses.replace(score, **{dataclasses.fields(score)[0].name: math.inf})
