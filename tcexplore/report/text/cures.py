"""The breaks of a file, each with the change that removes it, and the proof."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TextIO

from rich.console import Console, RenderableType
from rich.text import Text

from tcexplore import events as ev
from tcexplore.documents.locations import at, display_path
from tcexplore.fixes.advice import NONE
from tcexplore.fixes.attempted_fixes import AttemptedFixes
from tcexplore.fixes.fix import Change
from tcexplore.fixes.verification import Proof
from tcexplore.fixes.verification_text import facts
from tcexplore.quantities import count
from tcexplore.report.text.layout import indented, labelled
from tcexplore.session import Snapshot

MARKS = {"ok": ("✔", "green"), "bad": ("✖", "red"), "wait": ("◐", ""), "note": ("·", "dim")}
COLORS = {"+": "green", "-": "red", "@": "dim"}


def print_cures(
    run: Snapshot, found: Sequence[AttemptedFixes], machine: ev.Standby | None, *, written: Sequence[str] = (),
    stopped: bool = False, stream: TextIO | None = None,
) -> None:  # fmt: skip
    """Print each break with what was tried, then what it comes to."""
    console = Console(file=stream, markup=False, emoji=False, highlight=False)
    on = f" · torch {machine.torch} · {machine.device}" if machine else ""
    console.print(Text(f"{display_path(run.file)}{on} · {count(len(run.breaks), 'graph break')}", "bold"))
    for treated in found:
        console.print(*_one(treated, run.file), sep="\n")
    console.print(*_verdict(found, written, stopped), sep="\n")


def _one(treated: AttemptedFixes, file: str) -> Iterable[RenderableType]:
    found = treated.found
    where = at(found.location, file) or "somewhere"
    yield indented(
        Text.assemble((f"{treated.number} ", "dim"), ("✖ ", "red"), (where, "bold"), f"  {found.code}"), by=0
    )
    yield indented(found.reason or found.kind)
    for proof in treated.proofs:
        yield from _proven(proof) if proof.proven else _not_proven(proof)
    if treated.cure is None:
        yield indented(treated.advice or NONE, "yellow")


def _proven(proof: Proof) -> Iterable[RenderableType]:
    cure = proof.change.cure
    yield indented(Text.assemble(("✔ proven: ", "bold green"), (cure.name, "bold"), f". {cure.said}"))
    yield from (labelled("otherwise", change, "yellow") for change in cure.changes)
    yield from _diff(proof.change)
    for fact in facts(proof):
        yield indented(Text.assemble(MARKS[fact.state], " ", fact.text), by=4)


def _diff(change: Change) -> Iterable[RenderableType]:
    name = display_path(change.file)
    for line in change.diff(name):
        yield Text("    " + line.expandtabs(4), COLORS.get(line[:1], ""), no_wrap=True, overflow="ignore")


def _not_proven(proof: Proof) -> Iterable[RenderableType]:
    yield indented(Text.assemble(("✖ tried: ", "yellow"), f"{proof.change.cure.name}: {proof.why}"))


def _verdict(found: Sequence[AttemptedFixes], written: Sequence[str], stopped: bool) -> Iterable[RenderableType]:
    cured = sum(treated.cure is not None for treated in found)
    yield indented(f"{cured} of {count(len(found), 'break')} with a proven cure", "bold", by=0)
    if stopped:
        yield indented("stopped before the last one", "yellow", by=0)
    if written:
        yield indented(f"written: {', '.join(map(display_path, written))}", "bold green", by=0)
    elif cured:
        yield indented("nothing was written: --write does", "dim", by=0)
