"""The parts into which DDP splits a graph: AOTAutograd and Inductor give the nodes of each part the same names."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, count

from tcexplore.events import AtenGraph, Event, FxNode, Kernel, KernelCall, KernelLine, Partitioned

_WORD = re.compile(r"(?<![\w.])\w+(?![\w.(=])")
"""A name among the arguments of a node."""


_NUMBERED = re.compile(r":\d+$")


class PartNumbers:
    """Tells which part of a split graph a lower graph belongs to, counted from 0.

    The parts are compiled in order, their backwards as they are first called: the backward of a part is the one that
    shares most of its nodes. Of equal parts, as of layers in a loop, the last one is called first.
    """

    def __init__(self) -> None:
        self._compiled: Counter[tuple[str, str]] = Counter()
        """Number of graphs so far, by compile id and stage."""
        self._backwards: dict[str, dict[int, frozenset[object]]] = {}
        """Nodes of the backward of each part that is not yet compiled, by compile id and number."""

    def number(self, graph: str, stage: str, phase: str, nodes: Sequence[FxNode]) -> int:
        """Return the number of the part that a lower graph of `graph` belongs to. Call it once for each."""
        own = frozenset((node.name, node.shape, node.location) for node in nodes)
        waiting = self._backwards.setdefault(graph, {})
        if (stage, phase) == ("post_grad", "backward"):
            number = max(waiting, key=lambda part: (len(waiting[part] & own), part), default=0)
            waiting.pop(number, None)
            return number
        number = self._compiled[graph, stage]
        self._compiled[graph, stage] += 1
        if stage == "backward":
            waiting[number] = own
        return number


def prefixed(nodes: tuple[FxNode, ...], prefix: str) -> tuple[FxNode, ...]:
    """Return the nodes with names, inputs and arguments that begin with a prefix."""
    if not prefix:
        return nodes
    names = {node.name for node in nodes}

    def argument(match: re.Match[str]) -> str:
        return prefix + match[0] if match[0] in names else match[0]

    return tuple(
        replace(
            node, name=prefix + node.name, inputs=_names(node.inputs, prefix), args=_WORD.sub(argument, node.args)
        )
        for node in nodes
    )  # fmt: skip


class PartNames:
    """Renames the nodes of all parts but the first in events, in the order in which a run emits them."""

    def __init__(self) -> None:
        self._parts: dict[str, list[str]] = {}
        """Names of the parts, e.g. `submod_1`, by compile id."""
        self._numbers = PartNumbers()
        self._prefixes: dict[tuple[str, str], str] = {}
        """What begins the names of the nodes that events after a graph name, by compile id and stage or phase."""
        self._kernels: dict[tuple[str, str], dict[tuple[str, str], str]] = {}
        """Name of each kernel by the prefix of its part and torch's name, by compile id and phase."""

    def add(self, graph: str, part: str) -> None:
        """Learn that a graph was split, and has this part."""
        self._parts.setdefault(graph, []).append(part)

    def renamed(self, event: Event) -> Event:
        """Return an event with the names of the part that it is about."""
        if not isinstance(event, AtenGraph | Partitioned | Kernel) or len(self._parts.get(event.graph, ())) < 2:
            return event
        if isinstance(event, AtenGraph):
            prefix = self._prefix(event)
            self._prefixes[event.graph, event.phase if event.stage == "post_grad" else event.stage] = prefix
            return replace(event, nodes=prefixed(event.nodes, prefix)) if prefix else event
        prefix = self._prefixes.get((event.graph, "backward" if isinstance(event, Partitioned) else event.phase), "")
        if isinstance(event, Partitioned):
            saved = tuple(replace(tensor, name=prefix + tensor.name) for tensor in event.saved)
            return replace(event, saved=saved, recomputed=_names(event.recomputed, prefix))
        return replace(
            event, name=self._kernel_name(event, prefix), nodes=_names(event.nodes, prefix),
            lines=_lines(event.lines, prefix), calls=tuple(_call(call, prefix) for call in event.calls),
        )  # fmt: skip

    def _kernel_name(self, kernel: Kernel, prefix: str) -> str:
        """Return the name of a kernel, with a number if a kernel of another part has it."""
        names = self._kernels.setdefault((kernel.graph, kernel.phase), {})
        key = prefix, kernel.name
        if key not in names:
            taken, base = set(names.values()), _NUMBERED.sub("", kernel.name)
            numbered = (f"{base}:{number}" for number in count(2))
            names[key] = next(name for name in chain([kernel.name], numbered) if name not in taken)
        return names[key]

    def _prefix(self, event: AtenGraph) -> str:
        parts = self._parts[event.graph]
        number = self._numbers.number(event.graph, event.stage, event.phase, event.nodes)
        return f"{parts[number]}." if 0 < number < len(parts) else ""


def _call(call: KernelCall, prefix: str) -> KernelCall:
    return replace(call, nodes=_names(call.nodes, prefix), lines=_lines(call.lines, prefix))


def _lines(lines: tuple[KernelLine, ...], prefix: str) -> tuple[KernelLine, ...]:
    return tuple(replace(line, nodes=_names(line.nodes, prefix)) for line in lines)


def _names(names: tuple[str, ...], prefix: str) -> tuple[str, ...]:
    return tuple(prefix + name for name in names)
