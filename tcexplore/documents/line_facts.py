"""Facts about each source line: FX nodes, kernels, guards, time, memory traffic, and where the graph breaks in it."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import lru_cache

from tcexplore import events as ev
from tcexplore.documents.document import Span, by_identity
from tcexplore.documents.labels import KernelLabel, Labels, labels
from tcexplore.events.python_source import without_comment
from tcexplore.quantities import count, duration, size
from tcexplore.session import Snapshot
from tcexplore.session.kernel_facts import idle_graphs
from tcexplore.session.line_times import (
    Line,
    LineShare,
    LineTimes,
    LineTraffic,
    PartLine,
    TimedSpan,
    Traffic,
    line_shares,
    line_times,
    line_traffic,
    lines_of_parts,
    times_outside,
)
from tcexplore.session.links import Link, break_link, guard_link
from tcexplore.session.ranked_breaks import RankedBreak
from tcexplore.targets.target_names import NATIVE

BARS = "▁▂▃▄▅▆▇█"
"""Bars for shares of a call, or of the run's memory traffic, in eighths."""

LEAST_SHARE = 0.01
"""Share of a call below which the time of a line is not given."""

_heat = by_identity(2)(line_traffic)
_times = by_identity(2)(line_times)
_outside = by_identity(2)(times_outside)
_parts = by_identity(2)(lines_of_parts)
_shares = by_identity(2)(line_shares)


class LineFacts:
    """Facts by line: the number of Dynamo `nodes`, of nodes in the functions it calls (`below`), its `breaks`, `guards`
    and skipped frames."""

    def __init__(
        self,
        graphs: tuple[ev.GraphCaptured, ...],
        breaks: tuple[ev.GraphBreak, ...],
        guards: tuple[ev.GuardsInstalled, ...],
        skipped: tuple[ev.FrameSkipped, ...],
        known: Labels,
        idle: tuple[str, ...],
    ) -> None:
        ops = [node for graph in graphs for node in graph.all_nodes if _computes(node)]
        self.nodes = Counter(_line(node.location) for node in ops if node.location)
        self._order: dict[Line, int] = {}
        """Number of each line in the order of execution, callers first."""
        for node in ops:
            for at in node.stack:
                self._order.setdefault(_line(at), len(self._order))
        self._files: dict[str, int] = {}
        for file, _ in self._order:
            self._files.setdefault(file, len(self._files))
        self.below = Counter(line for node in ops for line in set(map(_line, node.stack[:-1])))
        self.breaks: dict[Line, list[ev.GraphBreak]] = {}
        self.guards: dict[Line, list[Link]] = {}
        self.skipped: dict[Line, ev.FrameSkipped] = {_line(s.frame): s for s in skipped}
        self._labels = known
        self._idle = frozenset(idle)
        for graph_break in breaks:
            if graph_break.location is not None:
                self.breaks.setdefault(_line(graph_break.location), []).append(graph_break)
        self.structural_guards: Counter[Line] = Counter()
        for installed in guards:
            for guard in installed.guards:
                if guard.location is not None and guard.structural:
                    self.structural_guards[_line(guard.location)] += 1
                elif guard.location is not None:
                    self.guards.setdefault(_line(guard.location), []).append(guard_link(installed.graph, guard))

    def place(self, file: str, lines: Iterable[int]) -> tuple[int, int]:
        """Return the place of lines in the order of execution: of the first that runs, else after all others."""
        known = [at for line in lines if (at := self._order.get((file, line))) is not None]
        return min(known, default=len(self._order)), 0 if known else min(lines, default=0)

    def place_of_file(self, file: str) -> tuple[int, str]:
        """Return the place of a file in the order of execution, by name after the others if it only has guards."""
        return self._files.get(file, len(self._files)), file

    def first(self, file: str) -> int | None:
        """Return the line to open at: the first graph break of a file, else the first line with FX nodes."""
        for links in (self.breaks, self.nodes):
            if lines := [line for name, line in links if name == file]:
                return min(lines)
        return None

    def kernels(self, line: Line) -> list[KernelLabel]:
        """Return the kernels of a line, those of graphs that the measured call runs first."""
        kernels = self._labels.of_line.get(line, [])
        return sorted(kernels, key=lambda label: label.link.where.rpartition("/")[0] in self._idle)

    def links(self, line: Line) -> tuple[Link, ...]:
        """Return the links of a line: its breaks, kernels and guards."""
        links = [break_link(b) for b in self.breaks.get(line, ())]
        return (*links, *(label.link for label in self.kernels(line)), *self.guards.get(line, ()))

    def lines(self, file: str) -> list[int]:
        """Return the lines of a file with known facts, in order."""
        known = {*self.nodes, *self.below, *self.breaks, *self.guards, *self.skipped, *self._labels.of_line}
        return sorted(line for name, line in known if name == file)

    def files(self) -> list[str]:
        """Return the files with known facts, in order."""
        return sorted({name for name, _ in {*self.nodes, *self.breaks, *self.skipped, *self._labels.of_line}})


