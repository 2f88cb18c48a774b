"""What became of each line of the user's files: FX nodes, kernels, graph breaks, guards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tcexplore import events as ev
from tcexplore.documents.document import Span
from tcexplore.documents.labels import KernelLabel, Labels, labels
from tcexplore.documents.memo import by_identity
from tcexplore.quantities import count, size
from tcexplore.session import Snapshot
from tcexplore.session.line_traffic import Line, LineTraffic, Traffic, line_traffic
from tcexplore.session.links import Link, break_link, guard_link

BARS = "▁▂▃▄▅▆▇█"
"""An eighth of all that the run's kernels move, two eighths, ..."""

_heat = by_identity(2)(line_traffic)


class LineFacts:
    """By line: how many `nodes` of the Dynamo graphs came from it, how many from what it calls in the user's files
    (`below`), its `breaks`, `guards` and skipped frames."""

    def __init__(
        self,
        graphs: tuple[ev.GraphCaptured, ...],
        breaks: tuple[ev.GraphBreak, ...],
        guards: tuple[ev.GuardsInstalled, ...],
        skipped: tuple[ev.FrameSkipped, ...],
        known: Labels,
    ) -> None:
        ops = [node for graph in graphs for node in graph.nodes if _computes(node)]
        self.nodes = Counter(_line(node.location) for node in ops if node.location)
        self.below = Counter(line for node in ops for line in set(map(_line, node.stack[:-1])))
        self.breaks: dict[Line, list[ev.GraphBreak]] = {}
        self.guards: dict[Line, list[Link]] = {}
        self.skipped: dict[Line, ev.FrameSkipped] = {_line(s.frame): s for s in skipped}
        self._labels = known
        for graph_break in breaks:
            if graph_break.location is not None:
                self.breaks.setdefault(_line(graph_break.location), []).append(graph_break)
        for installed in guards:
            for guard in installed.guards:
                if guard.location is not None and not guard.structural:
                    self.guards.setdefault(_line(guard.location), []).append(guard_link(installed.graph, guard))

    def first(self, file: str) -> int | None:
        """The line to look at first: the first graph break of a file, else the first line with FX nodes."""
        for links in (self.breaks, self.nodes):
            if lines := [line for name, line in links if name == file]:
                return min(lines)
        return None

    def kernels(self, line: Line) -> list[KernelLabel]:
        """The kernels that the line takes part in."""
        return self._labels.of_line.get(line, [])

    def links(self, line: Line) -> tuple[Link, ...]:
        """What enter follows from the line: its breaks, kernels and guards."""
        links = [break_link(b) for b in self.breaks.get(line, ())]
        return (*links, *(label.link for label in self.kernels(line)), *self.guards.get(line, ()))

    def lines(self, file: str) -> list[int]:
        """The lines of a file that anything is known of, in order."""
        known = {*self.nodes, *self.below, *self.breaks, *self.guards, *self.skipped, *self._labels.of_line}
        return sorted(line for name, line in known if name == file)

    def files(self) -> list[str]:
        """The files that anything is known of, in order."""
        return sorted({name for name, _ in {*self.nodes, *self.breaks, *self.skipped, *self._labels.of_line}})


def _line(location: ev.Location) -> Line:
    return location.file, location.line


def _computes(node: ev.FxNode) -> bool:
    return node.op not in ("placeholder", "output")


_facts = by_identity(2)(LineFacts)


def line_facts(snapshot: Snapshot) -> LineFacts:
    """The facts of a run, made once for each state of what they rest on."""
    return _facts(snapshot.graphs, snapshot.breaks, snapshot.guards, snapshot.skipped_frames, labels(snapshot))


def read_lines(snapshot: Snapshot, file: str) -> dict[int, str]:
    """By number, the lines of a file: whole where it was read, else those that a break or a guard quotes."""
    if file == snapshot.file:
        return dict(enumerate(snapshot.source.split("\n"), 1))
    read = next((source.text for source in snapshot.sources if source.file == file), None)
    return _quoted(snapshot, file) if read is None else dict(enumerate(read.splitlines(), 1))


def _quoted(snapshot: Snapshot, file: str) -> dict[int, str]:
    """The text of lines that a break or a guard quotes."""
    breaks = ((graph_break.location, graph_break.code) for graph_break in snapshot.breaks)
    guards = ((guard.location, guard.user_code) for installed in snapshot.guards for guard in installed.guards)
    return {at.line: text for at, text in (*breaks, *guards) if at and at.file == file and text}


def hot(snapshot: Snapshot) -> Traffic:
    """The heat of a run's lines, made once for each state of its kernels."""
    return _heat(snapshot.code.kernels)


OUTSIDE = "∅"
"""The line ran, and no kernel has anything of it."""


def bar(traffic: Traffic, line: Line, *, ran_outside: bool) -> Iterator[Span]:
    """One cell for a line, in every line of a file as soon as the sizes of any kernel are known."""
    if not traffic.bytes:
        return
    known = traffic.lines.get(line)
    if known is None or not known.bytes:
        yield Span(OUTSIDE, "muted") if ran_outside and known is None else Span(" ")
        return
    step = min(int(known.share * len(BARS)), len(BARS) - 1)
    yield Span(BARS[step], "extern" if known.extern else "warn")


def words(traffic: LineTraffic) -> str:
    """`in kernels that move 2.1 MiB (43 %)`; never as if those bytes were the line's own."""
    kind = "extern kernels" if traffic.extern else "kernels"
    known = f"in {kind} that move {size(traffic.bytes)} ({traffic.share:.0%})" if traffic.bytes else f"in {kind}"
    return f"{known}, {count(traffic.unknown, 'call')} of unknown size" if traffic.unknown else known
