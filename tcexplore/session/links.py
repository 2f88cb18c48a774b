"""Links between the parts of a run: line ↔ Dynamo node ↔ ATen node ↔ kernel, and the breaks and guards of a line.

In a script, a selection also leads to the region of a recompile check.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from tcexplore import events as ev
from tcexplore.session.code import node_phases

if TYPE_CHECKING:
    from tcexplore.session.snapshot import Snapshot


class Link(NamedTuple):
    """A part of a run that rows of several panes show; created by the functions below.

    `kind` is `line` (`where` is the file, `name` the line number), `node` (graph id, Dynamo node name), `aten`
    (`graph/phase`, post-grad node name), `kernel` (`graph/phase`, kernel name), `statement` (the same, the kernel's
    name and a line of its source), `break` (file, line and kind), `guard` (graph id, guard kind and source) or
    `entry` (a cache entry: its compile id) or `step` (a next step: its key). `GUARD_FILTERS_LINK` has the kind
    `guard filters`.
    """

    kind: str
    where: str
    name: str


GUARD_FILTERS_LINK = Link("guard filters", "", "")
"""Link of the rows that propose guard filters."""


def line_link(location: ev.Location) -> Link:
    """Return the link of a line."""
    return Link("line", location.file, str(location.line))


def line_links(location: ev.Location | None) -> tuple[Link, ...]:
    """Return the link of a line as a row's links; empty without a line."""
    return (line_link(location),) if location else ()


def node_link(graph: str, name: str) -> Link:
    """Return the link of a Dynamo node."""
    return Link("node", graph, name)


def aten_link(graph: str, phase: str, name: str) -> Link:
    """Return the link of a node below Dynamo's; stages of one phase share their names."""
    return Link("aten", f"{graph}/{phase}", name)


def kernel_link(kernel: ev.Kernel) -> Link:
    """Return the link of a kernel."""
    return Link("kernel", f"{kernel.graph}/{kernel.phase}", kernel.name)


def statement_link(kernel: ev.Kernel, n: int) -> Link:
    """Return the link of line `n` of a kernel's source and of its stages."""
    return Link("statement", f"{kernel.graph}/{kernel.phase}", f"{kernel.name} {n}")


def break_link(graph_break: ev.GraphBreak) -> Link:
    """Return the link of a graph break, by its graph if its place is unknown."""
    file, line = (
        (graph_break.location.file, graph_break.location.line) if graph_break.location else (graph_break.graph, 0)
    )
    return Link("break", file, f"{line} {graph_break.kind}")


def guard_link(graph: str, guard: ev.Guard) -> Link:
    """Return the link of a guard."""
    return Link("guard", graph, f"{guard.kind} {guard.source}")


def entry_link(graph: str) -> Link:
    """Return the link of a cache entry."""
    return Link("entry", graph, "")


def step_link(key: str) -> Link:
    """Return the link of a next step."""
    return Link("step", "", key)


def step_of(links: Sequence[Link]) -> str | None:
    """Return the key of the next step that a row with these links stands for; None for another row."""
    return links[0].name if links and links[0].kind == "step" else None


