"""Dependencies between kernels in the scheduler: shared buffers, and the kernels on the path between them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tcexplore import events as ev

Key = tuple[str, str, str]
"""Graph, phase, scheduler node."""


@dataclass(frozen=True, slots=True)
class KernelRelation:
    """Dependencies between two kernels."""

    buffers: tuple[str, ...]
    """Used by both."""
    depends: bool = False
    """The second kernel reads a result of the first, directly or not."""
    reversed: bool = False
    """The first kernel reads a result of the second."""
    nodes: tuple[str, ...] = ()
    """Scheduler nodes on the shortest path between them."""
    between: tuple[ev.Kernel, ...] = ()
    """Kernels of these nodes."""


class Schedules:
    """Relations between the kernels of one run, from the scheduler's nodes."""

    def __init__(self, schedules: Iterable[ev.ScheduleMade], kernels: Iterable[ev.Kernel]) -> None:
        self._nodes: dict[Key, ev.SchedulerNode] = {}
        self._place: dict[Key, int] = {}
        self._attempts: dict[tuple[str, str], int | None] = {}
        for made in schedules:
            self._attempts[made.graph, made.phase] = made.pairwise_attempts
            keys = [(made.graph, made.phase, node.name) for node in made.nodes]
            self._nodes |= zip(keys, made.nodes, strict=True)
            self._place |= {key: place for place, key in enumerate(keys)}
        self._owner = {(k.graph, k.phase, name): k for k in kernels for name in k.scheduler_nodes}

    def pairwise_attempts(self, kernel: ev.Kernel) -> int | None:
        """Return the number of following users of a buffer that the scheduler compares with each user."""
        return self._attempts.get((kernel.graph, kernel.phase))

    def relation(self, a: ev.Kernel, b: ev.Kernel) -> KernelRelation | None:
        """Return how `b` depends on `a`; None for kernels of two schedules or with unknown nodes."""
        first, second = (self._known(kernel) for kernel in (a, b))
        if (a.graph, a.phase) != (b.graph, b.phase) or not first or not second:
            return None
        shared = tuple(sorted(self._used(a, a.scheduler_nodes) & self._used(b, b.scheduler_nodes)))
        for start, goal, turned in ((second, first, False), (first, second, True)):
            way = self._way(start, goal)
            if way is not None:
                owners = {self._owner[key].name: self._owner[key] for key in way if key in self._owner}
                between = tuple(kernel for kernel in owners.values() if kernel is not a and kernel is not b)
                return KernelRelation(shared, True, turned, tuple(name for _, _, name in way), between)
        return KernelRelation(shared)

    def shared(self, decision: ev.FusionDecision) -> tuple[str, ...]:
        """Return the buffers that both compared nodes use."""
        first, second = (self._used(decision, names) for names in (decision.a_nodes, decision.b_nodes))
        return tuple(sorted(first & second))

    def _used(self, of: ev.FusionDecision | ev.Kernel, names: Iterable[str]) -> set[str]:
        nodes = (self._nodes.get((of.graph, of.phase, name)) for name in names)
        return {buffer for node in nodes if node for buffer in node.buffers}

    def _known(self, kernel: ev.Kernel) -> set[Key]:
        """Return the scheduler nodes of a kernel; empty if one of them is unknown."""
        keys: set[Key] = {(kernel.graph, kernel.phase, name) for name in kernel.scheduler_nodes}
        return keys if keys <= self._nodes.keys() else set()

    def _way(self, start: set[Key], goal: set[Key]) -> list[Key] | None:
        """Return the shortest chain of nodes from one of `goal` to one of `start`, without the ends.

        In the scheduler's order, each node follows those that it needs, so nodes before all of `goal` are skipped.
        """
        first = min(self._place[key] for key in goal)
        previous: dict[Key, Key | None] = dict.fromkeys(start)
        todo = list(start)
        for key in todo:
            if key in goal:
                return _inner(previous, key)
            node = self._nodes.get(key)
            for name in node.dependencies if node else ():
                needed = (*key[:2], name)
                if needed not in previous and self._place.get(needed, -1) >= first:
                    previous[needed] = key
                    todo.append(needed)
        return None


def _inner(previous: dict[Key, Key | None], reached: Key) -> list[Key]:
    way: list[Key] = []
    step = previous[reached]
    while step is not None and previous[step] is not None:
        way.append(step)
        step = previous[step]
    return way
