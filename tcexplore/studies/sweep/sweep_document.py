"""A sweep over sizes: a row for each size from the start, bars of the speed-ups, and what follows."""

from __future__ import annotations

from collections.abc import Iterator

from tcexplore.documents.columns import Cell, columns
from tcexplore.documents.document import Row, Span
from tcexplore.documents.document_parts import StaticDocument
from tcexplore.documents.prose import BLANK, heading, row, wrapped
from tcexplore.documents.verdict_marks import LEGEND, format_speedup
from tcexplore.events import Config
from tcexplore.quantities import duration
from tcexplore.session.run_figures import RunFigures
from tcexplore.studies.sweep.sweep_result import DYNAMIC, STATIC, WALKS, Sweep
from tcexplore.studies.sweep.sweep_text import BAR, FAILED, bar, conclusions, longest

HEAD = (
    "size", "eager", "static", "speed-up", "95 % interval", "dynamic", "speed-up", "95 % interval", "compiled anew",
)  # fmt: skip

INTERVALS = (4, 7)
WIDE = 100
"""Columns from which on there is room for the intervals."""

STYLES = {"faster": "faster", "slower": "slower", "no difference": "strong"}


def sweep(swept: Sweep, under_way: Config | None, width: int = 78) -> StaticDocument:
    """The document; `under_way` is the configuration of the step that runs."""
    rows = [_row(swept, size, under_way) for size in swept.sizes]
    title = row((f" dimension {swept.dim}", "heading"), ("  each size compiled by itself, eager beside it", "muted"))
    kept = [index for index in range(len(HEAD)) if width >= WIDE or index not in INTERVALS]
    fitted = [[shown[index] for index in kept] for shown in rows]
    table = columns([HEAD[index] for index in kept], fitted, [()] * len(rows), left=(len(kept) - 1,))
    return StaticDocument("", (title, *table, *_follows(swept, width), *_plot(swept, width)))


def _row(swept: Sweep, size: int, under_way: Config | None) -> list[Cell]:
    static, dynamic = swept.at(STATIC, size), swept.at(DYNAMIC, size)
    timing = next((cell.run.timing for cell in (static, dynamic) if cell and cell.run.timing), None)
    anew = ", ".join(form for form in WALKS if size in swept.compiled_at(form))
    eager = duration(timing.eager_us / 1e6) if timing else ""
    running = under_way.dynamic if under_way is not None and under_way.sizes == (size,) else None
    return [
        (Span(str(size), "strong"),), (Span(eager),),
        *_figures(static, running=running is False), *_figures(dynamic, running=running is True),
        (Span(anew, "recompile"),),
    ]  # fmt: skip


def _figures(cell: RunFigures | None, *, running: bool) -> tuple[Cell, Cell, Cell]:
    if cell is None:
        return (Span("◐", "running") if running else Span("·", "dim"),), (), ()
    timing = cell.run.timing
    if timing is None:
        return (Span("✖ failed", "error") if cell.failure else Span("not timed", "muted"),), (), ()
    speedup = Span(format_speedup(timing), STYLES.get(timing.verdict, "muted"))
    return (
        (Span(duration(timing.compiled_us / 1e6)),),
        (speedup,),
        (Span(f"[{timing.low:.2f}, {timing.high:.2f}]", "interval"),),
    )


def _plot(swept: Sweep, width: int) -> Iterator[Row]:
    found = {
        (size, form): cell.run.timing
        for size in swept.sizes
        for form in (STATIC, DYNAMIC)
        if (cell := swept.at(form, size)) and cell.run.timing
    }
    if not found:
        return
    scale = longest(found.values())
    wide = max(len(str(size)) for size in swept.sizes)
    room = max(10, min(BAR, width - wide - 24))
    yield BLANK
    yield heading("Speed-up over eager", "the line is 1×")
    yield from wrapped(LEGEND, width, "muted")
    for (size, form), timing in found.items():
        name = str(size) if form == STATIC or (size, STATIC) not in found else ""
        style = STYLES.get(timing.verdict, "muted")
        drawn = (bar(timing, scale, room), style)
        yield row(
            (f" {name:>{wide}}", "strong"), (f"  {form:<7}  ", "muted"), drawn, (f"  {format_speedup(timing)}", style)
        )


def _follows(swept: Sweep, width: int) -> Iterator[Row]:
    for index, said in enumerate(conclusions(swept)):
        if not index:
            yield BLANK
        yield from wrapped(said, width, "error" if said.startswith(FAILED) else "strong")
