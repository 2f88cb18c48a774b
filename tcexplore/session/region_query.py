"""The regions of a script that can be asked whether inputs would recompile them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tcexplore import events as ev
from tcexplore.session.links import Link, line_link
from tcexplore.session.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class QueryRegion:
    """A region with the inputs of the call that compiled it last. `name` tells it from the others."""

    region: ev.RegionCreated
    name: str
    inputs: tuple[str, ...]


def query_regions(snapshot: Snapshot) -> tuple[QueryRegion, ...]:
    """Those that compiled something for inputs, in the order in which they did so last."""
    inputs: dict[int, tuple[str, ...]] = {}
    for compiled in snapshot.region_compiles:
        if compiled.inputs:
            inputs.pop(compiled.region, None)
            inputs[compiled.region] = compiled.inputs
    made = {region.region: region for region in snapshot.regions}
    names = [region_name(snapshot, number) for number in inputs]
    return tuple(
        QueryRegion(made[number], name if names.count(name) == 1 else f"{name} #{number}", inputs[number])
        for number, name in zip(inputs, names, strict=True)
        if number in made
    )


def region_name(snapshot: Snapshot, number: int | None) -> str:
    """`Regression line 30`; empty where there is no such region."""
    made = next((region for region in snapshot.regions if region.region == number), None)
    if made is None:
        return ""
    return f"{made.name} line {made.location.line}" if made.location else made.name


def select_region(snapshot: Snapshot, links: Sequence[Link]) -> QueryRegion | None:
    """The region that a row with these links is about, else the one that compiled last."""
    found = query_regions(snapshot)
    of = {known.graph: known.region for known in snapshot.region_graphs}
    on = {
        line_link(entered.frame): of[entered.graph]
        for entered in snapshot.frames
        if entered.frame and entered.graph in of
    }
    on |= {line_link(one.region.location): one.region.region for one in found if one.region.location}
    wanted = next((known for link in links if (known := of.get(link.where, on.get(link))) is not None), None)
    return next((one for one in reversed(found) if one.region.region == wanted), found[-1] if found else None)
