"""Rows of the guards pane about the sizes with which a script called its regions."""

from __future__ import annotations

from collections.abc import Iterator

from tcexplore.documents.document import Row
from tcexplore.documents.locations import places
from tcexplore.documents.prose import BLANK, fold, row, wrapped
from tcexplore.events import RecompileChange, VaryingSize
from tcexplore.quantities import count
from tcexplore.session import Snapshot
from tcexplore.session.links import line_links
from tcexplore.session.region_sizes import RegionSizes, SizePlan, region_sizes

MOST = 8
"""Sizes that are shown before the fold is opened."""


def size_rows(snapshot: Snapshot, toggled: frozenset[str], width: int) -> Iterator[Row]:
    """Yield the sizes of each region that was called with several, and what other ways to compile would give."""
    for sizes in region_sizes(snapshot):
        if sizes.plans:
            yield from _region(snapshot, sizes, toggled, width)
            yield BLANK


def _region(snapshot: Snapshot, sizes: RegionSizes, toggled: frozenset[str], width: int) -> Iterator[Row]:
    at, seen = sizes.region.location, sizes.seen
    calls = sum(each.calls for each in seen.sizes) + seen.other_calls
    name = f"sizes of region {sizes.region.region}"
    title = f"  {count(len(seen.sizes), 'size')} in {count(calls, 'call')}  {places(snapshot.file).describe(at)}"
    yield fold(name, name in toggled, (sizes.region.name, "title"), (title, "muted"), indent=0, location=at)
    for varying in seen.varying:
        yield from wrapped(describe_varying(varying), width, indent=3, links=line_links(at), location=at)
    if name in toggled:
        yield from _every_size(sizes)
    own = {known.graph for known in snapshot.region_graphs if known.region == sizes.region.region}
    broken = any(graph_break.graph in own for graph_break in snapshot.breaks)
    for plan in sizes.plans:
        yield from wrapped(describe_plan(plan, sizes, broken=broken), width, indent=3, lead="· ")


def _every_size(sizes: RegionSizes) -> Iterator[Row]:
    """Yield each signature with its calls and the graphs that they compiled."""
    for each in sizes.seen.sizes:
        compiled = f"  {count(each.compiles, 'graph')} compiled" if each.compiles else ""
        yield row((f"   {each.calls:>6} ×  ", "muted"), (", ".join(each.inputs), "shape"),
                  (f"  from call {each.first_call}", "dim"), (compiled, "recompile"))  # fmt: skip
    if sizes.seen.other_calls:
        yield row((f"   {sizes.seen.other_calls:>6} ×  further sizes", "muted"))


def describe_varying(varying: VaryingSize) -> str:
    """Return `ids.1: 3 ×20, 4 ×7, … 64 ×1`."""
    names = ", ".join(map(dim_name, varying.dims))
    values = [f"{size} ×{calls}" for size, calls in varying.values]
    if len(values) > MOST:
        values = [*values[: MOST - 1], "…", values[-1]]
    return f"{names}: {', '.join(values)}"


def dim_name(dim: RecompileChange) -> str:
    """Return `ids.1`; of an argument by position `args[0].1`."""
    name = f"args[{dim.name}]" if dim.name.isdecimal() else dim.name
    return f"{name}.{dim.dim}"


def describe_plan(plan: SizePlan, sizes: RegionSizes, *, broken: bool) -> str:
    """Return what a way to compile gives for the sizes that occurred, and whether it was measured.

    `broken` is whether graph breaks split the region: by torch's rules, each part then compiles as often.
    """
    parts = " of each part between graph breaks" if broken else ""
    if plan.kind == "as it is":
        return f"as it is: {count(plan.compiles or 0, 'graph')} compiled for {count(plan.sizes, 'size')}"
    if plan.kind == "dynamic=False":
        return f"dynamic=False: {count(plan.compiles or 0, 'graph')}{parts}, one for each size; not measured"
    if plan.kind == "mark_dynamic":
        return f"{_marks(sizes)}: {_describe_mark(plan, parts)}"
    name = "to the next power of 2" if plan.kind == "next power of 2" else "to the largest size"
    time = (
        f"a compiled call takes {plan.slowdown:.2f}× the time, measured on captured calls"
        if plan.slowdown is not None
        else "time not measured: the script compiled no code for padded sizes"
    )
    return f"padded {name}: {count(plan.sizes, 'size')}, {plan.padding:+.0%} elements; {time}"


def _marks(sizes: RegionSizes) -> str:
    dims = [dim for varying in sizes.seen.varying for dim in varying.dims]
    return "mark_dynamic of " + ", ".join(map(dim_name, dims))


def _describe_mark(plan: SizePlan, parts: str) -> str:
    tried = plan.tried
    if tried is None:
        return f"{count(plan.compiles or 0, 'graph')}{parts} by torch's rules; not measured"
    if tried.problem or tried.graphs_after is None:
        return f"tried on {count(tried.calls, 'captured call')}: {tried.problem or 'the calls failed'}"
    compiles = f"{tried.graphs_before} → {count(tried.graphs_after, 'compile')}"
    return f"tried on {count(tried.calls, 'captured call')}: {compiles}"
