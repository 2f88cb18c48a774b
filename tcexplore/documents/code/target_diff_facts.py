"""What one kernel takes of two devices, a row for each fact: resources, the bound, instructions by kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from tcexplore.documents import targets_text as words
from tcexplore.documents.columns import Cell, columns
from tcexplore.documents.document import Row, Span
from tcexplore.events import Kernel, Resources
from tcexplore.quantities import duration, size
from tcexplore.session import Snapshot
from tcexplore.session.kernel_facts import KernelFacts


class Known(Protocol):
    """What one device knows of a kernel."""

    @property
    def snapshot(self) -> Snapshot: ...
    @property
    def kernel(self) -> Kernel | None: ...
    @property
    def known(self) -> KernelFacts | None: ...


RESOURCES: tuple[tuple[str, Callable[[Resources], str]], ...] = (
    ("registers", lambda r: str(r.registers)),
    ("spills", lambda r: size(r.spills) if r.spills else "–"),
    ("shared memory", lambda r: size(r.shared_static + r.shared_dynamic)),
    ("warps × stages", lambda r: f"{r.num_warps} × {r.num_stages}"),
    ("threads", lambda r: str(r.threads)),
    ("blocks at once", lambda r: str(r.blocks)),
    ("occupancy", lambda r: f"{r.occupancy:.0%}" + (f", {r.limited_by}" if r.limited_by else "")),
    ("instructions", lambda r: f"{sum(number for _, number in r.mix):,}"),
)


def facts(sides: Sequence[Known]) -> Iterator[Row]:
    """A table: a column for each device."""
    rows = [*_rows(sides)]
    head = ("", *(side.snapshot.target for side in sides))
    return columns(head, rows, [()] * len(rows), left=range(len(head)))


def _rows(sides: Sequence[Known]) -> Iterator[Sequence[Cell]]:
    yield _row("kernel", [side.kernel.name if side.kernel else "none" for side in sides])
    made = [side.known.made if side.known else None for side in sides]
    yield from _unless_empty("configuration", [m.config if m else "" for m in made])
    taken = [m.resources if m else None for m in made]
    if any(taken):
        for name, say in RESOURCES:
            yield _row(name, [say(found) if found else "" for found in taken])
    points = [side.known.point if side.known else None for side in sides]
    yield from _unless_empty("bound", [point.bound if point else "" for point in points])
    yield from _unless_empty("at least", [_least(point.implied_us) if point else "" for point in points])
    yield from _unless_empty("vectors", [words.describe_vectors(m.vectors) if m and m.vectors else "" for m in made])
    mixes = [dict(found.mix) if found else {} for found in taken]
    for kind in dict.fromkeys(kind for mix in mixes for kind in mix):
        yield _row(f"  {kind}", [str(mix.get(kind, "–")) if mix else "" for mix in mixes], "dim")


def _least(microseconds: float) -> str:
    return ("under 0.01 µs" if microseconds < 0.01 else duration(microseconds / 1e6)) + " (estimate)"


def _unless_empty(name: str, values: Sequence[str]) -> Iterator[Sequence[Cell]]:
    if any(values):
        yield _row(name, values)


def _row(name: str, values: Sequence[str], style: str = "muted") -> Sequence[Cell]:
    differs = len(set(values)) > 1 and name != "kernel"
    return ((Span(name, style),), *((Span(value, "strong" if differs else ""),) for value in values))
