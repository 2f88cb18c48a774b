"""The matrix of modes and backends as a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TextIO

from rich.console import Console, RenderableType
from rich.text import Text

from tcexplore import events as ev
from tcexplore.documents.configurations import DYNAMIC, describe_configuration
from tcexplore.documents.locations import display_path
from tcexplore.documents.timing.accuracy_rows import format_error
from tcexplore.documents.verdict_marks import LEGEND, format_speedup
from tcexplore.quantities import count, duration, size
from tcexplore.report.text.layout import indented
from tcexplore.report.text.results import STYLES
from tcexplore.report.text.table import print_table
from tcexplore.report.text.verdict import VERDICTS
from tcexplore.session.run_figures import RunFigures
from tcexplore.studies.modes.modes_text import FAILED, conclusions, eager_peak

HEAD = (
    "backend", "mode", "dynamic", "compile", "first call", "eager", "compiled", "speed-up", "95 % interval", "peak",
    "off by", "breaks", "graphs", "kernels",
)  # fmt: skip


def print_matrix(
    cells: Sequence[RunFigures], machine: ev.Standby | None, *, stopped: bool = False, stream: TextIO | None = None
) -> None:
    """Print a row for each cell, below them what follows and what could not be run."""
    good = [cell for cell in cells if not cell.failure]
    console = Console(file=stream, markup=False, emoji=False, highlight=False)
    if cells:
        on = f" · torch {machine.torch} · {machine.device}" if machine else ""
        console.print(Text(f"{display_path(cells[0].run.file)}{on}", "bold"), soft_wrap=True)
    if good:
        print_table(console, HEAD, [_row(cell) for cell in good], left=3)
    below = [*_below(cells, good), *([_stopped(cells)] if stopped else [])]
    if below:
        console.print(*below, sep="\n")


def _row(cell: RunFigures) -> list[str | Text]:
    config, timing, summary = cell.run.config, cell.run.timing, cell.summary
    accuracy = cell.run.accuracy
    off = "" if cell.max_abs is None else format_error(cell.max_abs)
    return [
        config.backend, config.mode, DYNAMIC[config.dynamic],
        _seconds(cell.compile_s), _seconds(cell.first_call_s),
        _seconds(timing.eager_us / 1e6 if timing else None),
        _seconds(timing.compiled_us / 1e6 if timing else None),
        Text(format_speedup(timing), VERDICTS.get(timing.verdict, "")) if timing else "",
        f"[{timing.low:.2f}, {timing.high:.2f}]" if timing else "",
        "" if cell.peak_bytes is None else size(cell.peak_bytes),
        Text(off, STYLES.get(accuracy.verdict, "yellow")) if accuracy else "",
        str(summary.breaks), str(summary.graphs), _kernels(summary.kernels, summary.extern),
    ]  # fmt: skip


def _kernels(own: int, extern: int) -> str:
    return f"{own}+{extern}" if extern else str(own)


def _seconds(seconds: float | None) -> str:
    return "" if seconds is None else duration(seconds)


def _below(cells: Sequence[RunFigures], good: Sequence[RunFigures]) -> Iterator[RenderableType]:
    if good:
        yield indented(" · ".join(filter(None, [LEGEND, "kernels: own+extern", eager_peak(good)])), "dim", by=0)
        yield Text()
    for line in conclusions(cells):
        yield indented(line, "bold red" if line.startswith(FAILED) else "bold", by=0)
    for cell in cells:
        if cell.failure:
            yield indented(
                Text.assemble((FAILED, "red"), (describe_configuration(cell.run.config), "bold"), f": {cell.failure}"),
                by=0,
            )


def _stopped(cells: Sequence[RunFigures]) -> RenderableType:
    return indented(f"stopped after {count(len(cells), 'run')}", "yellow", by=0)
