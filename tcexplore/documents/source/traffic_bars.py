"""A line's share of the memory traffic, as a bar and in words."""

from __future__ import annotations

from collections.abc import Iterator

from tcexplore.documents.document import Span
from tcexplore.documents.memo import by_identity
from tcexplore.quantities import count, size
from tcexplore.session import Snapshot
from tcexplore.session.line_traffic import Heat, Line, LineHeat, heat

BARS = "▁▂▃▄▅▆▇█"
"""An eighth of all that the run's kernels move, two eighths, ..."""

_heat = by_identity(2)(heat)


def hot(snapshot: Snapshot) -> Heat:
    """The heat of a run's lines, made once for each state of its kernels."""
    return _heat(snapshot.code.kernels)


OUTSIDE = "∅"
"""The line ran, and no kernel has anything of it."""


def bar(found: Heat, line: Line, *, ran_outside: bool) -> Iterator[Span]:
    """One cell for a line, in every line of a file as soon as the sizes of any kernel are known."""
    if not found.bytes:
        return
    known = found.lines.get(line)
    if known is None or not known.bytes:
        yield Span(OUTSIDE, "muted") if ran_outside and known is None else Span(" ")
        return
    step = min(int(known.share * len(BARS)), len(BARS) - 1)
    yield Span(BARS[step], "extern" if known.extern else "warn")


def words(found: LineHeat) -> str:
    """`in kernels that move 2.1 MiB (43 %)`; never as if those bytes were the line's own."""
    what = "extern kernels" if found.extern else "kernels"
    known = f"in {what} that move {size(found.bytes)} ({found.share:.0%})" if found.bytes else f"in {what}"
    return f"{known}, {count(found.unknown, 'call')} of unknown size" if found.unknown else known
