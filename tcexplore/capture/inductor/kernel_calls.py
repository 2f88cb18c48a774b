"""The kernel calls of one wrapper, gathered while Inductor writes it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeVar

from tcexplore.capture.inductor.kernel_schedule import Scheduled
from tcexplore.capture.inductor.kernel_source import KernelSource
from tcexplore.events import Kernel, KernelCall, KernelLine, Location

Item = TypeVar("Item")


@dataclass(slots=True)
class Called:
    """A kernel and its calls so far; `text` has the lines of an extern call, filled in when the wrapper is written."""

    name: str
    language: str
    kind: str
    fusion: str
    calls: list[KernelCall] = field(default_factory=list)
    text: list[str] = field(default_factory=list)


class WrapperCalls:
    """Kernel definitions and calls in the order in which the wrapper will make them."""

    def __init__(self) -> None:
        self.defined: dict[str, KernelSource] = {}
        self._kernels: dict[str, Called] = {}
        self._order = 0

    def next_order(self) -> int:
        """The number of the next call."""
        self._order += 1
        return self._order - 1

    def call(self, name: str, facts: Scheduled, call: KernelCall) -> None:
        """A generated kernel is called."""
        source = self.defined.get(name)
        language = source.language if source else "extern"
        self._kernels.setdefault(name, Called(name, language, facts.kind, facts.fusion)).calls.append(call)

    def extern(self, name: str, facts: Scheduled, call: KernelCall) -> Called:
        """An extern kernel is called."""
        times = sum(kernel.name.partition(":")[0] == name for kernel in self._kernels.values())
        unique = f"{name}:{times + 1}" if times else name
        return self._kernels.setdefault(unique, Called(unique, "extern", facts.kind, "", [call]))

    def kernels(self, graph: str, phase: str) -> Iterable[Kernel]:
        """The events."""
        for kernel in self._kernels.values():
            source = self.defined.get(kernel.name)
            yield _event(kernel, graph, phase, source.text if source else "\n".join(kernel.text))


def _event(kernel: Called, graph: str, phase: str, source: str) -> Kernel:
    calls = tuple(kernel.calls)
    return Kernel(
        graph=graph,
        phase=phase,
        name=kernel.name,
        language=kernel.language,
        source=source,
        kind=kernel.kind,
        fusion=kernel.fusion,
        calls=calls,
        ops=_joined(call.ops for call in calls),
        nodes=_joined(call.nodes for call in calls),
        source_lines=_joined(call.source_lines for call in calls),
        scheduler_nodes=_joined(call.scheduler_nodes for call in calls),
        buffers=_joined(call.buffers for call in calls),
        lines=_joined_lines(calls),
        bytes_read=_total(call.bytes_read for call in calls),
        bytes_written=_total(call.bytes_written for call in calls),
        bytes_saved=_total(call.bytes_saved for call in calls),
        flops=_total(call.flops for call in calls),
        dtypes=_joined(call.dtypes for call in calls),
    )


def _joined(several: Iterable[tuple[Item, ...]]) -> tuple[Item, ...]:
    return tuple(dict.fromkeys(item for one in several for item in one))


def _joined_lines(calls: tuple[KernelCall, ...]) -> tuple[KernelLine, ...]:
    """Each line with all that it stands for in any of the calls."""
    nodes: dict[int, dict[str, None]] = {}
    source: dict[int, dict[Location, None]] = {}
    for line in (line for call in calls for line in call.lines):
        nodes.setdefault(line.n, {}).update(dict.fromkeys(line.nodes))
        source.setdefault(line.n, {}).update(dict.fromkeys(line.source))
    return tuple(KernelLine(n=n, nodes=tuple(nodes[n]), source=tuple(source[n])) for n in sorted(nodes))


def _total(numbers: Iterable[int | None]) -> int | None:
    known = [number for number in numbers if number is not None]
    return sum(known) if known else None