def count_guards(readable: int, structural: int) -> str:
    """Return `3 guards and 2 structural ones`; the gutter marks a line only for the first ones."""
    if not readable and structural:
        return count(structural, "structural guard")
    others = f" and {count(structural, 'structural one')}" if structural else ""
    return f"{count(readable, 'guard')}{others}"


def _line(location: ev.Location) -> Line:
    return location.file, location.line


def _computes(node: ev.FxNode) -> bool:
    return node.op not in ("placeholder", "output")


_facts = by_identity(2)(LineFacts)


def line_facts(snapshot: Snapshot) -> LineFacts:
    """Return the facts of a run, cached."""
    return _facts(
        snapshot.graphs, snapshot.breaks, snapshot.guards, snapshot.skipped_frames, labels(snapshot),
        idle_graphs(snapshot),
    )  # fmt: skip


def read_lines(snapshot: Snapshot, file: str) -> dict[int, str]:
    """Return the lines of a file by number: all if it was read, else those that breaks and guards quote."""
    if file == snapshot.file:
        return dict(enumerate(snapshot.source.split("\n"), 1))
    read = next((source.text for source in snapshot.sources if source.file == file), None)
    return _quoted(snapshot, file) if read is None else dict(enumerate(read.splitlines(), 1))


def _quoted(snapshot: Snapshot, file: str) -> dict[int, str]:
    """Return the lines that breaks and guards quote."""
    breaks = ((graph_break.location, graph_break.code) for graph_break in snapshot.breaks)
    guards = ((guard.location, guard.user_code) for installed in snapshot.guards for guard in installed.guards)
    return {at.line: text for at, text in (*breaks, *guards) if at and at.file == file and text}


def lines_by_definition(text: str, lines: Iterable[int]) -> dict[str, list[int]]:
    """Return lines by the class or function of the file that contains them; empty text for others."""
    spans = _definitions(text)
    found: dict[str, list[int]] = {}
    for line in lines:
        name = next((name for name, first, last in spans if first <= line <= last), "")
        found.setdefault(name, []).append(line)
    return found


