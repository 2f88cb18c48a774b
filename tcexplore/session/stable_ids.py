"""Stable ids of the parts of a run: equal in every output, and after an edit of something else.

An id is a letter for the kind and a hash of content and place: a break by torch's kind and its statement, a guard by
what it checks in which frame, a kernel by its ops and their statements, an op by its call and statement, a line by its
statement. Line numbers, compile ids, and names that torch numbers are not part of it. Equal parts are counted in the
order of the run.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Literal

from tcexplore import events as ev
from tcexplore.session.links import Link, aten_link, break_link, guard_link, kernel_link, line_link, node_link
from tcexplore.session.module_tree import ModuleRow
from tcexplore.session.recompile_fixes import RecompileFix
from tcexplore.session.snapshot import Snapshot
from tcexplore.session.source_places import SourcePlace, SourcePlaces, file_name

IdKind = Literal["break", "guard", "kernel", "op", "line", "module", "fix"]

LETTERS: dict[IdKind, str] = {
    "break": "b", "guard": "g", "kernel": "k", "op": "o", "line": "l", "module": "m", "fix": "f",
}  # fmt: skip

DIGITS = 9
"""Hexadecimal digits of an id. Two of 10,000 parts share one in 0.07% of runs; the later one is then hashed again.

Ops are not: their ids are computed graph by graph, in any order.
"""

Graph = ev.GraphCaptured | ev.AtenGraph

PATTERN = re.compile(rf"[{''.join(LETTERS.values())}]-[0-9a-f]{{{DIGITS}}}")

_NUMBERED = re.compile(r"(__\w*?___)\d+|0x[0-9a-f]+|\d{9,}")
"""Numbers that torch gives to names of globals, and addresses."""


def is_id(text: str) -> bool:
    """Return whether a text has the form of an id."""
    return PATTERN.fullmatch(text) is not None


class StableIds:
    """The ids of one run. Parts are known by identity: they belong to the snapshot that this was made of.

    Several threads may use it: what two of them compute at the same time is equal.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._used: dict[str, tuple[object, ...]] = {}
        self._files: dict[str, SourcePlaces] = {}
        self._places: dict[ev.Location, SourcePlace] = {}
        """Statements by location: a large graph names a line many times."""
        self._reprs: dict[int, tuple[object, str]] = {}
        """Parts of the content of ids, by identity, with their texts."""
        self.linked: dict[str, dict[Link, str]] = {}
        """Ids by link, by target."""

    # ---- the parts

    def graph_break(self, graph_break: ev.GraphBreak) -> str:
        """Return the id of a break of the run, or of one that another run reported at the same place."""
        if known_id := self._breaks.get(id(graph_break)):
            return known_id
        key = self._break_key(graph_break)
        known = next((other for other in self._snapshot.breaks if self._break_key(other) == key), None)
        return self._breaks[id(known)] if known is not None else _hashed("break", *key, 0)

    def fix(self, graph_break: ev.GraphBreak, name: str) -> str:
        """Return the id of a fix of a break."""
        return _hashed("fix", self.graph_break(graph_break), name)

    def recompile_fix(self, fix: RecompileFix) -> str:
        """Return the id of a way to avoid recompiles."""
        return _hashed("fix", fix.kind, fix.name, fix.dim, tuple((p.kind, p.name, p.dim) for p in fix.parts))

    def guard(self, guard: ev.Guard) -> str:
        """Return the id of a guard of the run."""
        return self._guards[id(guard)]

    def kernel(self, kernel: ev.Kernel) -> str:
        """Return the id of a kernel of the run, for any target."""
        return self._kernels[id(kernel)]

    def ops(self, graph: Graph) -> Iterator[str]:
        """Yield the ids of all nodes of a graph of the run, in their order. They are not kept: a trace has many."""
        stage = graph.stage if isinstance(graph, ev.AtenGraph) else "dynamo"
        where = self._where(graph)
        part = self._parts.get(id(graph), ())
        counts: Counter[object] = Counter()
        for node in graph.all_nodes:
            key = self._op_key(node, stage, where)
            yield _digest("op", self._text((*key, counts[key], *part)))
            counts[key] += 1

    def line(self, file: str, line: int) -> str:
        """Return the id of a line."""
        return self._claim("line", self._source(file).at(line), owner=file)

    def module(self, row: ModuleRow) -> str:
        """Return the id of a module, that of the first one if the row has several."""
        return self._claim("module", row.paths[0] if row.paths else row.path)

    def place(self, location: ev.Location | None, code: str = "") -> SourcePlace | None:
        """Return the statement of a location, on whichever of its lines; None for none."""
        if location is None:
            return None
        known = self._places.get(location) if not code else None
        if known is None:
            known = self._source(location.file).at(location.line, location.function, code)._replace(part="")
            if not code:
                self._places[location] = known
        return known

    # ---- how they are made

    def _break_key(self, graph_break: ev.GraphBreak) -> tuple[str, SourcePlace | None]:
        return graph_break.kind, self.place(graph_break.location, graph_break.code)

    @cached_property
    def _breaks(self) -> dict[int, str]:
        return self._numbered("break", ((each, self._break_key(each)) for each in self._snapshot.breaks))

    @cached_property
    def _frames(self) -> dict[str, tuple[object, ...]]:
        """Content and place of each compile, by compile id."""
        snapshot = self._snapshot
        frames: dict[str, ev.Location | None] = {entered.graph: entered.frame for entered in snapshot.frames}
        for graph in snapshot.graphs:
            frames.setdefault(graph.graph, graph.frame)
        counts: Counter[object] = Counter()
        made: dict[str, tuple[object, ...]] = {}
        for compile_id, frame in frames.items():
            place = self.place(frame)
            made[compile_id] = (place, counts[place])
            counts[place] += 1
        return made

    def _frame(self, graph: str) -> tuple[object, ...]:
        return self._frames.get(graph) or (graph,)

    @cached_property
    def _guards(self) -> dict[int, str]:
        return self._numbered(
            "guard",
            (
                (guard, (self._frame(installed.graph), *_checked(guard)))
                for installed in self._snapshot.guards
                for guard in installed.guards
            ),
        )

    @cached_property
    def _kernels(self) -> dict[int, str]:
        kernels = ((code.target, kernel) for code in self._snapshot.codes for kernel in code.kernels)
        return self._numbered("kernel", ((kernel, self._kernel_key(target, kernel)) for target, kernel in kernels))

    def _kernel_key(self, target: str, kernel: ev.Kernel) -> tuple[object, ...]:
        # Not its ops: a trace knows only those in its name. Nodes are named for their ops, with a number.
        nodes = tuple(sorted(name.rstrip("0123456789_") for name in kernel.nodes))
        name = "" if nodes or kernel.generated else kernel.name.partition(":")[0]
        places = tuple(sorted({repr(self.place(location)) for location in kernel.source_lines}))
        return target, self._frame(kernel.graph), kernel.phase, kernel.generated, nodes, name, places

    @cached_property
    def _parts(self) -> dict[int, tuple[int]]:
        """Numbers of the graphs that others of the same compile and stage precede, as in parts of DDP, by identity."""
        graphs: tuple[Graph, ...] = (
            *self._snapshot.graphs,
            *(g for code in self._snapshot.codes for g in code.aten_graphs),
        )
        counts: Counter[object] = Counter()
        made: dict[int, tuple[int]] = {}
        for graph in graphs:
            key = type(graph), getattr(graph, "stage", ""), self._where(graph)
            if counts[key]:
                made[id(graph)] = (counts[key],)
            counts[key] += 1
        return made

    def _where(self, graph: Graph) -> tuple[object, ...]:
        frame = self._frame(graph.graph)
        return (graph.target, frame, graph.phase) if isinstance(graph, ev.AtenGraph) else frame

    def _op_key(self, node: ev.FxNode, stage: str, where: tuple[object, ...]) -> tuple[object, ...]:
        # Without a line, as for an input, only the name tells nodes apart.
        place = self.place(node.location) or node.name.rstrip("0123456789_")
        return stage, where, node.op, node.target, place  # not its module, which a trace does not tell

    def _source(self, file: str) -> SourcePlaces:
        if file not in self._files:
            snapshot = self._snapshot
            others = (source.text for source in snapshot.sources if source.file == file)
            text = snapshot.source if file == snapshot.file else next(others, "")
            self._files[file] = SourcePlaces(file_name(file, snapshot.file), text)
        return self._files[file]

    def _numbered(self, kind: IdKind, parts: Iterable[tuple[object, tuple[object, ...]]]) -> dict[int, str]:
        """Return the ids of parts by identity, from their keys. Equal ones are numbered in the order of the run."""
        counts: Counter[tuple[object, ...]] = Counter()
        made: dict[int, str] = {}
        for part, key in parts:
            made[id(part)] = self._claim(kind, *key, counts[key])
            counts[key] += 1
        return made

    def _claim(self, kind: IdKind, *content: object, owner: str = "") -> str:
        """Return the id of a part, another one if a different part has it."""
        whole = (*content, owner)
        made = _digest(kind, self._text(content))
        while self._used.setdefault(made, whole) != whole:
            made = _hashed(kind, made, owner)
        return made

    def _text(self, content: tuple[object, ...]) -> str:
        """Return `repr(content)`; the texts of tuples in it are kept, since many ids share them."""
        parts: list[str] = []
        for part in content:
            if isinstance(part, tuple):
                known = self._reprs.get(id(part))
                if known is None:
                    known = self._reprs[id(part)] = part, repr(part)
                parts.append(known[1])
            else:
                parts.append(repr(part))
        return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"


