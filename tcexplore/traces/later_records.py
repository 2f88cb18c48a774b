"""Records that are read after all others, since they need only their own compile and what Dynamo's records told of it.

These are most of a trace: the graphs of AOTAutograd and Inductor and the generated code. Forked processes read them,
some compiles each. Their events come in the order of the trace all the same. Each of torch's spans needs only those
before it, and so does each key of its caches: one process reads all spans, another all keys.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Literal, NamedTuple

from tcexplore import events as ev
from tcexplore.processes import Forked, shares
from tcexplore.traces.inductor_records import AOT_STAGES, CacheRecords, GraphRecords, with_split_graph
from tcexplore.traces.kernel_records import KernelRecords
from tcexplore.traces.record_index import BadRecordError, RecordIndex
from tcexplore.traces.span_records import SpanRecords
from tcexplore.traces.trace_context import Converter, TraceContext

MOST_PROBLEMS = 20
"""Messages about records that are kept for one process."""

LEAST_BYTES = 4 << 20
"""Bytes of the records of compiles from which on more processes pay off."""

_PARTS_EACH = 6
"""Parts that a process reads at least, one after the other: no process is left with a large one at the end."""

_MOST_BYTES = 8 << 20
"""Bytes of the records of a part, unless one compile has more: what a part tells is held until it is read whole."""


class CodeRecords:
    """Records of some compiles below Dynamo: graphs of AOTAutograd and Inductor, and the generated code."""

    def __init__(self) -> None:
        graphs = GraphRecords()
        self._kernels = KernelRecords(graphs)
        self.converters: Mapping[str, Converter] = {
            **dict.fromkeys(AOT_STAGES, graphs.read_aot),
            "inductor_post_grad_graph": graphs.read_post_grad,
            "inductor_output_code": self._kernels.read_wrapper,
            "inductor_provenance_tracking_node_mappings": self._kernels.read_mappings,
        }

    def finish_compile(self, context: TraceContext, graph: str | None = None) -> None:
        """Emit the kernels of a compile that is over, of all if None."""
        self._kernels.flush(context, graph)


@contextmanager
def unread_records(context: TraceContext, number: int, kind: str) -> Iterator[None]:
    """Keep as a problem that the block cannot read a record."""
    try:
        yield
    except BadRecordError as error:
        _add_problem(context, number, str(error))
    except Exception as error:  # noqa: BLE001  a record of another torch may have any form; the others are still read
        form = f"has an unknown form: {type(error).__name__}: {error}"
        _add_problem(context, number, f"record {number + 1} ({kind}) {form}")


def _add_problem(context: TraceContext, number: int, problem: str) -> None:
    if len(context.problems) < MOST_PROBLEMS:
        context.problems[number] = ev.clean(problem)


Stream = Literal["spans", "caches"]
"""Records that need those of the same kind before them, of any compile."""


class _Part(NamedTuple):
    """Records that are read together."""

    number: int
    """Position among the parts: compiles in the order of their first records, then the streams."""
    records: Sequence[tuple[int, str]]
    """Number and compile id of each, in their order."""
    stream: Stream | None = None


class _ReadPart(NamedTuple):
    """What a part has told."""

    number: int
    events: Sequence[tuple[int, ev.Event]]
    """Each with the number of its record."""
    problems: Mapping[int, str]
    lines: Sequence[tuple[str, int, str]]
    """File, number and text of the user's lines that no record had told before."""
    span_graphs: Collection[str]


