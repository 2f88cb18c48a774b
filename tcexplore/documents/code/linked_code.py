"""A kernel's instructions with the statement of its source that each comes from, and the lines of the model.

Each statement is a group: the lines of the model, the statement, its instructions. A wide pane has the three side by
side, a narrow one below each other. All rows of a group have the same links, so they are selected together.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from rich.cells import cell_len, chop_cells

from tcexplore import events as ev
from tcexplore.documents.code.instructions import CodeLine, stage_code
from tcexplore.documents.document import Row, Span, by_identity
from tcexplore.documents.labels import KernelLines, Labels
from tcexplore.documents.locations import places
from tcexplore.documents.prose import Spans
from tcexplore.session.links import Link, aten_link, kernel_link, line_link, statement_link

if TYPE_CHECKING:
    from tcexplore.session import Snapshot

SIDE_BY_SIDE = 96
"""Columns from which a pane has model, statement and instructions side by side."""

_SHARES = (26, 38)
"""Percent of the width for the lines of the model and for the statements."""

_RULE = Span(" │ ", "rule")

REPEAT = 12
"""Rows after which a long group has its statement again."""

NO_STATEMENT = "no statement"
NO_INSTRUCTION = "no instruction of its own"


class ModelLines:
    """The text of the user's lines."""

    def __init__(self, file: str, source: str, sources: tuple[ev.SourceRead, ...]) -> None:
        self._where = places(file)
        self._lines = {read.file: read.text.splitlines() for read in sources}
        self._lines[file] = source.split("\n")

    def describe(self, at: ev.Location) -> str:
        """Return the number and the text of a line, in another file with its name."""
        lines = self._lines.get(at.file, ())
        text = lines[at.line - 1].strip() if 0 < at.line <= len(lines) else ""
        return f"{self._where.abbreviate(at)} {text}".rstrip()


@by_identity(4)
def _model_lines(file: str, source: str, sources: tuple[ev.SourceRead, ...]) -> ModelLines:
    return ModelLines(file, source, sources)


class _Group(NamedTuple):
    """A statement and its instructions."""

    n: int
    """Line of the kernel's source; 0 for instructions of no known statement."""
    line: ev.KernelLine | None
    instructions: tuple[CodeLine, ...]


def _groups(kernel: ev.Kernel, lines: Iterable[CodeLine]) -> Iterator[_Group]:
    """Yield the statements in the order of the source, each with its instructions in their order."""
    by_statement: defaultdict[int, list[CodeLine]] = defaultdict(list)
    for line in lines:
        by_statement[line.origin].append(line)
    known = {line.n: line for line in kernel.lines}
    for n in sorted({*by_statement, *known} - {0}):
        yield _Group(n, known.get(n), tuple(by_statement.get(n, ())))
    if 0 in by_statement:
        yield _Group(0, None, tuple(by_statement[0]))


def linked_code(snapshot: Snapshot, kernel: ev.Kernel, stage: ev.KernelStage, known: Labels, width: int) -> LinkedCode:
    """Return the instructions of a stage by statement, cached."""
    model = _model_lines(snapshot.file, snapshot.source, snapshot.sources)
    return _linked_code(kernel, stage, known, model, width)


@by_identity(128)
def _linked_code(kernel: ev.Kernel, stage: ev.KernelStage, known: Labels, model: ModelLines, width: int) -> LinkedCode:
    return LinkedCode(kernel, stage, known, model, width)


