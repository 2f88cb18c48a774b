"""Subgraphs that a graph calls several times: their code stands once in the generated module, with its calls."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import takewhile
from typing import Protocol, TypeVar

from tcexplore.events import Kernel


class PlannedCall(Protocol):
    """A call of a kernel in a generated module."""

    @property
    def kernel(self) -> Kernel: ...

    @property
    def subgraph(self) -> str:
        """The subgraph whose code makes it; empty for the graph itself."""
        ...


Call = TypeVar("Call", bound=PlannedCall)


def order_of_run(
    planned: Sequence[Call], run: Iterable[Hashable], key: Callable[[Call], Hashable]
) -> list[Call] | None:
    """Return the planned calls as often as a run made them; None if they do not fit.

    `run` has what it shows of each generated kernel in their order, and `key` returns that of a call. A subgraph is
    called again where a kernel is not the next one of the plan, but the first one of the subgraph.
    """
    order: list[Call] = []
    rest = list(planned)
    bodies = _bodies(planned)
    for shown in run:
        index = _next_generated(rest)
        if index is None or key(rest[index]) != shown:
            body = next((body for first, body in bodies if key(first) == shown), None)
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


def _bodies(planned: Sequence[Call]) -> list[tuple[Call, list[Call]]]:
    """Return the calls of each subgraph with the first one of a generated kernel."""
    bodies: dict[str, list[Call]] = defaultdict(list)
    for call in planned:
        if call.subgraph:
            bodies[call.subgraph].append(call)
    firsts = ((_next_generated(body), body) for body in bodies.values())
    return [(body[index], body) for index, body in firsts if index is not None]


def _next_generated(calls: Sequence[PlannedCall]) -> int | None:
    return next((index for index, call in enumerate(calls) if call.kernel.generated), None)
