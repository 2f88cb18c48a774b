"""Regions of a script for which a recompile check is possible."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tcexplore import events as ev
from tcexplore.session.links import Link, line_link
from tcexplore.session.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class QueryRegion:
    """A region with the inputs of the call that compiled it last."""

    region: ev.RegionCreated
    name: str
    """Unique among the regions."""
    inputs: tuple[str, ...]


def query_regions(snapshot: Snapshot) -> tuple[QueryRegion, ...]:
    """Return the regions that compiled for inputs, ordered by their last compile."""
    inputs: dict[int, tuple[str, ...]] = {}
    for compiled in snapshot.region_compiles:
        if compiled.inputs:
            inputs.pop(compiled.region, None)
            inputs[compiled.region] = compiled.inputs
    regions = {region.region: region for region in snapshot.regions}
    names = [region_name(snapshot, number) for number in inputs]
    return tuple(
        QueryRegion(regions[number], name if names.count(name) == 1 else f"{name} #{number}", inputs[number])
        for number, name in zip(inputs, names, strict=True)
        if number in regions
    )


def region_name(snapshot: Snapshot, number: int | None) -> str:
    """Return a region's name as `Regression line 30`; empty if there is no such region."""
    region = next((region for region in snapshot.regions if region.region == number), None)
    if region is None:
        return ""
    return f"{region.name} line {region.location.line}" if region.location else region.name


def select_region(snapshot: Snapshot, links: Sequence[Link]) -> QueryRegion | None:
    """Return the region of a row with these links, else the one that compiled last."""
    regions = query_regions(snapshot)
    of_graph = {known.graph: known.region for known in snapshot.region_graphs}
    of_line = {
        line_link(entered.frame): of_graph[entered.graph]
        for entered in snapshot.frames
        if entered.frame and entered.graph in of_graph
    }
    of_line |= {line_link(known.region.location): known.region.region for known in regions if known.region.location}
    numbers = (of_graph.get(link.where, of_line.get(link)) for link in links)
    wanted = next((number for number in numbers if number is not None), None)
    newest = regions[-1] if regions else None
    return next((known for known in reversed(regions) if known.region.region == wanted), newest)
