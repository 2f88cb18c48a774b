"""What the sizes that occurred in a script would compile in other ways, and what padding them costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import prod
from typing import Literal

from tcexplore import events as ev
from tcexplore.session.snapshot import Snapshot

PlanKind = Literal["as it is", "dynamic=False", "mark_dynamic", "next power of 2", "largest"]
"""The last two pad the sizes that differ between calls."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SizePlan:
    """A way to compile a region for the sizes that occurred."""

    kind: PlanKind
    sizes: int
    """Different sizes that reach the compiled code."""
    compiles: int | None = None
    """Graphs that all calls compile: of `as it is` as the script did, else by torch's rules. None: unknown."""
    padding: float = 0.0
    """Elements that padding adds, over those of the unpadded calls: 0.5 is half as many more."""
    slowdown: float | None = None
    """Time of captured calls padded over that of the same calls as they are. None: not measured."""
    tried: ev.SizesTried | None = None
    """The captured calls repeated with it, by Dynamo only. None: not tried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionSizes:
    """The sizes of one region of a script."""

    region: ev.RegionCreated
    seen: ev.SizesSeen
    plans: tuple[SizePlan, ...] = ()
    """Empty: all sizes are equal in all calls."""


def region_sizes(snapshot: Snapshot) -> tuple[RegionSizes, ...]:
    """Return the sizes of each region that was called, in the order of the regions."""
    created = {region.region: region for region in snapshot.regions}
    return tuple(
        RegionSizes(region=created[seen.region], seen=seen, plans=tuple(_plans(snapshot, seen)))
        for seen in sorted(snapshot.sizes_seen, key=lambda seen: seen.region)
        if seen.region in created
    )


def _plans(snapshot: Snapshot, seen: ev.SizesSeen) -> Iterator[SizePlan]:
    if not seen.varying:
        return
    calls = list(_varying_calls(seen))
    distinct = {sizes for sizes, _ in calls}
    yield SizePlan(kind="as it is", sizes=len(distinct), compiles=sum(sizes.compiles for sizes in seen.sizes))
    yield SizePlan(kind="dynamic=False", sizes=len(distinct), compiles=len(distinct))
    classes = {tuple(size if size < SMALLEST_DYNAMIC else SMALLEST_DYNAMIC for size in sizes) for sizes in distinct}
    yield SizePlan(kind="mark_dynamic", sizes=len(distinct), compiles=len(classes), tried=_tried(snapshot, seen))
    largest = tuple(size.values[-1][0] for size in seen.varying)
    for kind, padded in (("next power of 2", _next_powers(calls)), ("largest", [(largest, n) for _, n in calls])):
        elements, before = _elements(padded), _elements(calls)
        yield SizePlan(
            kind=kind,  # type: ignore[arg-type]
            sizes=len({sizes for sizes, _ in padded}),
            padding=elements / before - 1 if before else 0.0,
            slowdown=_slowdown(snapshot, seen, kind),
        )


SMALLEST_DYNAMIC = 2
"""A dynamic size is at least this: torch compiles 0 and 1 by themselves."""

Calls = tuple[tuple[int, ...], int]
"""The sizes that differ, and the number of calls."""


def _varying_calls(seen: ev.SizesSeen) -> Iterator[Calls]:
    """Yield the sizes that differ of the calls that have them."""
    dims = [size.dims[0] for size in seen.varying]
    counts: Counter[tuple[int, ...]] = Counter()
    for sizes in seen.sizes:
        by_name = {tensor.argument: tensor.size for tensor in sizes.tensors}
        if all(dim.name in by_name and (dim.dim or 0) < len(by_name[dim.name]) for dim in dims):
            counts[tuple(by_name[dim.name][dim.dim or 0] for dim in dims)] += sizes.calls
    yield from counts.items()


def _next_powers(calls: Iterable[Calls]) -> list[Calls]:
    return [(tuple(1 << max(size - 1, 0).bit_length() for size in sizes), number) for sizes, number in calls]


def _elements(calls: Iterable[Calls]) -> int:
    return sum(prod(sizes) * number for sizes, number in calls)


def _tried(snapshot: Snapshot, seen: ev.SizesSeen) -> ev.SizesTried | None:
    """Return the trial of `mark_dynamic` on the most sizes."""
    trials = [
        tried
        for tried in snapshot.sizes_tried
        if tried.region == seen.region and all(change.kind == "mark_dynamic" for change in tried.changes)
    ]
    return max(trials, key=lambda tried: len(tried.changes), default=None)


def _slowdown(snapshot: Snapshot, seen: ev.SizesSeen, kind: str) -> float | None:
    """Return the time of padded captured calls over that of the same calls, weighted by how often they occurred."""
    measured = [
        (call.calls, padded.us, padded.exact_us)
        for call in snapshot.captured_calls
        if call.region == seen.region
        for padded in call.padded
        if padded.padding == kind and padded.us is not None and padded.exact_us
    ]
    exact = sum(number * us for number, _, us in measured)
    return sum(number * us for number, us, _ in measured) / exact if exact else None
