"""The source pane: the model file with the facts of each line."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial

from rich.cells import cell_len

from tcexplore.documents.document import Part, Parts, Row, Span, fixed
from tcexplore.documents.empty_states import describe_phase
from tcexplore.documents.highlight import Highlighted, highlighted
from tcexplore.documents.labels import KernelLabel
from tcexplore.documents.line_facts import (
    LEAST_SHARE,
    LineBars,
    LineFacts,
    break_place,
    describe_time,
    describe_traffic,
    line_facts,
    lines_by_definition,
    read_lines,
)
from tcexplore.documents.locations import places
from tcexplore.documents.prose import fold, wrapped
from tcexplore.events import Location
from tcexplore.quantities import count
from tcexplore.session import Snapshot
from tcexplore.session.links import line_link

BREAK, GUARD, FAILED = "✖", "◆", "▶"

SEVERAL = "+"
"""Mark of a line with more kernels than the gutter shows."""

HEAT_IN_WORDS = 120
"""Minimum width to show time and memory traffic of a line in words."""

FEW_LINES = 12
"""Maximum number of lines of another file that are shown without a fold for each class."""

UNKNOWN = "…"
"""Placeholder for an unknown line of another file."""

EMPTY = "The file is empty. Save a model in it to see how torch.compile compiles each line."
NO_SOURCE = "A profile has no source code. The job's TORCH_TRACE has it: tcexplore open PROFILE --trace TRACE."


def _why_empty(snapshot: Snapshot) -> str:
    if snapshot.failure:
        return snapshot.failure.message
    if snapshot.profile_alone:
        return NO_SOURCE
    return f"… {describe_phase(snapshot)}" if snapshot.trace and not snapshot.complete else EMPTY


def source_document(
    snapshot: Snapshot,
    toggled: frozenset[str] = frozenset(),
    width: int = 78,
) -> Parts:
    """Return the document of the pane."""
    facts = line_facts(snapshot)
    if not snapshot.source:
        return Parts("", [fixed(wrapped(_why_empty(snapshot), width, "muted"))])
    text = highlighted(snapshot.source, "python")
    failed = failed_line(snapshot)
    gutter = _Gutter(snapshot, snapshot.file, range(1, len(text.lines) + 1), width, failed)
    own = Part(len(text.lines), lambda index: _row(text, index, gutter))
    others = sorted((file for file in facts.files() if file != snapshot.file), key=facts.place_of_file)
    elsewhere = (fixed(_elsewhere(snapshot, facts, file, toggled, width)) for file in others)
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
    """The gutter of a file: a mark, the line number, the first kernel, and a bar for time or memory traffic, which a
    wide pane also shows in words after the line. The peek line has the other facts."""

    def __init__(self, snapshot: Snapshot, file: str, lines: Iterable[int], width: int,
                 failed: tuple[int, str] | None = None) -> None:  # fmt: skip
        self.facts = line_facts(snapshot)
        self.bars = LineBars(snapshot)
        self.failed = failed
        self.width = width
        self.file = file
        known = list(lines)
        self._number = len(str(max(known, default=0)))
        self._kernels = max((_wide(_first_kernel(self.kernels(n))) for n in known), default=0)

    def kernels(self, number: int) -> list[KernelLabel]:
        return self.facts.kernels((self.file, number))

    def spans(self, number: int) -> tuple[Span, ...]:
        line = (self.file, number)
        kernels = _first_kernel(self.kernels(number))
        return (
            self._mark(number),
            Span(f"{number:>{self._number}} ", "break" if line in self.facts.breaks else "muted"),
            *kernels,
            Span(" " * (self._kernels - _wide(kernels))),
            *self.bars.bar(line, ran_outside=line in self.facts.breaks or line in self.facts.skipped),
            Span(" " if self._kernels else ""),
        )

    def _mark(self, number: int) -> Span:
        if self.failed is not None and self.failed[0] == number:
            return Span(FAILED, "error")
        if (self.file, number) in self.facts.breaks:
            return Span(BREAK, "break")
        return Span(GUARD if (self.file, number) in self.facts.guards else " ", "guard")

    def row(self, number: int, code: Iterable[Span], text: str) -> Row:
        line, at = (self.file, number), Location(self.file, number)
        gutter = self.spans(number)
        spans = (*gutter, *code, *self._ending(number, _wide(gutter) + cell_len(text)))
        place = self._break_place(number, text, _wide(gutter))
        return Row(spans, (line_link(at), *self.facts.links(line)), at, copy=text, place=place)

    def _break_place(self, number: int, text: str, gutter: int) -> tuple[int, int] | None:
        """Return where the row shows the expression of a graph break."""
        breaks = self.facts.breaks.get((self.file, number))
        if not breaks:
            return None
        start, end = break_place(breaks[0], text)
        return gutter + start, gutter + end

    def _ending(self, number: int, used: int) -> Iterable[Span]:
        """Yield notes at the end of a line, which is `used` cells wide: graph break, skipped frame."""
        line = (self.file, number)
        if self.failed is not None and self.failed[0] == number:
            yield Span(f"  {FAILED} {self.failed[1]}", "error")
        if line in self.facts.breaks:
            note = "  graph break"
            yield Span(note if used + len(note) <= self.width else "  break", "break")
        elif line in self.facts.skipped:
            note = f"  not compiled: {self.facts.skipped[line].reason}"
            yield Span(note if used + cell_len(note) <= self.width else "  not compiled", "warn")
        wide = self.width >= HEAT_IN_WORDS
        if wide and (time := self.bars.shares.get(line)):
            yield Span(f"  {describe_time(time)}", "number")
        if wide and (traffic := self.bars.traffic.lines.get(line)):
            yield Span(f"  {describe_traffic(traffic)}", "dim")


def _row(text: Highlighted, index: int, gutter: _Gutter) -> Row:
    return gutter.row(index + 1, text.raw(index), text.lines[index])


def _first_kernel(kernels: list[KernelLabel]) -> tuple[Span, ...]:
    """Return the label of a line's first kernel, `▐2+` or `E1+` if there are more."""
    if len(kernels) < 2:
        return kernels[0].spans if kernels else ()
    first = kernels[0]
    label = first.spans if first.extern else first.spans[:-1]
    return (*label, Span(SEVERAL, first.style))