class LinkedCode:
    """The rows of the groups."""

    def __init__(self, kernel: ev.Kernel, stage: ev.KernelStage, known: Labels, model: ModelLines, width: int) -> None:
        self._kernel = kernel
        self._source = KernelLines(kernel, known)
        self._model = model
        self._number = len(str(stage.text.count("\n") + 1))
        self._wide = width >= SIDE_BY_SIDE
        self._columns = tuple(width * share // 100 for share in _SHARES)
        self._rows: list[Row] = []
        before: tuple[str, ...] = ()
        for group in _groups(kernel, stage_code(stage).lines):
            texts = tuple(model.describe(at) for at in group.line.source) if group.line else ()
            self._rows += self._side_by_side(group, texts, before) if self._wide else self._below(group, texts, before)
            before = texts

    def __len__(self) -> int:
        return len(self._rows)

    def row(self, index: int) -> Row:
        return self._rows[index]

    def _below(self, group: _Group, model: tuple[str, ...], before: tuple[str, ...]) -> Iterator[Row]:
        """Yield the lines of the model unless the group before has the same, the statement, and the instructions."""
        for text in model if model != before else ():
            yield self._row(group, (Span(f" {text}", "location"),), text)
        none = () if group.instructions else (Span(f"  {NO_INSTRUCTION}", "dim"),)
        yield self._row(group, (*self._statement(group), *none), self._copied(group))
        for index, line in enumerate(group.instructions):
            if index and index % REPEAT == 0:
                yield self._row(group, _dimmed(self._statement(group)), self._copied(group))
            yield self._row(group, (Span("  "), *self._instruction(line)), line.text)

    def _side_by_side(self, group: _Group, model: tuple[str, ...], before: tuple[str, ...]) -> Iterator[Row]:
        left, middle = self._columns
        style = "dim" if model == before else "location"
        models: list[Spans] = [(Span(piece, style),) for text in model for piece in chop_cells(text, left - 1)]
        statements = list(_chopped(self._statement(group), middle, self._indent(group)))
        instructions: list[Spans] = [self._instruction(line) for line in group.instructions]
        if not group.instructions:
            instructions.append((Span(" " * (self._number + 2)), Span(NO_INSTRUCTION, "dim")))
        for again in range(REPEAT, len(instructions), REPEAT):
            for pieces in (models, statements):
                if len(pieces) <= again:
                    pieces += [*[()] * (again - len(pieces)), _dimmed(pieces[0] if pieces else ())]
        for index in range(max(len(models), len(statements), len(instructions))):
            spans = (
                Span(" "),
                *_cell(models, index, left - 1),
                _RULE,
                *_cell(statements, index, middle),
                _RULE,
                *(instructions[index] if index < len(instructions) else ()),
            )
            line = group.instructions[index].text if index < len(group.instructions) else self._copied(group)
            yield self._row(group, spans, line)

    def _indent(self, group: _Group) -> int:
        """Return the cells before the code of a statement: its number and its ops."""
        if not 0 < group.n <= len(self._source):
            return 0
        return sum(cell_len(span.text) for span in self._source.row(group.n - 1).spans if not _is_code(span))

    def _statement(self, group: _Group) -> Spans:
        """Return the statement with its number and its ops, without its indentation."""
        if not group.n or group.n > len(self._source):
            return (Span(f" {NO_STATEMENT}", "muted"),)
        spans = list(self._source.row(group.n - 1).spans)
        first = next((index for index, span in enumerate(spans) if _is_code(span)), None)
        if first is not None:
            spans[first] = Span(spans[first].text.lstrip(), spans[first].style)
        return tuple(spans)

    def _copied(self, group: _Group) -> str | None:
        return self._source.row(group.n - 1).copy if 0 < group.n <= len(self._source) else None

    def _instruction(self, line: CodeLine) -> Spans:
        opcode, _, operands = line.text.partition(" ")
        if opcode.startswith("@"):
            predicate, (opcode, _, operands) = f"{opcode} ", operands.partition(" ")
        else:
            predicate = ""
        return (
            Span(f" {line.n:>{self._number}} ", "dim"),
            Span(predicate, "muted"),
            Span(opcode, "muted" if line.label else "keyword"),
            Span(f" {operands}"),
        )

    def _row(self, group: _Group, spans: Spans, copy: str | None) -> Row:
        line = group.line
        place = line.source[0] if line and line.source else None
        return Row(tuple(span for span in spans if span.text), self._links(group), place, copy=copy, no_wrap=True)

    def _links(self, group: _Group) -> tuple[Link, ...]:
        kernel, line = self._kernel, group.line
        if not group.n:
            return ()
        nodes = tuple(aten_link(kernel.graph, kernel.phase, name) for name in line.nodes) if line else ()
        lines = tuple(line_link(location) for location in line.source) if line else ()
        return (statement_link(kernel, group.n), *nodes, *lines, kernel_link(kernel))


def _dimmed(spans: Spans) -> Spans:
    return tuple(Span(span.text, "dim") for span in spans)


def _is_code(span: Span) -> bool:
    return span.style.startswith("code.") or span.style in ("string", "comment")


def _chopped(spans: Spans, room: int, indent: int) -> Iterator[Spans]:
    """Yield spans in pieces of at most `room` cells, from the second one on indented."""
    indent = min(indent, room // 2)
    piece: list[Span] = []
    left = room
    for span in spans:
        text = span.text
        while cell_len(text) > left:
            head = chop_cells(text, left)[0] if left else ""
            yield (*piece, Span(head, span.style))
            text, piece, left = text[len(head) :].lstrip(), [Span(" " * indent)], room - indent
        piece.append(Span(text, span.style))
        left -= cell_len(text)
    yield tuple(piece)


def _cell(pieces: Sequence[Spans], index: int, width: int) -> Spans:
    spans = pieces[index] if index < len(pieces) else ()
    return (*spans, Span(" " * (width - sum(cell_len(span.text) for span in spans))))
