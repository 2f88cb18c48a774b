"""The source pane: the model file with the facts of each line."""

from __future__ import annotations

import os
from collections.abc import Iterable

from tcexplore.documents.document import Row, Span
from tcexplore.documents.document_parts import Part, Parts, fixed
from tcexplore.documents.graph.graph_rows import kernel_spans
from tcexplore.documents.highlight import Highlighted, highlighted
from tcexplore.documents.labels import KernelLabel
from tcexplore.documents.locations import places
from tcexplore.documents.prose import fold, wrapped
from tcexplore.documents.source.line_facts import LineFacts, describe_traffic, hot, line_facts, read_lines, traffic_bar
from tcexplore.events import Location
from tcexplore.quantities import count
from tcexplore.session import Snapshot
from tcexplore.session.line_traffic import Traffic
from tcexplore.session.links import line_link

BREAK, GUARD, NODES, BELOW, FAILED = "✖", "◆", "○", "↓", "▶"

HEAT_IN_WORDS = 120
"""Minimum width to show the memory traffic of a line in words."""

UNKNOWN = "…"
"""Placeholder for an unknown line of another file."""

EMPTY = "The file is empty. Save a model in it to see how torch.compile compiles each line."


def source_document(
    snapshot: Snapshot,
    toggled: frozenset[str] = frozenset(),
    width: int = 78,
) -> Parts:
    """Return the document of the pane."""
    facts = line_facts(snapshot)
    if not snapshot.source:
        notice = snapshot.failure.message if snapshot.failure else EMPTY
        return Parts("", [fixed(wrapped(notice, width, "muted"))])
    text = highlighted(snapshot.source, "python")
    wide = width >= HEAT_IN_WORDS
    failed = failed_line(snapshot)
    gutter = _Gutter(facts, snapshot.file, range(1, len(text.lines) + 1), hot(snapshot), wide=wide, failed=failed)
    own = Part(len(text.lines), lambda index: _row(text, index, gutter))
    others = (file for file in facts.files() if file != snapshot.file)
    elsewhere = (fixed(_elsewhere(snapshot, facts, file, toggled, wide=wide)) for file in others)
    return Parts(
        os.path.basename(snapshot.file),
        [own, *elsewhere],
        start=((failed and failed[0]) or facts.first(snapshot.file) or 1) - 1,
    )


def failed_line(snapshot: Snapshot) -> tuple[int, str] | None:
    """Return the line of the model file at which the run failed, and the type of the error."""
    failure = snapshot.failure
    if failure is None or failure.location is None or failure.location.file != snapshot.file:
        return None
    return failure.location.line, failure.type


class _Gutter:
    """The gutter of a file: marks, line number, `3○` FX nodes or `3↓` in the functions it calls, kernels, and a bar for
    memory traffic, which a wide pane also shows in words after the line."""

    def __init__(self, facts: LineFacts, file: str, lines: Iterable[int], heat: Traffic, *, wide: bool,
                 failed: tuple[int, str] | None = None) -> None:  # fmt: skip
        self.facts = facts
        self.failed = failed
        self.heat = heat
        self.wide = wide
        self.file = file
        known = list(lines)
        self._number = len(str(max(known, default=0)))
        self._count = max((len(self._nodes(n)) for n in known), default=0)
        self._kernels = max((_wide(kernel_spans(self.kernels(n))) for n in known), default=0)

    def kernels(self, number: int) -> list[KernelLabel]:
        return self.facts.kernels((self.file, number))

    def _nodes(self, number: int) -> str:
        line = (self.file, number)
        own, below = self.facts.nodes.get(line, 0), self.facts.below.get(line, 0)
        return f"{own}{NODES}" if own else f"{below}{BELOW}" if below else ""

    def spans(self, number: int) -> tuple[Span, ...]:
        line = (self.file, number)
        kernels = kernel_spans(self.kernels(number))
        return (
            self._mark(number),
            Span(GUARD if line in self.facts.guards else " ", "guard"),
            Span(f"{number:>{self._number}} ", "break" if line in self.facts.breaks else "muted"),
            Span(f"{self._nodes(number):>{self._count}} ", "muted"),
            *kernels,
            Span(" " * (self._kernels - _wide(kernels) + bool(self._kernels))),
            *traffic_bar(self.heat, line, ran_outside=line in self.facts.breaks or line in self.facts.skipped),
            Span(" " if self._kernels else ""),
        )

    def _mark(self, number: int) -> Span:
        if self.failed is not None and self.failed[0] == number:
            return Span(FAILED, "error")
        return Span(BREAK if (self.file, number) in self.facts.breaks else " ", "break")

    def row(self, number: int, code: Iterable[Span], text: str) -> Row:
        line, at = (self.file, number), Location(self.file, number)
        spans = (*self.spans(number), *code, *self._ending(number))
        return Row(spans, (line_link(at), *self.facts.links(line)), at, copy=text)

    def _ending(self, number: int) -> Iterable[Span]:
        """Yield notes at the end of a line: graph break, extern call, skipped frame."""
        line = (self.file, number)
        if self.failed is not None and self.failed[0] == number:
            yield Span(f"  {FAILED} {self.failed[1]}", "error")
        if line in self.facts.breaks:
            yield Span("  graph break", "break")
        elif line in self.facts.skipped:
            yield Span(f"  not compiled: {self.facts.skipped[line].reason}", "warn")
        elif self.kernels(number) and all(label.extern for label in self.kernels(number)):
            yield Span("  extern", "extern")
        if self.wide and line in self.heat.lines:
            yield Span(f"  {describe_traffic(self.heat.lines[line])}", "dim")


def _row(text: Highlighted, index: int, gutter: _Gutter) -> Row:
    return gutter.row(index + 1, text.raw(index), text.lines[index])


def _wide(spans: Iterable[Span]) -> int:
    return sum(len(span.text) for span in spans)


def _elsewhere(
    snapshot: Snapshot, facts: LineFacts, file: str, toggled: frozenset[str], *, wide: bool
) -> Iterable[Row]:
    """Return a fold with the lines of another file that have facts."""
    lines = facts.lines(file)
    name = f"file {file}"
    nodes = sum(facts.nodes.get((file, line), 0) for line in lines)
    # A library model has no lines in the model file.
    opened = (name in toggled) == any(where == snapshot.file for where, _ in facts.nodes)
    yield fold(name, opened, (places(snapshot.file).path(file), "heading"),
               (f"  {count(len(lines), 'line')}, {count(nodes, 'FX node')}", "muted"), indent=0)  # fmt: skip
    if opened:
        gutter, known = _Gutter(facts, file, lines, hot(snapshot), wide=wide), read_lines(snapshot, file)
        yield from (gutter.row(n, highlighted(known.get(n, UNKNOWN), "python").raw(0), known.get(n, "")) for n in lines)