def _wide(spans: Iterable[Span]) -> int:
    return sum(len(span.text) for span in spans)


def _elsewhere(snapshot: Snapshot, facts: LineFacts, file: str, toggled: frozenset[str], width: int) -> Iterable[Row]:
    """Return a fold with the lines of another file that have facts, if they are many with a fold for each class."""
    lines = facts.lines(file)
    name = f"file {file}"
    nodes = sum(facts.nodes.get((file, line), 0) for line in lines)
    # A library model has no lines in the model file.
    opened = (name in toggled) == any(where == snapshot.file for where, _ in facts.nodes)
    hides = () if opened else tuple(line_link(Location(file, line)) for line in lines)
    known = read_lines(snapshot, file)
    yield fold(
        name, opened, (places(snapshot.file).path(file), "heading"),
        (f"  {count(len(lines), 'line')}, {count(nodes, 'FX node')}", "muted"), indent=0, hides=hides,
        inside=None if opened else partial(_text, known, lines),
    )  # fmt: skip
    if not opened:
        return
    gutter = _Gutter(snapshot, file, lines, width)

    def rows(numbers: Iterable[int]) -> Iterator[Row]:
        return (gutter.row(n, highlighted(known.get(n, UNKNOWN), "python").raw(0), known.get(n, "")) for n in numbers)

    text = next((source.text for source in snapshot.sources if source.file == file), "")
    definitions = lines_by_definition(text, lines) if len(lines) > FEW_LINES else {"": lines}
    for definition in sorted(definitions, key=lambda each: facts.place(file, definitions[each])):
        own = definitions[definition]
        if not definition:
            yield from rows(own)
            continue
        inner = f"{name} {definition}"
        opened = inner in toggled
        inside = None if opened else partial(_text, known, own)
        yield _definition_row(facts, gutter, file, definition, own, inner, opened)._replace(inside=inside)
        yield from rows(own if inner in toggled else ())


def _text(known: Mapping[int, str], lines: Iterable[int]) -> str:
    return "\n".join(known.get(line, "") for line in lines)


def _definition_row(
    facts: LineFacts, gutter: _Gutter, file: str, definition: str, lines: Sequence[int], name: str, opened: bool
) -> Row:
    """Return the row of a class or function: its lines, nodes and share of a call."""
    nodes = sum(facts.nodes.get((file, line), 0) for line in lines)
    share = sum(time.share for line in lines if (time := gutter.bars.shares.get((file, line))) is not None)
    at = Location(file, lines[0])
    broken = sum(len(facts.breaks.get((file, line), ())) for line in lines)
    return fold(
        name, opened, (definition, "heading"), (f"  {count(len(lines), 'line')}", "muted"),
        (f", {count(nodes, 'FX node')}" if nodes else "", "muted"),
        (f"  {share:.0%} of a call" if share >= LEAST_SHARE else "", "number"),
        (f"  {BREAK} {count(broken, 'break')}" if broken else "", "break"), location=at,
        hides=() if opened else tuple(line_link(Location(file, line)) for line in lines),
    )  # fmt: skip
