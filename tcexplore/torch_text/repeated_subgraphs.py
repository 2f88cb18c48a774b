"""Subgraphs that a graph calls several times: their code stands once in the generated module, with its calls."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from itertools import takewhile
from typing import Protocol, TypeVar


class PlannedCall(Protocol):
    """A call of a kernel in a generated module."""

    @property
    def key(self) -> Hashable:
        """What a run shows of a generated kernel."""
        ...

    @property
    def subgraph(self) -> str:
        """The subgraph whose code makes it; empty for the graph itself."""
        ...

    @property
    def is_generated(self) -> bool:
        """Whether it calls a generated kernel, not a library."""
        ...


Call = TypeVar("Call", bound=PlannedCall)


def subgraph_of(nodes: Iterable[str]) -> str:
    """Return the outermost subgraph of a call by its post-grad nodes, whose names begin with it: `body.mm`."""
    return next((node.partition(".")[0] for node in nodes if "." in node), "")


def order_of_run(planned: Sequence[Call], run: Iterable[Hashable]) -> list[Call] | None:
    """Return the planned calls as often as a run made them; None if they do not fit.

    `run` has the keys of the generated kernels in their order. A subgraph is called again where one of them is not the
    next one of the plan, but the first one of the subgraph.
    """
    order: list[Call] = []
    rest = list(planned)
    bodies = _bodies(planned)
    for key in run:
        index = _next_generated(rest)
        if index is None or rest[index].key != key:
            body = next((body for first, body in bodies if first == key), None)
            inside = order[-1].subgraph if order else ""
            left = [] if not inside else list(takewhile(lambda call: call.subgraph == inside, rest))  # noqa: B023
            if body is None or _next_generated(left) is not None:
                return None
            order += left
            rest = [*body, *rest[len(left) :]]
            index = _next_generated(rest) or 0
        order += rest[: index + 1]
        rest = rest[index + 1 :]
    return [*order, *rest] if _next_generated(rest) is None else None


def _bodies(planned: Sequence[Call]) -> list[tuple[Hashable, list[Call]]]:
    """Return the calls of each subgraph with the key of the first generated kernel."""
    bodies: dict[str, list[Call]] = defaultdict(list)
    for call in planned:
        if call.subgraph:
            bodies[call.subgraph].append(call)
    firsts = ((_next_generated(body), body) for body in bodies.values())
    return [(body[index].key, body) for index, body in firsts if index is not None]


def _next_generated(calls: Sequence[PlannedCall]) -> int | None:
    return next((index for index, call in enumerate(calls) if call.is_generated), None)
