"""The decomposition view: from a line of the user's to its ops, their ATen ops, and those ops' statements."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from tcexplore.documents.document import Row
from tcexplore.documents.document_parts import Part, Parts, fixed
from tcexplore.documents.empty_states import empty_part
from tcexplore.documents.graph.lowered_rows import Lowering
from tcexplore.documents.highlight import highlighted
from tcexplore.documents.labels import labels
from tcexplore.documents.location_text import places
from tcexplore.documents.memo import by_identity
from tcexplore.documents.prose import fold
from tcexplore.documents.source_texts import read_lines
from tcexplore.events import Location
from tcexplore.quantities import count
from tcexplore.session import Snapshot
from tcexplore.session.decomposition import Decomposition, Line, Op, counted
from tcexplore.session.links import line_link

TEACHES = (
    "Each line of yours will stand here with the ops that it calls; under each op the ATen ops that torch made of "
    "it, and under those the statements of the kernels that compute them."
)


def decomposition_document(snapshot: Snapshot, toggled: frozenset[str] = frozenset(), width: int = 78) -> Parts:
    """The document of the view: every line of the run, closed at first."""
    if not snapshot.graphs:
        return Parts("", [empty_part(snapshot, width, TEACHES)])
    return _document(snapshot, index(snapshot).lines, toggled)


_made = by_identity(2)(Decomposition)
_texts = by_identity(8)(read_lines)
_counted = by_identity(1024)(counted)


def index(snapshot: Snapshot) -> Decomposition:
    """What each op of the run became; kept for the newest runs."""
    return _made(snapshot.graphs, snapshot.code.aten_graphs, snapshot.code.kernels)


def _document(snapshot: Snapshot, lines: Mapping[Line | None, Sequence[Op]], toggled: frozenset[str]) -> Parts:
    rows = Lowering(labels(snapshot), places(snapshot.file), toggled)
    ordered = sorted(lines.items(), key=lambda item: _order(snapshot, item[0]))
    parts = [part for line, ops in ordered for part in _line(snapshot, line, ops, rows)]
    return Parts(f"{count(sum(map(len, lines.values())), 'op')} on {count(len(lines), 'line')}", parts)


def _order(snapshot: Snapshot, line: Line | None) -> tuple[bool, bool, str, int]:
    """The user's file first, then other files; what has no line last."""
    return (True, True, "", 0) if line is None else (False, line[0] != snapshot.file, *line)


def _line(snapshot: Snapshot, line: Line | None, ops: Sequence[Op], rows: Lowering) -> Iterable[Part]:
    name = f"line {line[0]} {line[1]}" if line else "no line"
    opened = rows.is_open(name)
    title = places(snapshot.file).describe(Location(*line)) if line else "no line known"
    yield Part(1, lambda _: _heading(snapshot, line, ops, name, opened), title)
    if opened:
        yield fixed(_ops(ops, rows))


def _ops(ops: Sequence[Op], rows: Lowering) -> Iterator[Row]:
    for op in ops:
        yield from rows.op(op)


def _heading(snapshot: Snapshot, line: Line | None, ops: Sequence[Op], name: str, opened: bool) -> Row:
    total = _counted(ops)
    said = [count(total["ops"], "op"), count(total["nodes"], "ATen op"), count(total["statements"], "statement")]
    facts = (f"  {' → '.join(said)}", "muted")
    if line is None:
        return fold(name, opened, ("no line known", "heading"), facts, indent=0)
    at = Location(*line)
    where = str(line[1]) if line[0] == snapshot.file else places(snapshot.file).describe(at)
    text = _texts(snapshot, line[0]).get(line[1], "").strip()
    code = ((span.text, span.style) for span in highlighted(text, "python").raw(0))
    return fold(name, opened, (f"{where}  ", "title"), *code, facts, indent=0, location=at, links=(line_link(at),))
