"""A storm of recompiles as text: its compiles one by one, then before and after each change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TextIO

from rich.console import Console, RenderableType
from rich.text import Text

from tcexplore import events as ev
from tcexplore.documents.locations import display_path
from tcexplore.documents.timing.timeline_view import recompile_reasons
from tcexplore.quantities import count, duration
from tcexplore.report.text.layout import indented, labelled
from tcexplore.report.text.table import print_table
from tcexplore.studies.recompiles import recompiles_study_text as words
from tcexplore.studies.recompiles.recompiles_result import Trial, lane

MOST = 20
"""Compiles that are printed; the JSON has every call."""


def print_storm(
    trials: Sequence[Trial], machine: ev.Standby | None, *, stopped: bool = False, stream: TextIO | None = None
) -> None:
    """Print what compiled when, the table of what might spare it, and what follows."""
    console = Console(file=stream, markup=False, emoji=False, highlight=False)
    if not trials:
        console.print(Text("stopped before the first run was done", "yellow"))
        return
    on = f" · torch {machine.torch} · {machine.device}" if machine else ""
    made = f" · {words.headline(trials[0])}" if trials[0].calls else ""
    console.print(Text(f"{display_path(trials[0].run.file)}{made}{on}", "bold"), soft_wrap=True)
    console.print(*_first(trials[0]), sep="\n")
    if len(trials) > 1:
        console.print()
        print_table(console, words.HEAD, [words.row(trial) for trial in trials])
        console.print(Text(), *_treatments(trials[1:]), sep="\n")
    console.print(Text(), *(indented(line, "bold", by=0) for line in words.conclusions(trials)), sep="\n")
    if stopped:
        console.print(Text(f"stopped after {count(len(trials), 'run')}", "yellow"))


def _first(trial: Trial) -> Iterator[RenderableType]:
    if said := words.why_not(trial):
        yield indented(f"✖ {said}", "red", by=0)
    marks = lane(trial.run).marks
    for mark in marks[:MOST]:
        again = "compiled again" if mark.repeated else "compiled"
        said = f"call {mark.call}: {again}, {duration(mark.seconds)}"
        yield indented(said, "yellow" if mark.repeated else "")
        for reason in recompile_reasons(mark):
            yield labelled("failed", reason, by=6)
    if len(marks) > MOST:
        yield indented(f"and {len(marks) - MOST} more", "dim")
    if said := words.limit(trial):
        yield indented(f"✖ {said}", "red")


def _treatments(trials: Sequence[Trial]) -> Iterator[RenderableType]:
    for trial in trials:
        yield indented(Text.assemble((trial.treatment.name, "bold"), f"  {trial.treatment.write}"))
        if trial.treatment.note:
            yield indented(trial.treatment.note, "dim", by=4)
        if said := words.why_not(trial) or words.limit(trial):
            yield indented(f"✖ {said}", "red", by=4)
        verdict, said = words.padding(trial)
        if said:
            yield indented(said, "red" if verdict == "different" else "", by=4)
