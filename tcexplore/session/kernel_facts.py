"""What is known of one kernel beyond its source: machine code, resources, its place under the roof."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol, TypeVar

from tcexplore import events as ev
from tcexplore.session.code import Code


class OfKernel(Protocol):
    """An event about one kernel."""

    @property
    def graph(self) -> str: ...
    @property
    def phase(self) -> str: ...
    @property
    def kernel(self) -> str: ...


Found = TypeVar("Found", bound=OfKernel)


class KernelFacts(NamedTuple):
    """`made` has the configuration that runs, or the first; each is None where nothing was said."""

    assembled: ev.KernelAssembled | None
    not_assembled: ev.KernelNotAssembled | None
    roofline: ev.RooflinePoint | None


def kernel_facts(code: Code, kernel: ev.Kernel) -> KernelFacts:
    """What the code in view says of one of its kernels."""
    return KernelFacts(
        _first(code.assembled, kernel), _first(code.not_assembled, kernel), _first(code.roofline, kernel)
    )


def kernel_loops(code: Code, kernel: ev.Kernel) -> tuple[ev.LoopVectorized, ...]:
    """How the loop nests of a C++ kernel were written; of one that was written again, the last time."""
    if kernel.language != "cpp":
        return ()
    own = set(kernel.scheduler_nodes)
    found = {
        loop.nodes: loop
        for loop in code.vectorized
        if (loop.graph, loop.phase) == (kernel.graph, kernel.phase) and own.issuperset(loop.nodes)
    }
    return tuple(found.values())


def _first(events: Iterable[Found], kernel: ev.Kernel) -> Found | None:
    wanted = (kernel.graph, kernel.phase, kernel.name)
    return next((event for event in events if (event.graph, event.phase, event.kernel) == wanted), None)
