"""The ladder, rung by rung, and the layer to blame."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TextIO

from rich.console import Console, RenderableType
from rich.text import Text

from tcexplore import events as ev
from tcexplore.documents.locations import at, display_path
from tcexplore.documents.timing.accuracy_rows import describe_accuracy, format_errors
from tcexplore.report.text.layout import columns, indented, labelled
from tcexplore.studies.bisect.bisect_result import EAGER, BisectStep, culprit
from tcexplore.studies.bisect.bisect_text import unjudged, verdict


def print_blame(
    steps: Sequence[BisectStep], machine: ev.Standby | None, *, written: str = "", stopped: bool = False,
    stream: TextIO | None = None,
) -> None:  # fmt: skip
    """Print each rung with what it adds, then the verdict."""
    console = Console(file=stream, markup=False, emoji=False, highlight=False)
    if steps:
        on = f" · torch {machine.torch} · {machine.device}" if machine else ""
        console.print(Text(f"{display_path(steps[0].run.file)}{on}", "bold"), *columns(map(_row, steps)), sep="\n")
    console.print(*_verdict(steps, stopped), sep="\n")
    if written:
        console.print(indented(f"reproducer: python {written.rstrip('/')}/repro.py", by=0))


def _row(step: BisectStep) -> tuple[Text, Text, Text]:
    mark, style = ("✖", "bold red") if step.fails else ("✔", "green")
    with_ = step.rung.backend or "eager"
    return Text(mark, style), Text(step.rung.layer), Text(f"{with_}: {step.rung.adds}", "dim")


def _verdict(steps: Sequence[BisectStep], stopped: bool) -> Iterable[RenderableType]:
    guilty = culprit(tuple(steps))
    if guilty is None and stopped:
        yield indented("stopped before the last rung", "yellow", by=0)
    else:
        yield indented(verdict(steps), "bold red" if guilty else "bold", by=0)
    if said := unjudged(steps):
        yield indented(said, "yellow", by=0)
    if guilty is not None:
        yield from _why(guilty)


def _why(guilty: BisectStep) -> Iterable[RenderableType]:
    if guilty.failed is not None:
        where = at(guilty.failed.location, guilty.run.file)
        yield labelled(f"{guilty.failed.type}{', ' + where if where else ''}", guilty.failed.message, by=2)
        if guilty.failed.hint and guilty.rung is EAGER:
            yield labelled("try", guilty.failed.hint, "green", by=2)
    elif guilty.run.accuracy is not None:
        yield indented(describe_accuracy(guilty.run.accuracy))
        if said := format_errors(guilty.run.accuracy):
            yield indented(said)
        for difference in guilty.run.accuracy.differences:
            yield indented(difference, "yellow")
