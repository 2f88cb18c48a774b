"""The post-grad nodes of one graph by name: their order, the op each came from, the user's line."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any

from tcexplore.capture.inductor.origins import lines
from tcexplore.capture.inductor.replaced_nodes import as_made
from tcexplore.capture.user_files import UserFiles
from tcexplore.events import Location


class PostGrad:
    """Answers for sets of node names, always in graph order; a name of another graph is left out."""

    def __init__(self, graph: Any, project: UserFiles) -> None:
        self._nodes = {node.name: node for node in graph.nodes}
        self._project = project
        self._places: dict[str, tuple[Location, ...]] = {}

    @cached_property
    def _order(self) -> dict[str, int]:
        return {name: index for index, name in enumerate(self._nodes)}

    def sort(self, names: Iterable[str]) -> tuple[str, ...]:
        """The names that are nodes of this graph, each once."""
        return tuple(sorted({name for name in names if name in self._nodes}, key=self._order.__getitem__))

    def ops(self, names: Iterable[str]) -> tuple[str, ...]:
        """The ATen ops (`aten.gelu`) that the nodes were decomposed from, each once."""
        nodes = (as_made(self._nodes[name]) for name in self.sort(names))
        return tuple(dict.fromkeys(_op_name(node.meta.get("original_aten") or node.target) for node in nodes))

    def targets(self, names: Iterable[str]) -> tuple[str, ...]:
        """The ops that the nodes are now (`aten.addmm`), each once."""
        return tuple(dict.fromkeys(_op_name(self._nodes[name].target) for name in self.sort(names)))

    def dtypes(self, names: Iterable[str]) -> tuple[str, ...]:
        """The floating-point types of what the nodes read, each once."""
        read = (given.meta.get("val") for name in self.sort(names) for given in self._nodes[name].all_input_nodes)
        found = (getattr(value, "dtype", None) for value in read)
        return tuple(dict.fromkeys(str(d).rpartition(".")[2] for d in found if d is not None and d.is_floating_point))

    def source(self, names: Iterable[str]) -> tuple[Location, ...]:
        """The user's innermost lines, each once."""
        return tuple(dict.fromkeys(place for name in self.sort(names) for place in self._lines(name)))

    def _lines(self, name: str) -> tuple[Location, ...]:
        if name not in self._places:
            self._places[name] = lines(self._nodes[name], self._project)
        return self._places[name]


def _op_name(op: Any) -> str:
    packet = getattr(op, "overloadpacket", None)
    return str(packet) if packet is not None else str(getattr(op, "__name__", op))