@lru_cache(64)
def _definitions(text: str) -> tuple[tuple[str, int, int], ...]:
    """Return name, first and last line of each class and function of a file; empty if it is no Python."""
    try:
        body = ast.parse(text).body
    except (SyntaxError, ValueError):
        return ()
    return tuple(
        (each.name if isinstance(each, ast.ClassDef) else f"{each.name}()", each.lineno, each.end_lineno or each.lineno)
        for each in body
        if isinstance(each, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
    )


def hot(snapshot: Snapshot) -> Traffic:
    """Return the memory traffic of the lines of a run, cached."""
    return _heat(snapshot.code.kernels)


def times_of_lines(snapshot: Snapshot) -> LineTimes | None:
    """Return the time of each line of a run, cached; None if it was not measured."""
    lines = snapshot.eager_lines
    if lines is not None and lines is snapshot.step_lines:
        return _times(None, lines, snapshot.timing, (), "step")
    return _times(snapshot.call_account, lines, snapshot.call_timing, parts_by_line(snapshot), "call")


def times_outside_call(snapshot: Snapshot) -> LineTimes | None:
    """Return the lines of an eager step of a script that are not in the captured call, cached; None if unknown."""
    times = times_of_lines(snapshot)
    if times is None or times.of == "step":
        return None
    return _outside(snapshot.step_lines, snapshot.timing, times)


def parts_by_line(snapshot: Snapshot) -> tuple[PartLine, ...]:
    """Return the parts of the compiled call, split over their lines, cached; empty if it was not profiled."""
    code = snapshot.code_for(NATIVE)
    return _parts(snapshot.call_account, snapshot.eager_lines, code.kernels, code.aten_graphs, snapshot.graphs)


def shares_of_lines(snapshot: Snapshot) -> dict[Line, LineShare]:
    """Return the share of each line in a call, of others in a script's step, cached; empty if it was not measured."""
    return _shares(times_of_lines(snapshot), times_outside_call(snapshot))


def span_of_bars(snapshot: Snapshot) -> TimedSpan | None:
    """Return what the bars of lines are shares of; None if no line is timed.

    Lines outside captured calls have no bar beside those of a call: their shares are of an eager step.
    """
    times = times_of_lines(snapshot)
    return None if times is None else times.of


OUTSIDE = "∅"
"""Mark of a line that ran without any kernel."""


class LineBars:
    """Bars of the lines of a run: their shares of a call, of a script's step until a call is measured; before of the
    memory traffic."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.traffic = hot(snapshot)
        self.shares = shares_of_lines(snapshot)
        self._of = span_of_bars(snapshot)
        self._reserved = bool(self.traffic.bytes or self.shares or snapshot.graphs)

    def bar(self, line: Line, *, ran_outside: bool) -> Iterator[Span]:
        """Yield the bar of a line. It takes one cell in each line from the first graph on."""
        if not self._reserved:
            return
        traffic = self.traffic.lines.get(line)
        time = self.shares.get(line)
        if time is not None and time.of == self._of:
            yield Span(draw_share(time.share), "number")
        elif ran_outside and traffic is None:
            yield Span(OUTSIDE if self.traffic.bytes else " ", "muted")
        elif self.shares or traffic is None or not traffic.bytes:
            yield Span(" ")
        else:
            yield Span(draw_share(traffic.share), "extern" if traffic.extern else "warn")


def draw_share(share: float) -> str:
    """Return the bar of a share."""
    return BARS[min(int(share * len(BARS)), len(BARS) - 1)]


def describe_time(time: LineShare) -> str:
    """Return `41% of a call, 1.2 ms`; of a line outside captured calls `12% of an eager step, 3.1 ms`."""
    of = "an eager step" if time.of == "step" else "a call"
    if time.share < LEAST_SHARE:
        return f"<{LEAST_SHARE:.0%} of {of}"
    return f"{'≈ ' if time.estimated else ''}{time.share:.0%} of {of}, {duration(time.us / 1e6)}"


def is_share_of_forward(costed: RankedBreak, snapshot: Snapshot) -> bool:
    """Return whether the cost of a break was measured in a call without its backward, of a program that trains."""
    return snapshot.call_timing is not None and snapshot.call_timing.train and costed.basis != "verified fix"


def format_cost_briefly(costed: RankedBreak, snapshot: Snapshot) -> str:
    """Return `≥64 µs 16%`, with a timed fix `164 µs 40%` or `cost undecided`; empty if unknown.

    A share of a forward is left out: beside the times of calls, it would be taken for one of a call.
    """
    if costed.us is None or costed.share is None:
        return ""
    if costed.is_undecided:
        return "cost undecided"
    if costed.contradicted or (costed.high_us is None and costed.is_too_short):
        return "cost unclear"
    at_least = "≥" if costed.high_us is None else ""
    share = "" if is_share_of_forward(costed, snapshot) else f" {format_share(costed.share)}"
    return f"{at_least}{duration(costed.us / 1e6)}{share}"


def format_share(share: float) -> str:
    """Return `12%`, or `<1%`."""
    return "<1%" if abs(share) < 0.01 else f"{share * 100:.0f}%"


def describe_traffic(traffic: LineTraffic) -> str:
    """Return `in kernels that move 2.1 MiB (43%)`: the bytes are those of the kernels, not of the line."""
    kind = "extern kernels" if traffic.extern else "kernels"
    known = f"in {kind} that move {size(traffic.bytes)} ({traffic.share:.0%})" if traffic.bytes else f"in {kind}"
    return f"{known}, {count(traffic.unknown, 'call')} of unknown size" if traffic.unknown else known


_NAME = re.compile(r"[A-Za-z_]\w*")


def break_place(graph_break: ev.GraphBreak, line: str) -> tuple[int, int]:
    """Return the first and last character of the call or keyword that breaks the graph, else of the whole statement.

    Torch gives a line and a context such as `method: item`; the last name of it that the line calls is the place.
    """
    names = [*_NAME.findall(graph_break.context), *_NAME.findall(graph_break.reason), *_NAME.findall(graph_break.kind)]
    for name in reversed(dict.fromkeys(names)):
        if call := re.search(rf"\.?\b{name}\s*\(", line):
            return call.start(), _closing(line, call.end())
    start = len(line) - len(line.lstrip())
    return start, max(start, len(without_comment(line)))


def _closing(line: str, start: int) -> int:
    """Return the place after the bracket that closes the one before `start`, or after the last one of the line."""
    depth = 1
    for at in range(start, len(line)):
        depth += (line[at] in "([{") - (line[at] in ")]}")
        if not depth:
            return at + 1
    return len(line.rstrip())


def broken_expression(graph_break: ev.GraphBreak) -> str:
    """Return the call or keyword that breaks the graph, such as `.item()`."""
    start, end = break_place(graph_break, graph_break.code)
    return graph_break.code[start:end]


MOST_LINES = 4
"""Lines of a fix that are shown where it is summarized."""


def lines_of_fix(fix: ev.BreakFix) -> list[str]:
    """Return the first lines that a fix adds or changes, and how many more there are."""
    lines = fix.code.splitlines()
    if len(lines) <= MOST_LINES:
        return lines
    return [*lines[: MOST_LINES - 1], f"… {len(lines) - MOST_LINES + 1} more lines"]
