"""The timeline of a step: rows of the host and the device as bars, what is at the mark, and the gaps by cause."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rich.cells import cell_len

from tcexplore import events as ev
from tcexplore.documents.document import Move, Parts, Row, Span, choice_of, fixed
from tcexplore.documents.empty_states import empty_part, missing_reason
from tcexplore.documents.locations import Places, places
from tcexplore.documents.prose import BLANK, Column, heading, row, shortened, table, wrapped
from tcexplore.documents.style_names import KERNELS
from tcexplore.documents.timing.device_rows import shorten_device_function
from tcexplore.keymap import hint
from tcexplore.quantities import count, duration
from tcexplore.session import Snapshot
from tcexplore.session.identity_cache import by_identity
from tcexplore.session.links import Link, line_link

STEP, WINDOW, MARK = "timeline step", "timeline window", "timeline mark"
"""Choices of the view: a step by name, the part of it that is shown, the time at the mark; in microseconds."""

EMPTY_TEXT = (
    "The timeline of a step appears here: what the host and the device do in one warm step, and why the device waits. "
    "It is made from a profile that `tcexplore open PROFILE` reads, and of a script once its steps are timed."
)

SMALLEST_US = 2.0
"""Shortest part of a step that is shown."""

GAPS = 12
"""Gaps that are listed: the longest ones."""

LETTERS: dict[ev.StepPartKind, str] = {
    "host-bound": "h", "synchronization": "s", "queued": "q", "profiler": "p", "not known": "?",
}  # fmt: skip

MEANINGS: dict[ev.StepPartKind, str] = {
    "computing": "kernels run",
    "copy": "only copies run",
    "collective": "only collectives run, which includes waiting for other ranks",
    "host-bound": "idle: the host launches the next task too late",
    "synchronization": "idle: the host had waited for the device, so nothing was launched ahead",
    "queued": "idle although the next task is launched: the time to start it",
    "profiler": "idle: the profiler itself held up the host",
    "not known": "idle: the profile does not tell why",
    "data": "loading data",
    "other ops": "ops outside these phases, such as copies and clipping",
    "between ops": "between these phases: mostly Python",
}

_COLORS: dict[str, int] = {
    "data": 2, "forward": 0, "backward": 3, "optimizer": 1, "other ops": 6, "module": 4, "mark": 5, "kernel": 0,
    "library": 2, "eager op": 1, "synchronization": 5, "copy": 3, "fill": 6, "collective": 7,
}  # fmt: skip

_HEIGHTS = "▁▂▃▄▅▆▇█"
_FULL = 0.97
"""Share of a cell from which it counts as full."""
_LABEL = 3
"""Cells of a span that has a label."""
_MARKER = "▾"


class _Cell(NamedTuple):
    """What a row has in one cell."""

    busy: float
    """Share of its time."""
    span: int
    """The span with the most time in it, -1 for none."""
    spans: int
    """Number of spans in it."""


_EMPTY = _Cell(0.0, -1, 0)


@dataclass(frozen=True, slots=True)
class _Window:
    """The part of a step that is shown."""

    start: float
    end: float
    cells: int

    @property
    def cell_us(self) -> float:
        return (self.end - self.start) / self.cells

    def cell(self, at: float) -> int:
        return min(max(int((at - self.start) / (self.end - self.start) * self.cells), 0), self.cells - 1)

    def begin(self, cell: int) -> float:
        return self.start + cell * self.cell_us


class _Track(NamedTuple):
    """A drawn row: a row of the timeline, or the gaps of its device."""

    name: str
    spans: tuple[ev.TimelineSpan | ev.TimelineGap, ...]
    cells: Sequence[_Cell]

    def at(self, cell: int) -> ev.TimelineSpan | ev.TimelineGap | None:
        index = self.cells[cell].span
        return self.spans[index] if index >= 0 else None


@by_identity(64)
def _cells_of(spans: tuple[ev.TimelineSpan | ev.TimelineGap, ...], window: _Window) -> list[_Cell]:
    """Return what a row has in each cell. Spans do not overlap and are sorted."""
    cells, cell_us, origin = window.cells, window.cell_us, window.start
    busy, best, best_us, counts = [0.0] * cells, [-1] * cells, [0.0] * cells, [0] * cells
    starts = _starts(spans)
    first = max(0, bisect_right(starts, window.start) - 1)
    last = bisect_left(starts, window.end)
    for index in range(first, last):
        span = spans[index]
        start, end = max(span.start_us, window.start) - origin, min(span.start_us + span.us, window.end) - origin
        if end < start:
            continue
        left, right = int(start / cell_us), min(int(end / cell_us), cells - 1)
        for cell in range(min(left, cells - 1), right + 1):
            us = min(end, (cell + 1) * cell_us) - max(start, cell * cell_us)
            busy[cell] += us
            counts[cell] += 1
            if us >= best_us[cell] and (us > 0 or left == right):
                best[cell], best_us[cell] = index, us
    return [
        _Cell(min(1.0, us / cell_us), index, number) if index >= 0 else _EMPTY
        for us, index, number in zip(busy, best, counts, strict=True)
    ]


@by_identity(64)
def _starts(spans: tuple[ev.TimelineSpan | ev.TimelineGap, ...]) -> list[float]:
    return [span.start_us for span in spans]


@by_identity(8)
def _window_of(step: ev.StepTimeline, chosen: str, cells: int) -> _Window:
    """Return the window of a choice; one object for equal choices."""
    start, end = 0.0, step.us
    if chosen:
        first, _, last = chosen.partition(":")
        if float(first) < step.us:
            start, end = float(first), min(float(last), step.us)
    return _Window(start, max(end, start + SMALLEST_US), cells)


class StepTimelineDocument(Parts):
    """The document of the view."""

    def __init__(
        self, snapshot: Snapshot, step: ev.StepTimeline, toggled: frozenset[str], width: int, *, printed: bool = False
    ) -> None:
        self._step = step
        self._where = places(snapshot.file)
        self._width = width
        self._label = max([cell_len(known.name) for known in step.rows] + [6]) + 2
        self._window = _window_of(step, choice_of(toggled, WINDOW), max(16, width - self._label - 2))
        self._at = float(choice_of(toggled, MARK) or _first_mark(step))
        self._cell = -1 if printed else self._window.cell(self._at)
        """The cell at the mark, -1 without one."""
        self._tracks: dict[int, _Track] = {}
        """Drawn rows by their index in the document."""
        self._listed: dict[int, ev.TimelineGap] = {}
        rows = [*self._picture()]
        rows += [] if printed else self._at_mark()
        rows += self._sums()
        rows += self._gap_list(len(rows))
        rows += [] if printed else self._other_steps(snapshot.step_timelines)
        super().__init__(f"{step.step} {_time(step.us)}", [fixed(rows)])

    # ---- the picture

    def _picture(self) -> Iterator[Row]:
        step, window = self._step, self._window
        yield row((f" {step.step}", "heading"), (f"  {_time(step.us)}", "strong"), f"  {_summary(step)}")
        keys = f"{hint('zoom-in')} {hint('zoom-out')} zoom · {hint('left')} {hint('right')} move · {hint('open')} line"
        part = ""
        if window.end - window.start < 0.999 * step.us:
            part = f" {_time(window.start)} to {_time(window.end)}, {_time(window.end - window.start)} of it ·"
        yield row((part, "strong"), (f" {keys}", "muted"), keys_only=True)
        drawn = 2
        for place in ("host", "device"):
            own = [known for known in step.rows if known.place == place]
            if not own:
                continue
            yield (
                self._ruler()
                if place == "host"
                else row((" device".ljust(self._label), "strong"), (step.device, "muted"))
            )
            drawn += 1
            for known in own:
                self._tracks[drawn] = _Track(known.name, known.spans, _cells_of(known.spans, window))
                yield self._track_row(self._tracks[drawn])
                drawn += 1
        if step.gaps:
            self._tracks[drawn] = _Track("gaps", step.gaps, _cells_of(step.gaps, window))
            yield self._track_row(self._tracks[drawn])

    def _ruler(self) -> Row:
        window, cells = self._window, [" "] * self._window.cells
        tick = _tick(window.end - window.start, max(1, window.cells // 10))
        at = -(-window.start // tick) * tick
        taken = -1
        while at < window.end:
            cell, text = window.cell(at), _tick_label(at, tick)
            if cell > taken and cell + len(text) + 1 <= window.cells:
                cells[cell : cell + len(text) + 1] = [*"╵", *text]
                taken = cell + len(text) + 1
            at += tick
        text = "".join(cells)
        label = (" host".ljust(self._label), "strong")
        if self._cell < 0:
            return row(label, (text, "dim"), no_wrap=True)
        head, tail = text[: self._cell], text[self._cell + 1 :]
        return row(label, (head, "dim"), (_MARKER, "key"), (tail, "dim"), no_wrap=True)

    def _track_row(self, track: _Track) -> Row:
        spans = _joined(_drawn(track))
        if self._cell < 0:
            return Row((Span(f" {track.name}".ljust(self._label), "muted"), *spans), no_wrap=True)
        spans = [*_marked(spans, self._cell)]
        thing = track.at(self._cell)
        links, location = _links(thing)
        lead = Span(f" {track.name}".ljust(self._label), "muted")
        text = _plain(self._described(track)) if thing is not None else ""
        return Row((lead, *spans), links, location, meaning=text, no_wrap=True)

    # ---- what is at the mark

    def _at_mark(self) -> Iterator[Row]:
        yield BLANK
        window = self._window
        begin = window.begin(self._cell)
        cell = f"a cell is {_time(window.cell_us)}"
        yield row((f" AT {_time(begin)}", "heading"), (f"  {cell}", "muted"))
        for track in self._tracks.values():
            thing = track.at(self._cell)
            if thing is None:
                continue
            links, location = _links(thing)
            spans = self._described(track)
            yield Row((Span(f" {track.name}".ljust(self._label), "muted"), *spans), links, location)
            if isinstance(thing, ev.TimelineGap):
                indent = self._label
                yield from wrapped(thing.reason, self._width, "muted", indent=indent, links=links, location=location)

    def _described(self, track: _Track) -> tuple[Span, ...]:
        """Return name, time, share, line and module of what a row has at the mark."""
        cell = track.cells[self._cell]
        thing = track.spans[cell.span]
        share = thing.us / self._step.us
        figures = f"  {_time(thing.us)} {share:.1%}"
        if isinstance(thing, ev.TimelineGap):
            name = Span(f"{LETTERS.get(thing.cause, '?')} {thing.cause}", "warn")
            place = f"  before {_place(self._where, thing.location)}" if thing.location else ""
            return (name, Span(figures), Span(place, "location"), *_others(cell))
        extra = [f"  {thing.op}"] if thing.op and thing.op != thing.name else []
        extra += [f"  {thing.modules[0]}"] if thing.modules and thing.kind != "module" else []
        extra += [f"  {thing.graph} {thing.phase}".rstrip()] if thing.graph else []
        line = f"  {_place(self._where, thing.source_lines[0])}" if thing.source_lines else ""
        rest = _others(cell)
        room = self._width - self._label - cell_len(figures) - cell_len(line) - sum(cell_len(s.text) for s in rest)
        name = Span(shortened(_name(thing), max(room, 16)), "strong")
        return (name, Span(figures), Span(line, "location"), *rest, Span("".join(extra), "muted"))

    # ---- sums and gaps

    def _sums(self) -> Iterator[Row]:
        step = self._step
        total = step.us - step.counted_from_us
        yield BLANK
        what = f"the device, from {_time(step.counted_from_us)} on" if step.counted_from_us else "the device"
        yield heading("Time of the step", what if step.device else "the host")
        columns: list[Column[ev.TimelinePart]] = [
            Column("", lambda part: LETTERS.get(part.kind, " "), style="warn", left=True),
            Column("", lambda part: part.kind, left=True),
            Column("time", lambda part: _time(part.us)),
            Column("share", lambda part: f"{part.us / total:.1%}" if total else ""),
            Column("times", lambda part: part.count or None),
            Column("", lambda part: Span(MEANINGS.get(part.kind, ""), "muted"), left=True),
        ]
        whole = ev.TimelinePart(kind="computing", us=sum(part.us for part in step.parts), count=0)
        listed = [*table(columns, step.parts)]
        yield from listed
        width = max((cell_len(part.kind) for part in step.parts), default=0)
        yield row((f"    {'total'.ljust(width)}  {_time(whole.us):>8}", "strong"))
        if step.left_out:
            text = f"{count(step.left_out, 'short span')}, {_time(step.left_out_us)} in all, are not drawn."
            yield from wrapped(text, self._width, "muted")

    def _gap_list(self, before: int) -> Iterator[Row]:
        if not self._step.gaps:
            return
        gaps = sorted(self._step.gaps, key=lambda gap: -gap.us)[:GAPS]
        yield BLANK
        yield heading("Longest gaps of the device", "" if self._cell < 0 else f"{hint('zoom-in')} zooms to one")
        index = before + 2
        for gap in gaps:
            links, location = _links(gap)
            line = f"  {_place(self._where, location)}" if location else ""
            lead = f" {LETTERS.get(gap.cause, '?')} {_time(gap.us):>8} {gap.us / self._step.us:>6.1%}  "
            at = f"at {_time(gap.start_us)}{line}: "
            room = max(self._width - cell_len(lead) - 2, 24)
            pieces = [*wrapped(at + gap.reason, room, indent=0)]
            for number, piece in enumerate(pieces):
                first = Span(lead, "strong") if not number else Span(" " * cell_len(lead))
                self._listed[index] = gap
                yield Row((first, *piece.spans), links, location, continued=bool(number))
                index += 1

    def _other_steps(self, steps: Sequence[ev.StepTimeline]) -> Iterator[Row]:
        if len(steps) < 2:
            return
        yield BLANK
        yield heading("Steps", "the median one is shown first")
        for known in sorted(steps, key=lambda known: known.step):
            shown = known is self._step
            text = f"{known.step}  {_time(known.us)}"
            yield row(
                (" ▾ " if shown else " ▸ ", "key"), (text, "strong" if shown else ""),
                (f"  {known.odd}" if known.odd else "", "changed"), fold=f"{STEP}={known.step}",
            )  # fmt: skip

    # ---- moves

    def steer(self, move: Move, by: int, index: int) -> tuple[str, ...]:
        """Return the choices after a zoom, or a move of the mark to the next thing in the row under the cursor."""
        if move == "zoom":
            return self._zoomed(by, self._listed.get(index))
        track = self._tracks.get(index) or next(reversed(self._tracks.values()), None)
        return self._moved(1 if by > 0 else -1, track) if track is not None else ()

    def _zoomed(self, by: int, gap: ev.TimelineGap | None) -> tuple[str, ...]:
        window, whole = self._window, self._step.us
        at, length = self._at, window.end - window.start
        if gap is not None and by > 0:
            at = gap.start_us + gap.us / 2
            return (self._choice(at - gap.us, max(2 * gap.us, SMALLEST_US)), f"{MARK}={at:.4f}")
        share = (at - window.start) / length
        length = min(max(length / 2 if by > 0 else length * 2, SMALLEST_US), whole)
        return (self._choice(at - share * length, length), f"{MARK}={at:.4f}")

    def _choice(self, start: float, length: float) -> str:
        start = min(max(start, 0.0), max(self._step.us - length, 0.0))
        return f"{WINDOW}={start:.4f}:{min(start + length, self._step.us):.4f}"

    def _moved(self, by: int, track: _Track) -> tuple[str, ...]:
        window, cell = self._window, self._cell
        here = track.cells[cell].span
        while 0 <= cell + by < window.cells:
            cell += by
            if track.cells[cell].span != here:
                return (f"{MARK}={window.begin(cell) + window.cell_us / 2:.4f}",)
        at = self._border(track, by)
        if at is None:
            return (f"{MARK}={window.begin(cell) + window.cell_us / 2:.4f}",)
        length = window.end - window.start
        return (self._choice(at - length / 2, length), f"{MARK}={at + by * window.cell_us / 2:.4f}")

    def _border(self, track: _Track, by: int) -> float | None:
        """Return where a span of a row begins or ends outside the window; None if none does."""
        window, starts = self._window, _starts(track.spans)
        if by > 0:
            index = bisect_right(starts, window.end)
            ends = [span.start_us + span.us for span in track.spans[max(0, index - 1) : index]]
            later = [at for at in (*ends, *starts[index : index + 1]) if at > window.end]
            return min(later) if later and min(later) < self._step.us - 1e-3 else None
        index = bisect_left(starts, window.start)
        spans = track.spans[max(0, index - 1) : index]
        earlier = [at for span in spans for at in (span.start_us, span.start_us + span.us) if at < window.start]
        return max(earlier) if earlier else None


def printed_timeline(snapshot: Snapshot, width: int) -> Iterator[Row]:
    """Yield the timeline for a printed report: without a mark and what is at it."""
    document = StepTimelineDocument(snapshot, snapshot.step_timelines[0], frozenset(), width, printed=True)
    yield from map(document.row, range(len(document)))


def step_timeline_document(snapshot: Snapshot, toggled: frozenset[str] = frozenset(), width: int = 78) -> Parts:
    """Return the document of the view."""
    steps = snapshot.step_timelines
    if not steps:
        reason = missing_reason(snapshot, ev.RunFact.TIMELINE)
        if reason and not snapshot.trace:
            return Parts("", [fixed(wrapped(f"There is no timeline of a step: {reason}", width, "muted"))])
        return Parts("", [empty_part(snapshot, width, EMPTY_TEXT, ev.RunFact.TIMELINE)])
    chosen = choice_of(toggled, STEP)
    step = next((known for known in steps if known.step == chosen), steps[0])
    return StepTimelineDocument(snapshot, step, toggled, width)


def _first_mark(step: ev.StepTimeline) -> float:
    """Return the middle of the longest gap, else of the longest part of the first row."""
    longest = max(step.gaps, key=lambda gap: gap.us, default=None)
    if longest is None and step.rows:
        longest = max(step.rows[0].spans, key=lambda span: span.us)  # type: ignore[assignment]
    return longest.start_us + longest.us / 2 if longest is not None else 0.0


def _links(thing: ev.TimelineSpan | ev.TimelineGap | None) -> tuple[tuple[Link, ...], ev.Location | None]:
    if thing is None:
        return (), None
    if isinstance(thing, ev.TimelineGap):
        return ((line_link(thing.location),) if thing.location else (), thing.location)
    links = tuple(map(line_link, thing.source_lines))
    if thing.kernel:
        links += (Link("kernel", f"{thing.graph}/{thing.phase}", thing.kernel),)
    return links, thing.source_lines[0] if thing.source_lines else None


def _summary(step: ev.StepTimeline) -> str:
    """Return `the device computes 24%, is host-bound 74%`: the parts with the most time."""
    total = sum(part.us for part in step.parts) or 1.0
    parts = sorted(step.parts, key=lambda part: -part.us)[:3]
    return ", ".join(f"{part.kind} {part.us / total:.0%}" for part in parts if part.us >= 0.01 * total)


def _place(where: Places, location: ev.Location) -> str:
    """Return `line 17`, `blocks.py:17` in another file."""
    short = where.abbreviate(location)
    return short if ":" in short else f"line {short}"


def _name(thing: ev.TimelineSpan) -> str:
    if thing.kind == "module":
        return thing.name.removeprefix("self.")
    return shorten_device_function(thing.name)


def _others(cell: _Cell) -> tuple[Span, ...]:
    return (Span(f"  and {cell.spans - 1} more", "muted"),) if cell.spans > 1 else ()


def _plain(spans: Iterable[Span]) -> str:
    return "".join(span.text for span in spans).strip()


def _time(us: float) -> str:
    return "0 µs" if us < 0.005 else duration(us / 1e6)


def _tick(length: float, most: int) -> float:
    """Return a round distance of at most so many ticks in a length."""
    power = 1e-2
    while True:
        for factor in (1, 2, 5):
            if length / (power * factor) <= most:
                return power * factor
        power *= 10


def _tick_label(at: float, tick: float) -> str:
    unit, scale = ("s", 1e6) if tick >= 1e5 else ("ms", 1e3) if tick >= 100 else ("µs", 1.0)
    decimals = 0 if tick / scale >= 1 else 1 if tick / scale >= 0.1 else 2
    return f"{at / scale:.{decimals}f} {unit}"


def _style(thing: ev.TimelineSpan | ev.TimelineGap, index: int) -> int:
    """Return the number of a color: of a phase and a task that of its kind; neighbors in a row may differ."""
    if isinstance(thing, ev.TimelineGap):
        return 1
    number = _COLORS[thing.kind]
    return (number + 8 * (index % 2)) % KERNELS if thing.kind in ("module",) else number


def _drawn(track: _Track) -> Iterator[tuple[str, str]]:
    """Yield a glyph and a style for each cell. The height of a bar is the share of the cell's time."""
    gaps = track.name == "gaps"
    at = 0
    cells = track.cells
    while at < len(cells):
        cell = cells[at]
        if cell.span < 0:
            yield " ", ""
            at += 1
            continue
        thing = track.spans[cell.span]
        if gaps:
            assert isinstance(thing, ev.TimelineGap), "the row of gaps has gaps"
            share = cell.busy
            yield (LETTERS.get(thing.cause, "?"), "warn") if share >= 0.5 else ("·" if share >= 0.1 else " ", "muted")
            at += 1
            continue
        end = at
        while end < len(cells) and cells[end].span == cell.span and cells[end].busy >= _FULL:
            end += 1
        number = _style(thing, cell.span)
        if end - at >= _LABEL:
            assert isinstance(thing, ev.TimelineSpan), "the other rows have spans"
            text = shortened(_name(thing), end - at)
            for glyph in text:
                yield glyph, f"label.{number}"
            for _ in range(end - at - len(text)):
                yield "█", f"kernel.{number}"
            at = end
            continue
        yield _HEIGHTS[min(7, max(0, round(cell.busy * 8) - 1))], f"kernel.{number}"
        at += 1


def _joined(cells: Iterable[tuple[str, str]]) -> list[Span]:
    spans: list[Span] = []
    for glyph, style in cells:
        if spans and spans[-1].style == style:
            spans[-1] = Span(spans[-1].text + glyph, style)
        else:
            spans.append(Span(glyph, style))
    return spans


def _marked(spans: Sequence[Span], cell: int) -> Iterator[Span]:
    """Yield the spans with the cell at the mark in another style."""
    at = 0
    for text, style in spans:
        here = cell - at
        if 0 <= here < len(text):
            if here:
                yield Span(text[:here], style)
            yield Span(text[here], "match.current")
            if text[here + 1 :]:
                yield Span(text[here + 1 :], style)
        else:
            yield Span(text, style)
        at += len(text)
