"""A sweep as a table and a plot."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TextIO

from rich.console import Console, RenderableType
from rich.text import Text

from tcexplore import events as ev
from tcexplore.documents.locations import display_path
from tcexplore.documents.verdict_marks import LEGEND, format_speedup
from tcexplore.quantities import count, duration
from tcexplore.report.text.layout import indented
from tcexplore.report.text.table import print_table
from tcexplore.report.text.verdict import VERDICTS
from tcexplore.session.run_figures import RunFigures
from tcexplore.studies.sweep.sweep_result import DYNAMIC, STATIC, WALKS, Sweep
from tcexplore.studies.sweep.sweep_text import FAILED, bar, conclusions, longest

HEAD = (
    "size", "eager", "static", "speed-up", "95 % interval", "dynamic", "speed-up", "95 % interval", "compiled anew",
)  # fmt: skip


def print_sweep(
    swept: Sweep, machine: ev.Standby | None, *, stopped: bool = False, stream: TextIO | None = None
) -> None:
    """Print a row for each size, bars of the speed-ups, and what follows from them."""
    console = Console(file=stream, markup=False, emoji=False, highlight=False)
    if not swept.steps:
        console.print(Text("stopped before the first run was done", "yellow"))
        return
    on = f" · torch {machine.torch} · {machine.device}" if machine else ""
    title = f"{display_path(swept.steps[0].cell.run.file)} · dimension {swept.dim}{on}"
    console.print(Text(title, "bold"), soft_wrap=True)
    print_table(console, HEAD, [_row(swept, size) for size in swept.sizes])
    if bars := list(_bars(swept)):
        console.print(Text(), Text(f"speed-up over eager; the line is 1×; {LEGEND}", "dim"), *bars, sep="\n")
    console.print(Text(), *(_conclusion(line) for line in conclusions(swept)), sep="\n")
    if stopped:
        console.print(Text(f"stopped after {count(len(swept.steps), 'run')}", "yellow"))


def _conclusion(line: str) -> RenderableType:
    return indented(line, "bold red" if line.startswith(FAILED) else "bold", by=0)


def _row(swept: Sweep, size: int) -> list[str | Text]:
    static, dynamic = swept.at(STATIC, size), swept.at(DYNAMIC, size)
    timing = next((cell.run.timing for cell in (static, dynamic) if cell and cell.run.timing), None)
    anew = [form for form in WALKS if size in swept.compiled_at(form)]
    eager = duration(timing.eager_us / 1e6) if timing else ""
    return [str(size), eager, *_figures(static), *_figures(dynamic), ", ".join(anew)]


def _figures(cell: RunFigures | None) -> tuple[str | Text, str | Text, str]:
    if cell is None:
        return "", "", ""
    timing = cell.run.timing
    if timing is None:
        return Text("failed" if cell.failure else "not timed", "red" if cell.failure else "dim"), "", ""
    speedup = Text(format_speedup(timing), VERDICTS.get(timing.verdict, ""))
    return duration(timing.compiled_us / 1e6), speedup, f"[{timing.low:.2f}, {timing.high:.2f}]"


def _bars(swept: Sweep) -> Iterator[Text]:
    found = {
        (size, form): cell.run.timing
        for size in swept.sizes
        for form in (STATIC, DYNAMIC)
        if (cell := swept.at(form, size)) and cell.run.timing
    }
    scale = longest(found.values())
    wide = max(len(str(size)) for size in swept.sizes)
    for (size, form), timing in found.items():
        name = str(size) if form == STATIC or (size, STATIC) not in found else ""
        drawn = f"{bar(timing, scale)}  {format_speedup(timing)}"
        yield Text.assemble(f"{name:>{wide}}  {form:<7}  ", (drawn, VERDICTS.get(timing.verdict, "")))
