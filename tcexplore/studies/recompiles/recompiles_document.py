"""A storm of recompiles: its time line, what might end it, and what each of those came to, before and after."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tcexplore.documents.columns import Cell, columns
from tcexplore.documents.document import Row, Span
from tcexplore.documents.document_parts import StaticDocument
from tcexplore.documents.prose import BLANK, fold, heading, row, wrapped
from tcexplore.documents.timing.timeline_view import GLYPHS, STYLES, draw_lane, recompile_reasons
from tcexplore.quantities import duration
from tcexplore.session import Snapshot
from tcexplore.session.timeline import CompileMark
from tcexplore.studies.recompiles import recompiles_study_text as words
from tcexplore.studies.recompiles.recompiles_result import UNCHANGED, Trial, lane, variants

FEW = 8
"""So many compiles are told before a fold has the others."""


PADDING = {"equal": ("✔", "ok"), "different": ("✖", "break"), "not compared": ("·", "muted")}


def storm(
    trials: Sequence[Trial], under_way: Snapshot | None, toggled: frozenset[str] = frozenset(), width: int = 78
) -> StaticDocument:
    """The document; `under_way` is the run that is going on. Its calls are drawn as they come."""
    going = [Trial(UNCHANGED, under_way)] if under_way is not None and not trials else []
    shown = [*trials, *going]
    if not shown:
        return StaticDocument("", tuple(wrapped("waiting for a worker", width, "muted")))
    rows = [*_first(shown[0], toggled, width)]
    if trials:
        rows += [BLANK, *_table(trials, under_way, width), BLANK, *_conclusions(trials, width)]
    return StaticDocument("", tuple(rows))


def _first(trial: Trial, toggled: frozenset[str], width: int) -> Iterator[Row]:
    """The calls as they are: the time line, and each compile with its cost and cause."""
    calls = lane(trial.run)
    yield row((f" {words.headline(trial)}", "strong"), ("  as they are, over the time that they took", "muted"))
    if calls.calls is not None:
        yield row(" ", *draw_lane(calls, calls.calls.seconds, max(8, width - 2)))
        end = duration(calls.calls.seconds)
        yield row((" 0 s" + " " * max(1, width - 5 - len(end)) + end, "dim"))
    if said := words.why_not(trial):
        yield from wrapped(said, width, "error", lead="✖ ")
    opened = "storm" in toggled
    for mark in calls.marks if opened else calls.marks[:FEW]:
        yield from _mark(mark, width)
    if (rest := len(calls.marks) - FEW) > 0:
        yield fold("storm", opened, ("fewer" if opened else f"and {rest} more", "muted"))
    if said := words.limit(trial):
        yield from wrapped(said, width, "break", lead="✖ ")


def _mark(mark: CompileMark, width: int) -> Iterator[Row]:
    where = mark.causes[0].location if mark.causes else None
    said = f"call {mark.call}: {'compiled again' if mark.repeated else 'compiled'}, {duration(mark.seconds)}"
    yield row((f" {GLYPHS[mark.kind]} ", STYLES[mark.kind]), said, location=where)
    for reason in recompile_reasons(mark):
        yield from wrapped(reason, width, "muted", indent=5, location=where)


def _table(trials: Sequence[Trial], under_way: Snapshot | None, width: int) -> Iterator[Row]:
    yield heading("What might spare them", "each in a worker of its own")
    cells = [_cells(trial, trials[0]) for trial in trials]
    yield from columns(words.HEAD, cells, [()] * len(cells))
    if under_way is not None:
        yield row((" ◐ under way", "running"))
    longest = max(trial.total_s for trial in trials)
    for trial in trials[1:]:
        yield BLANK
        yield from _treatment(trial, longest, width)


def _cells(trial: Trial, first: Trial) -> list[Cell]:
    name, recompiles, total, steady = words.row(trial)
    if words.why_not(trial):
        return [(Span(name, "strong"),), (Span("✖ failed", "error"),), (), ()]
    style = "" if trial is first else "ok" if trial.recompiles < first.recompiles else "warn"
    faster = "" if trial is first else "faster" if trial.total_s < first.total_s else "slower"
    return [(Span(name, "strong"),), (Span(recompiles, style),), (Span(total, faster),), (Span(steady),)]


def _treatment(trial: Trial, longest: float, width: int) -> Iterator[Row]:
    treatment, calls = trial.treatment, lane(trial.run)
    yield row((f" {treatment.name}", "title"), (f"  {treatment.write}", ""))
    if said := words.why_not(trial):
        yield from wrapped(said, width, "error", lead="✖ ")
    elif calls.calls is not None and longest:
        # On one scale: a treatment that takes half of the time is half as long.
        cells = max(8, round((width - 2) * min(1.0, calls.calls.seconds / longest)))
        yield row(" ", *draw_lane(calls, calls.calls.seconds, min(cells, width - 2)))
    if said := words.limit(trial):
        yield from wrapped(said, width, "break", lead="✖ ")
    verdict, said = words.padding(trial)
    if said:
        mark, style = PADDING[verdict]
        yield from wrapped(said, width, style, lead=f"{mark} ")
    if treatment.note:
        yield from wrapped(treatment.note, width, "muted")


def _conclusions(trials: Sequence[Trial], width: int) -> Iterator[Row]:
    for said in words.conclusions(trials):
        yield from wrapped(said, width, "strong")
    if trials[0].recompiles and not variants(trials[0].run):
        yield from wrapped(words.FIXED_ELSEWHERE, width, "muted")