def _checked(guard: ev.Guard) -> tuple[object, ...]:
    """Return what a guard checks; a guard without a value is known by its expressions."""
    source = _NUMBERED.sub(r"\1", guard.source)
    return guard.kind, source, "" if source else tuple(_NUMBERED.sub(r"\1", code) for code in guard.code)


def _hashed(kind: IdKind, *content: object) -> str:
    return _digest(kind, repr(content))


def _digest(kind: IdKind, text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()
    return f"{LETTERS[kind]}-{digest[:DIGITS]}"


_newest: dict[str, tuple[tuple[object, ...], StableIds]] = {}


def stable_ids(snapshot: Snapshot) -> StableIds:
    """Return the ids of a run; they are kept until a part of it changes."""
    parts = (
        snapshot.source, snapshot.sources, snapshot.breaks, snapshot.frames, snapshot.graphs, snapshot.guards,
        snapshot.codes,
    )  # fmt: skip
    known = _newest.get(snapshot.file)
    if known is None or any(old is not new for old, new in zip(known[0], parts, strict=True)):
        known = parts, StableIds(snapshot)
        _newest[snapshot.file] = known
    return known[1]


def link_id(snapshot: Snapshot, link: Link) -> str:
    """Return the id of what a row shows; empty for a part without one."""
    if link.kind == "line":
        return stable_ids(snapshot).line(link.where, int(link.name))
    return _linked(snapshot, stable_ids(snapshot)).get(link, "")


def _linked(snapshot: Snapshot, ids: StableIds) -> dict[Link, str]:
    """Return the ids of the parts of a run by their links, which are those of the target in view."""
    links = ids.linked.get(snapshot.target)
    if links is None:
        links = {}
        for graph_break in snapshot.breaks:
            links.setdefault(break_link(graph_break), ids.graph_break(graph_break))
        for graph in snapshot.graphs:
            links |= {
                node_link(graph.graph, node.name): op for node, op in zip(graph.all_nodes, ids.ops(graph), strict=True)
            }
        for aten in snapshot.code.aten_graphs:  # stages of one phase share the links of their nodes
            links |= {
                aten_link(aten.graph, aten.phase, node.name): op
                for node, op in zip(aten.all_nodes, ids.ops(aten), strict=True)
            }
        links |= {kernel_link(kernel): ids.kernel(kernel) for kernel in snapshot.code.kernels}
        for installed in snapshot.guards:
            for guard in installed.guards:
                links.setdefault(guard_link(installed.graph, guard), ids.guard(guard))
        ids.linked[snapshot.target] = links
    return links


def links_with_id(snapshot: Snapshot, id_: str) -> tuple[Link, ...]:
    """Return the links of the parts with an id, at most one of each kind of row; empty if the run has no such part."""
    ids = stable_ids(snapshot)
    if id_.startswith(LETTERS["line"]):
        files = {snapshot.file: snapshot.source, **{source.file: source.text for source in snapshot.sources}}
        lines = ((file, n) for file, text in files.items() for n in range(1, text.count("\n") + 2))
        return tuple(line_link(ev.Location(*at)) for at in lines if ids.line(*at) == id_)[:1]
    return tuple(link for link, known in _linked(snapshot, ids).items() if known == id_)[:1]
