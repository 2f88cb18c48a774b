"""A cure of one graph break: the change as a diff, and the proof as far as it is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tcexplore.documents.diff.text_diff import Numbered, text_rows
from tcexplore.documents.document import Row
from tcexplore.documents.document_parts import StaticDocument
from tcexplore.documents.locations import places
from tcexplore.documents.prose import BLANK, heading, row, wrapped
from tcexplore.events import GraphBreak, Location
from tcexplore.fixes.advice import NONE
from tcexplore.fixes.text_edit import lines_of
from tcexplore.fixes.verification import Proof
from tcexplore.fixes.verification_text import BAD, NOTE, OK, WAIT, brief, facts
from tcexplore.session.run_diff import align

MARKS = {OK: ("✔", "ok"), BAD: ("✖", "error"), WAIT: ("◐", "running"), NOTE: ("·", "muted")}

PANE = "What torch says of it stands in the breaks pane."


@dataclass(frozen=True, slots=True)
class Tried:
    """What is known of a break's cures. `proofs` are over, `current` is under way; `of` cures there are in all.

    `written` is the name of the file that was written, `running` whether more is to come; `advice` is what to do where
    no change holds.
    """

    found: GraphBreak
    file: str
    proofs: tuple[Proof, ...] = ()
    current: Proof | None = None
    of: int = 0
    running: bool = False
    written: str = ""
    advice: str = ""

    @property
    def best(self) -> Proof | None:
        """The proof in view: the one that holds, else the one under way, else the last."""
        proven = next((proof for proof in self.proofs if proof.proven), None)
        return proven or self.current or (self.proofs[-1] if self.proofs else None)


def cure(tried: Tried, width: int = 78) -> StaticDocument:
    """The document."""
    return StaticDocument("", (*_break(tried, width), *_body(tried, width)))


def _break(tried: Tried, width: int) -> Iterator[Row]:
    found, at = tried.found, tried.found.location
    where = places(tried.file).describe(at) or "no line known"
    yield row((" ✖ ", "break"), (where, "break"), f"  {found.code}", location=at)
    yield from wrapped(found.reason or found.kind, width, "muted", indent=3, location=at)
    yield BLANK


def _body(tried: Tried, width: int) -> Iterator[Row]:
    best = tried.best
    if best is None:
        waits = tried.running and tried.of
        why = f"{tried.advice or NONE} {PANE}"
        yield from wrapped("Waiting for a worker." if waits else why, width, "muted" if waits else "strong")
        return
    yield from _brief(best, tried, width)
    yield from _change(best, width)
    yield BLANK
    yield heading("the proof", "tried in a worker: your file is not touched")
    for fact in facts(best):
        mark, style = MARKS[fact.state]
        first, *rest = wrapped(fact.text, width, "" if fact.state != NOTE else "muted", indent=5)
        yield Row((*row((f"   {mark} ", style)).spans, *first.spans[1:]))
        yield from rest
    yield from _others(tried, best, width)
    yield BLANK
    yield from _end(tried, best, width)


def _brief(best: Proof, tried: Tried, width: int) -> Iterator[Row]:
    """What it comes to, above the diff: the proof itself may stand below the fold."""
    fact = brief(best)
    mark, style = MARKS[fact.state]
    key = "" if not best.proven else "  u takes it back" if tried.written else "  w writes it"
    first, *rest = wrapped(fact.text + key, width, style, indent=3)
    yield Row((*row((f" {mark} ", style)).spans, *first.spans[1:]))
    yield from rest


def _change(proof: Proof, width: int) -> Iterator[Row]:
    cure, change = proof.change.cure, proof.change
    yield row(" ", (cure.name, "heading"))
    yield from wrapped(cure.said, width, "strong", indent=3)
    for other in cure.changes:
        yield from wrapped(other, width, "warn", indent=3, lead="otherwise: ")
    yield BLANK
    before, after = ([line.rstrip("\r\n") for line in lines_of(text)] for text in (change.before, change.after))

    def at(line: Numbered) -> Row:
        return Row((), location=Location(change.file, line.before or line.after))

    yield from text_rows(align(before, after, str), width, at)


def _others(tried: Tried, best: Proof, width: int) -> Iterator[Row]:
    for proof in tried.proofs:
        if proof is not best and not proof.proven:
            yield from wrapped(
                f"{proof.change.cure.name}: {proof.why}", width, "muted", indent=5, lead="tried before: "
            )


def _end(tried: Tried, best: Proof, width: int) -> Iterator[Row]:
    name = places(tried.file).path(best.change.file)
    if tried.written:
        yield row((" written ", "badge.ok"), (f" to {tried.written}", "strong"), ("  u takes it back", "muted"))
    elif best.proven:
        yield row(
            (" w ", "badge.ok"), (f" writes it to {name}", "strong"), ("  until then nothing is written", "muted")
        )
    elif tried.running:
        yield from wrapped("Nothing is written before it is proven, and then only when you say so.", width, "muted")
    else:
        yield row((" not proven ", "badge.break"), (f" {best.why}", "strong"))
        yield from wrapped(tried.advice, width, "strong") if tried.advice else ()
