"""The history strip: one cell per save, the newest on the right, the one in view in brackets."""

from __future__ import annotations

from tcexplore.documents.document import Row, Span
from tcexplore.documents.prose import Piece, fitted, piece
from tcexplore.session import RunSummary, Session
from tcexplore.targets.target_names import NATIVE

NAME = " history "
EARLIER = "‹ "
"""Mark for earlier saves that do not fit."""


def history_row(session: Session, width: int) -> Row:
    """Return the strip, at most `width` columns wide, always with the save in view."""
    if not session.runs:
        return fitted([piece(NAME, "muted", 1), piece("one entry per save", "dim")], width)
    name = NAME if width >= 60 else " "
    seen = session.shown
    number, saves = seen.run if seen is not None else 0, session.summaries
    cells = [_cell(save, seen=save.run == number, base=save.run == session.baseline) for save in saves]
    at = next((index for index, save in enumerate(saves) if save.run == number), len(cells) - 1)
    first, last = _window([cell.width for cell in cells], at, width - len(name) - len(EARLIER))
    spans = [Span(name, "muted"), Span(EARLIER if first else "", "muted")]
    return Row((*spans, *(span for cell in cells[first:last] for span in cell.spans)))


def run_of(session: Session, text: str) -> int | None:
    """Return the run whose entry begins with this text."""
    if text[:1] not in (" ", "["):
        return None
    return next((save.run for save in session.summaries if _name(save) == text[1:].strip()), None)


def _name(save: RunSummary) -> str:
    return save.past or str(save.run)


def _window(widths: list[int], at: int, room: int) -> tuple[int, int]:
    """Return the range of cells to show: the newest ones that fit, or those that end with cell `at`."""
    last = len(widths)
    while last - 1 > at and sum(widths[at:last]) > room:
        last -= 1
    first = last
    while first and (first > at or sum(widths[first - 1 : last]) <= room):
        first -= 1
    return first, last


def _cell(save: RunSummary, *, seen: bool, base: bool) -> Piece:
    """Return `7 ✖1 1.31×`, in brackets if it is in view, marked if it is the base of comparisons."""
    left, right = ("[", "]") if seen else (" ", " ")
    style = "strong" if seen else "muted"
    based = (Span("base ", "key"),) if base else ()
    return Piece((Span(f"{left}{_name(save)} ", style), *based, *_figures(save), Span(right, style)))


def _figures(save: RunSummary) -> tuple[Span, ...]:
    if save.error:
        return (Span("error", "error"),)
    if save.status == "superseded" and not save.graphs:
        return (Span("superseded", "dim"),)
    if save.status == "running" and not save.graphs:
        return (Span("…", "running"),)
    if not save.graphs:
        return (Span("nothing compiled", "break"),)
    broken = Span(f"✖{save.breaks}", "break") if save.breaks else Span("✔", "ok")
    graphs = Span(f" {save.graphs}g", "muted") if save.graphs > 1 and not save.breaks else Span("")
    target = f" {save.target}" if save.target != NATIVE else ""
    kernels = Span(f" {save.kernels}k{target}", "muted") if save.kernels else Span("")
    return broken, graphs, kernels, Span(" wrong", "error") if save.wrong else _speed(save)


def _speed(save: RunSummary) -> Span:
    if not save.speedup or save.verdict == "measuring":
        return Span("")
    if save.verdict == "undecided":
        return Span(" ?×", "muted")
    return Span(f" {save.speedup:.2f}×", save.verdict if save.verdict in ("faster", "slower") else "")