class LinkIndex:
    """Neighbors of each link of one run: `down` towards kernels, `up` towards user code.

    `adjacent` has the breaks and guards of a line, and the line of each.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self.down: dict[Link, set[Link]] = defaultdict(set)
        self.up: dict[Link, set[Link]] = defaultdict(set)
        self.adjacent: dict[Link, set[Link]] = defaultdict(set)
        for graph in snapshot.graphs:
            for node in graph.all_nodes:
                self._place(node_link(graph.graph, node.name), node)
        for aten in snapshot.code.aten_graphs:
            phases = node_phases(snapshot.code.aten_graphs, aten)
            for node in aten.all_nodes:
                link = aten_link(aten.graph, phases.get(node.name, aten.phase), node.name)
                self._aten(link, aten.graph, node)
        for kernel in snapshot.code.kernels:
            self._kernel(kernel)
        self._statements(snapshot)
        for graph_break in snapshot.breaks:
            self._side(break_link(graph_break), graph_break.location)
        for installed in snapshot.guards:
            for guard in installed.guards:
                self._side(guard_link(installed.graph, guard), guard.location)

    def _pair(self, upper: Link, lower: Link) -> None:
        self.down[upper].add(lower)
        self.up[lower].add(upper)

    def _place(self, link: Link, node: ev.FxNode) -> None:
        """Link a node up to its innermost line, and down from every line of its stack."""
        if node.location is not None:
            self._pair(line_link(node.location), link)
        for location in node.stack:
            self.down[line_link(location)].add(link)

    def _aten(self, link: Link, graph: str, node: ev.FxNode) -> None:
        for origin in node.origins:
            self._pair(node_link(graph, origin), link)
        if not node.origins:
            self._place(link, node)

    def _kernel(self, kernel: ev.Kernel) -> None:
        link = kernel_link(kernel)
        for name in kernel.nodes:
            self._pair(aten_link(kernel.graph, kernel.phase, name), link)
        for location in kernel.source_lines:
            self._pair(line_link(location), link)

    def _statements(self, snapshot: Snapshot) -> None:
        """Link the statements of assembled kernels; other kernels have no rows for them."""
        further = {(made.graph, made.phase, made.kernel) for made in snapshot.code.assembled}
        for kernel in snapshot.code.kernels:
            if (kernel.graph, kernel.phase, kernel.name) in further:
                for line in kernel.lines:
                    for name in line.nodes:
                        self._pair(aten_link(kernel.graph, kernel.phase, name), statement_link(kernel, line.n))

    def _side(self, link: Link, location: ev.Location | None) -> None:
        if location is not None:
            self.adjacent[line_link(location)].add(link)
            self.adjacent[link].add(line_link(location))


def is_indexed(snapshot: Snapshot) -> bool:
    """Return whether `closure` is fast: the first call for a run of 10,000 nodes takes 0.1 s."""
    return _known(_parts(snapshot)) is not None


def closure(snapshot: Snapshot, selected: Sequence[Link]) -> frozenset[Link]:
    """Return everything linked to `selected` in both directions: its origins and its results.

    The chain starts at the links of the first link's kind; the others only join.
    """
    if not selected:
        return frozenset()
    index = _index(snapshot)
    start = {link for link in selected if link.kind == selected[0].kind}
    adjacent = set().union(*(index.adjacent.get(link, ()) for link in start))
    lines = {link for link in adjacent if link.kind == "line"}
    chain = _reach(index.down, start | lines) | _reach(index.up, start)
    return frozenset(chain | adjacent | set(selected))


def _reach(neighbors: dict[Link, set[Link]], start: Iterable[Link]) -> set[Link]:
    reached: set[Link] = set()
    todo = list(start)
    while todo:
        new = neighbors.get(todo.pop(), set()) - reached
        reached |= new
        todo += new
    return reached


_built: deque[tuple[tuple[object, ...], LinkIndex]] = deque(maxlen=2)
"""The newest indexes with the parts of the snapshot that they depend on; timing and output need no new index."""


def _index(snapshot: Snapshot) -> LinkIndex:
    parts = _parts(snapshot)
    index = _known(parts)
    if index is None:
        index = LinkIndex(snapshot)
        _built.append((parts, index))
    return index


def _parts(snapshot: Snapshot) -> tuple[object, ...]:
    return (
        snapshot.graphs,
        snapshot.code.aten_graphs,
        snapshot.code.kernels,
        snapshot.code.assembled,
        snapshot.breaks,
        snapshot.guards,
    )


def _known(parts: tuple[object, ...]) -> LinkIndex | None:
    built = tuple(_built)  # another thread may add one at the same time
    indexes = (index for known, index in built if all(old is new for old, new in zip(known, parts, strict=True)))
    return next(indexes, None)


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
    """Return a region's name as `Block layers.0 line 30`; empty if there is no such region."""
    region = next((region for region in snapshot.regions if region.region == number), None)
    if region is None:
        return ""
    title = region_title(region, region_path(snapshot, region.region))
    return f"{title} line {region.location.line}" if region.location else title


def region_path(snapshot: Snapshot, number: int) -> str | None:
    """Return the path of the module that a region compiles; None if there is none, or it is unknown."""
    return next((known.path for known in snapshot.region_modules if known.region == number), None)


def region_title(region: ev.RegionCreated, path: str | None) -> str:
    """Return a region's name with the path of its module: `Block layers.0`."""
    return f"{region.name} {path}" if path else region.name


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


def region_of_graph(snapshot: Snapshot, graph: str) -> ev.RegionCreated | None:
    """Return the region of a script that a compile belongs to; None if it is unknown."""
    number = next((known.region for known in snapshot.region_graphs if known.graph == graph), None)
    return next((region for region in snapshot.regions if region.region == number), None)
