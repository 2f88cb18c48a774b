"""Why two kernels are two: torch's reasons in plain words, its own sentence below, the noise behind a count."""

from __future__ import annotations

from collections.abc import Iterator

from tcexplore.events import FusionDecision, Kernel
from tcexplore.session import Snapshot
from tcexplore.session.fusion import WhyNot
from tcexplore.session.fusion import why_not as ask
from tcexplore.session.links import Link, kernel_link
from tcexplore.ui.document import Row, Span
from tcexplore.ui.documents.labels import Labels, labels
from tcexplore.ui.documents.parts import Parts, fixed
from tcexplore.ui.documents.prose import fold, row, shortened, wrapped
from tcexplore.words.fusion import plain
from tcexplore.words.quantities import count

APART = {
    "graph": "They belong to two graphs: each is compiled on its own.",
    "phase": "One belongs to the forward, the other to the backward: each is compiled on its own.",
    "extern": "An extern kernel is a call into a library: Inductor fuses nothing into it.",
}
"""What keeps two kernels apart before the scheduler comes to them, by `WhyNot.apart`."""

LONGEST = 40
"""Characters of a fused node's name, which has all of its parts in it."""

NO_REASON = "torch's scheduler gives no reason for these two: it did not consider them, or refused without saying why."


def why_not(snapshot: Snapshot, a: Kernel, b: Kernel, width: int = 78) -> Parts:
    """The answer for any two kernels of a run, everything open."""
    known, found = labels(snapshot), ask(snapshot, a, b)
    name = _name(found)
    rows = [_question(found, known), *_answer(snapshot, found, frozenset([f"{name} unrelated"]), width)]
    return Parts(f"{_words(found.a, known)} and {_words(found.b, known)}", [fixed(rows)])


def between(snapshot: Snapshot, found: WhyNot, known: Labels, toggled: frozenset[str], width: int) -> Iterator[Row]:
    """The rows between two neighbours: the short answer, and behind it all that torch says."""
    name, links = _name(found), _links(found)
    opened = name in toggled
    second = ((span.text, span.style) for span in known.kernel[links[1]].spans)
    yield fold(
        name, opened, ("╳ ", "warn" if found.refusals else "muted"), ("not one with ", "muted"), *second,
        (f": {_short(found)}", "muted"), indent=3, links=links,
    )  # fmt: skip
    if opened:
        yield from _answer(snapshot, found, toggled, width)


def _name(found: WhyNot) -> str:
    return f"why {found.a.graph} {found.a.phase} {found.a.name} {found.b.name}"


def _links(found: WhyNot) -> tuple[Link, ...]:
    return kernel_link(found.a), kernel_link(found.b)


def _words(kernel: Kernel, known: Labels) -> str:
    return known.kernel[kernel_link(kernel)].words


def _question(found: WhyNot, known: Labels) -> Row:
    first, second = (known.kernel[link].spans for link in _links(found))
    spans = (Span(" why are "), *first, Span(" and "), *second, Span(" not one kernel?"))
    return Row(spans, _links(found))


def _short(found: WhyNot) -> str:
    """One line: the first reason, and how many more there are."""
    reasons = list(dict.fromkeys(decision.reason for decision in found.refusals))
    if reasons:
        more = f"  +{len(reasons) - 1}" if len(reasons) > 1 else ""
        return f"{plain(reasons[0]) or reasons[0]}{more}"
    return "no data in common" if found.unrelated else "torch gives no reason"


def _answer(snapshot: Snapshot, found: WhyNot, toggled: frozenset[str], width: int) -> Iterator[Row]:
    links = _links(found)
    if found.apart:
        yield from wrapped(APART[found.apart], width, indent=5, links=links)
    for reason in dict.fromkeys(decision.reason for decision in found.refusals):
        yield from _reason(reason, [d for d in found.refusals if d.reason == reason], links, width)
    if found.unrelated:
        yield from _unrelated(snapshot, found, toggled, width)
    if not found.apart and not found.refusals and not found.unrelated:
        yield from wrapped(NO_REASON, width, indent=5, links=links)


def _reason(reason: str, pairs: list[FusionDecision], links: tuple[Link, ...], width: int) -> Iterator[Row]:
    said = plain(reason)
    if said:
        yield from wrapped(f"{said[0].upper()}{said[1:]}.", width, indent=5, links=links)
    yield from wrapped(reason, width, "muted", indent=5, lead="torch: ", links=links)
    for pair in pairs:
        yield row(
            ("       ", ""),
            (shortened(pair.a, LONGEST), "node"),
            (" and ", "muted"),
            (shortened(pair.b, LONGEST), "node"),
            links=links,
        )


def _unrelated(snapshot: Snapshot, found: WhyNot, toggled: frozenset[str], width: int) -> Iterator[Row]:  # noqa: ARG001
    """The pairs that have nothing to do with each other, behind their count."""
    name = f"{_name(found)} unrelated"
    said = f"{count(found.unrelated, 'pair')} of their nodes without data in common"
    opened = name in toggled
    yield fold(name, opened, (said, "muted"), indent=5, links=_links(found))
    if opened:
        yield from wrapped(plain("no shared data"), width, "muted", indent=7, links=_links(found))
