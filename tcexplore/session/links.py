"""What in a run belongs to what: line ↔ Dynamo node ↔ ATen node ↔ kernel, and the breaks and guards of a line."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tcexplore import events as ev
from tcexplore.session.graph_stages import node_phases
from tcexplore.session.snapshot import Snapshot


class Link(NamedTuple):
    """One thing that rows in several panes stand for; made by the functions below.

    `kind` is `line` (`where` is the file, `name` the line number), `node` (graph id, Dynamo node name), `aten`
    (`graph/phase`, post-grad node name), `kernel` (`graph/phase`, kernel name), `statement` (the same, the kernel's
    name and a line of its source), `break` (file, line and kind), `guard` (graph id, guard kind and source) or
    `entry` (a cache entry: its compile id).
    """

    kind: str
    where: str
    name: str


def line_link(location: ev.Location) -> Link:
    """A line of a file."""
    return Link("line", location.file, str(location.line))


def node_link(graph: str, name: str) -> Link:
    """A node of the Dynamo graph with this compile id."""
    return Link("node", graph, name)


def aten_link(graph: str, phase: str, name: str) -> Link:
    """A node of a graph below Dynamo's; stages of one phase share their names."""
    return Link("aten", f"{graph}/{phase}", name)


def kernel_link(kernel: ev.Kernel) -> Link:
    """A generated or extern kernel."""
    return Link("kernel", f"{kernel.graph}/{kernel.phase}", kernel.name)


def statement_link(kernel: ev.Kernel, n: int) -> Link:
    """Line `n` of a kernel's source, and every line of its stages that was made from it."""
    return Link("statement", f"{kernel.graph}/{kernel.phase}", f"{kernel.name} {n}")


def break_link(found: ev.GraphBreak) -> Link:
    """A graph break; one whose place is unknown goes by its graph."""
    file, line = (found.location.file, found.location.line) if found.location else (found.graph, 0)
    return Link("break", file, f"{line} {found.kind}")


def guard_link(graph: str, guard: ev.Guard) -> Link:
    """A guard of the graph with this compile id."""
    return Link("guard", graph, f"{guard.kind} {guard.source}")


def entry_link(graph: str) -> Link:
    """The cache entry with this compile id."""
    return Link("entry", graph, "")


class LinkIndex:
    """Neighbors of each link of one run: `down` towards what runs, `up` towards the user's line.

    `beside` has the breaks and guards of a line, and the line of each.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self.down: dict[Link, set[Link]] = defaultdict(set)
        self.up: dict[Link, set[Link]] = defaultdict(set)
        self.adjacent: dict[Link, set[Link]] = defaultdict(set)
        for graph in snapshot.graphs:
            for node in graph.nodes:
                self._place(node_link(graph.graph, node.name), node)
        for aten in snapshot.code.aten_graphs:
            phases = node_phases(snapshot.code.aten_graphs, aten)
            for node in aten.nodes:
                link = aten_link(aten.graph, phases.get(node.name, aten.phase), node.name)
                self._aten(link, aten.graph, node)
        for kernel in snapshot.code.kernels:
            self._kernel(kernel)
        self._statements(snapshot)
        for found in snapshot.breaks:
            self._side(break_link(found), found.location)
        for installed in snapshot.guards:
            for guard in installed.guards:
                self._side(guard_link(installed.graph, guard), guard.location)

    def _pair(self, upper: Link, lower: Link) -> None:
        self.down[upper].add(lower)
        self.up[lower].add(upper)

    def _place(self, link: Link, node: ev.FxNode) -> None:
        """A node goes up to the innermost line that made it; every line on its stack leads down to it."""
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
        """The statements of the kernels that were brought further: only there does something stand for them."""
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
    """Whether `closure` is quick for this run: the first call for a run of 10 000 nodes takes a tenth of a second."""
    return _known(_parts(snapshot)) is not None


def closure(snapshot: Snapshot, selected: Sequence[Link]) -> frozenset[Link]:
    """Everything on the chain through `selected`: what it came from and what became of it, not its neighbors there.

    The first link's kind says what is selected: the chain runs from the links of that kind, the others only join.
    """
    if not selected:
        return frozenset()
    index = _index(snapshot)
    start = {link for link in selected if link.kind == selected[0].kind}
    beside = set().union(*(index.adjacent.get(link, ()) for link in start))
    lines = {link for link in beside if link.kind == "line"}
    chain = _reach(index.down, start | lines) | _reach(index.up, start)
    return frozenset(chain | beside | set(selected))


def _reach(neighbors: dict[Link, set[Link]], start: Iterable[Link]) -> set[Link]:
    reached: set[Link] = set()
    todo = list(start)
    while todo:
        new = neighbors.get(todo.pop(), set()) - reached
        reached |= new
        todo += new
    return reached


_built: deque[tuple[tuple[object, ...], LinkIndex]] = deque(maxlen=2)
"""The newest indexes, each with the parts of the snapshot that it was built from: timing and output need no new one."""


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
    built = tuple(_built)  # another thread may add one meanwhile
    found = (index for known, index in built if all(old is new for old, new in zip(known, parts, strict=True)))
    return next(found, None)