class LaterRecords:
    """Collects the records of one process that are read later, then reads them."""

    def __init__(self, index: RecordIndex) -> None:
        self._index = index
        self._of_stream: dict[Stream, list[tuple[int, str]]] = {}
        self._of_graph: dict[str, array[int]] = {}
        self._cache_kinds = frozenset(CacheRecords().converters)
        self.kinds = self._cache_kinds | frozenset(CodeRecords().converters)
        self.span_graphs: dict[str, None] = {}
        """The compile ids of the spans, once these are read."""

    def add_span(self, number: int) -> None:
        """Read one of torch's spans later."""
        self._of_stream.setdefault("spans", []).append((number, ""))

    def add(self, number: int, graph: str) -> None:
        """Read a record of a compile later, one of its `kinds` or the one that ends it."""
        if self._index.kind(number) in self._cache_kinds:
            self._of_stream.setdefault("caches", []).append((number, graph))
        else:
            self._of_graph.setdefault(graph, array("Q")).append(number)

    def read(self, context: TraceContext) -> Iterator[Iterator[ev.Event]]:
        """Yield the events of all collected records, those of the streams last; add to the context what they tell."""
        parts, count = self._parts(shares())
        ordered = _Ordered([len(self._index) if part.stream else part.records[0][0] for part in parts])
        for part in self._read_parts(context, parts, count):
            for file, line, text in part.lines:
                context.sources.observe_line(file, line, text)
            context.problems |= part.problems
            self.span_graphs |= dict.fromkeys(part.span_graphs)
            yield ordered.add(part)

    def _read_parts(self, context: TraceContext, parts: Sequence[_Part], count: int) -> Iterator[_ReadPart]:
        missing = dict.fromkeys(range(len(parts)))
        if count > 1:
            streams_first = sorted(parts, key=lambda part: part.stream is None)
            with Forked([self._forked(context, streams_first[first::count]) for first in range(count)]) as forked:
                for part in forked:
                    del missing[part.number]
                    yield part
        for number in missing:  # also what a process that failed has not read
            yield self._read_part(context, parts[number])

    def _forked(self, context: TraceContext, parts: Iterable[_Part]) -> Iterator[_ReadPart]:
        for part in parts:
            yield self._read_part(context, part)

    def _parts(self, count: int) -> tuple[list[_Part], int]:
        """Return the parts, and how many processes read them: large compiles are parts of their own."""
        sizes = {graph: sum(map(self._size, numbers)) for graph, numbers in self._of_graph.items()}
        total = sum(sizes.values())
        count = count if total >= LEAST_BYTES else 1
        most, groups, size = min(total / (_PARTS_EACH * count), _MOST_BYTES), list[list[str]](), 0
        for graph, own in sizes.items():
            if not groups or size + own > most:
                groups.append([])
                size = 0
            groups[-1].append(graph)
            size += own
        records = [sorted((number, graph) for graph in group for number in self._of_graph[graph]) for group in groups]
        parts = [_Part(number, of) for number, of in enumerate(records)]
        parts += [_Part(len(parts) + n, records, stream) for n, (stream, records) in enumerate(self._of_stream.items())]
        return parts, count

    def _size(self, number: int) -> int:
        starts = self._index.starts
        return (starts[number + 1] if number + 1 < len(starts) else self._index.size) - starts[number]

    def _read_part(self, context: TraceContext, part: _Part) -> _ReadPart:
        events: list[tuple[int, ev.Event]] = []
        known = len(context.sources.learned)
        at = 0

        def emit(event: ev.Event) -> None:
            events.append((at, event))

        own = replace(context, emit=emit, problems={})
        code, caches, spans = CodeRecords(), CacheRecords(), SpanRecords()
        converters = {**code.converters, **caches.converters}
        graphs: dict[str, None] = {}
        for at, graph in part.records:
            with unread_records(own, at, self._index.kind(at)):
                record = self._index.record(at)
                if part.stream == "spans":
                    record = with_split_graph(own, record)
                    graphs[record.graph] = None
                    spans.read(own, record)
                elif converter := converters.get(record.kind):
                    converter(own, record._replace(graph=graph))
                else:
                    code.finish_compile(own, graph)
        at = len(self._index)
        code.finish_compile(own)
        if part.stream is None:
            context.forget_nodes_below(graph for _, graph in part.records)
        return _ReadPart(part.number, events, own.problems, context.sources.learned[known:], tuple(graphs))


class _Ordered:
    """Puts the events of parts into the order of the trace, as soon as no part can have an earlier one."""

    def __init__(self, firsts: Sequence[int]) -> None:
        """`firsts` are the numbers of the parts' first records."""
        self._firsts = firsts
        self._ready: dict[int, _ReadPart] = {}
        self._next = 0
        """The first part that is not read."""
        self._waiting: list[tuple[int, ev.Event]] = []

    def add(self, part: _ReadPart) -> Iterator[ev.Event]:
        """Return the events that are due now that a part is read."""
        self._ready[part.number] = part
        while (known := self._ready.pop(self._next, None)) is not None:
            self._next += 1
            self._waiting += known.events
        self._waiting.sort(key=_number)
        last = self._next >= len(self._firsts)
        end = len(self._waiting) if last else bisect_left(self._waiting, self._firsts[self._next], key=_number)
        due = self._waiting[:end]
        del self._waiting[:end]
        return (event for _, event in due)


def _number(event: tuple[int, ev.Event]) -> int:
    return event[0]
