"""The line below the panes: the selected row, and what other panes show for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.cells import cell_len

from tcexplore import events as ev
from tcexplore.documents.document import Row, Span
from tcexplore.documents.labels import KernelLabel, labels
from tcexplore.documents.line_facts import (
    OUTSIDE,
    broken_expression,
    count_guards,
    describe_time,
    describe_traffic,
    draw_share,
    format_cost_briefly,
    hot,
    line_facts,
    shares_of_lines,
    span_of_bars,
)
from tcexplore.documents.locations import places
from tcexplore.documents.prose import Piece, fitted, piece, shortened
from tcexplore.documents.source_view import GUARD
from tcexplore.keymap import hint
from tcexplore.quantities import count
from tcexplore.session import Snapshot
from tcexplore.session.links import Link, break_link, guard_link, line_links
from tcexplore.session.ranked_breaks import rank_breaks

EXPRESSION_WIDTH = 40
"""Most columns of the expression that breaks the graph."""

SHOWN_KERNELS = 4
"""Kernels that are named; more are counted."""

SHOWN_LINES = 3

REST = "  › "
"""Precedes the end of the selected row that its pane cuts; a cut row ends with the same mark."""

LEAST_REST = 12
"""Cells from which a part of that end says something."""


def peek_row(run: Snapshot, links: Sequence[Link], chain: frozenset[Link], width: int, *, old: bool = False) -> Row:
    """Return `line 24 → kernel 2 · break · 2 guards` for the selected row, at most `width` cells wide.

    `old` if the run is not the one in view.
    """
    if run.rank_comparison is not None:
        from tcexplore.documents.rank_alert import alert_links

        if tuple(links) == alert_links(run.rank_comparison, run):
            chain = chain.difference(links[1:])  # they only have its graph come into view
    linked = list(_linked(run, links[0], chain))
    dotted = [
        Piece((Span(" · " if index else " ", "muted"), *item.spans), item.priority) for index, item in enumerate(linked)
    ]
    origin = [piece(f" old, {run.label}:", "muted", 1)] if old else []
    return fitted([*origin, _subject(run, links[0], leads=bool(linked)), *dotted], width - 1, gap="")


def with_row(line: Row, meaning: str, rest: str, width: int) -> Row:
    """Return the line, followed by the meaning of the row's marks, and by the end that its pane cuts.

    Both as far as there is room.
    """
    for lead, text in ((" · " if line.spans else " ", meaning), (REST, rest)):
        room = width - sum(cell_len(span.text) for span in line.spans) - len(lead) - 1
        if text and room >= min(cell_len(text), LEAST_REST):
            line = line._replace(spans=(*line.spans, Span(lead, "key"), Span(shortened(text, room), "muted")))
    return line


def _subject(run: Snapshot, link: Link, *, leads: bool) -> Piece:
    return Piece((Span(f" {_name(run, link)}", "strong"), Span(" →" if leads else "", "muted")))


def _name(run: Snapshot, link: Link) -> str:
    match link.kind:
        case "line":
            return _line(run, link)
        case "kernel":
            label = labels(run).kernel.get(link)
            return link.name if label is None else f"library call {label.text}" if label.extern else label.name
        case "break":
            graph_break = next((each for each in run.breaks if break_link(each) == link), None)
            return f"graph break {'that this run does not have' if graph_break is None else _expression(graph_break)}"
        case "guard":
            return _guard(run, link)
        case "entry":
            return f"cache entry {link.where}"
        case "step":
            return f"step: {link.name.replace('_', ' ', 2)}"
        case _:
            return link.name


def _guard(run: Snapshot, link: Link) -> str:
    """Return the kind of a guard and what it checks, of which its row may have only the end."""
    from tcexplore.documents.guards.guards_view import value_of  # not imported before the first frame

    of_graph = (guard for known in run.guards if known.graph == link.where for guard in known.guards)
    guard = next((guard for guard in of_graph if guard_link(link.where, guard) == link), None)
    return link.name if guard is None else f"{guard.kind} {value_of(guard)}"


def _line(run: Snapshot, link: Link) -> str:
    return f"line {link.name}" if link.where == run.file else f"{places(run.file).path(link.where)} line {link.name}"


def _linked(run: Snapshot, subject: Link, chain: frozenset[Link]) -> Iterator[Piece]:
    """Yield the linked breaks, kernels, lines, ops, guards and bytes, most important first."""
    compared = run.rank_comparison
    if compared is not None and compared.divergence is not None and subject in line_links(compared.divergence.location):
        yield piece("the ranks differ here", "break")
    yield from _breaks(run, subject, chain)
    kernels = sorted((label for link, label in labels(run).kernel.items() if link in chain), key=_order)
    if subject.kind != "kernel" and kernels:
        yield from _kernels(kernels)
    lines = sorted((link for link in chain if link.kind == "line"), key=lambda link: (link.where, int(link.name)))
    if subject.kind != "line" and lines:
        more = f" +{len(lines) - SHOWN_LINES}" if len(lines) > SHOWN_LINES else ""
        yield piece(", ".join(_line(run, link) for link in lines[:SHOWN_LINES]) + more, "", 2)
    ops = sum(link.kind == "node" for link in chain)
    if subject.kind != "node" and ops:
        yield piece(count(ops, "op"), "muted", 3)
    guards = {link for link in chain if link.kind == "guard"}
    if subject.kind == "line" and guards:
        # As in the gutter, structural guards alone have no mark.
        line, facts = (subject.where, int(subject.name)), line_facts(run)
        own = facts.guards.get(line, ())
        text = count_guards(len(own), facts.structural_guards[line])
        key = Span(f" ({hint('row-guards')})", "key")
        yield Piece((Span(f"{GUARD} {text}" if own else text, "guard"), key), 3)
    elif subject.kind != "guard" and guards:
        yield piece(count(len(guards), "guard"), "guard", 3)
    if subject.kind == "line":
        yield from _line_facts(run, (subject.where, int(subject.name)))


def _order(label: KernelLabel) -> tuple[bool, int]:
    return label.extern, label.number


def _kernels(kernels: list[KernelLabel]) -> Iterator[Piece]:
    """Yield the generated kernels, then the library calls, each in words and with the marks that panes show."""
    for extern, noun in ((False, "kernel"), (True, "library call")):
        own = [label for label in kernels if label.extern is extern]
        spans = [span for label in own[:SHOWN_KERNELS] for span in (*label.spans, Span(" "))][:-1]
        more = f" +{len(own) - SHOWN_KERNELS}" if len(own) > SHOWN_KERNELS else ""
        if own:
            yield Piece((Span(f"{noun}{'s' if len(own) > 1 else ''} ", "muted"), *spans, Span(more, "muted")), 1)


def _breaks(run: Snapshot, subject: Link, chain: frozenset[Link]) -> Iterator[Piece]:
    graph_break = next((each for each in run.breaks if break_link(each) in chain), None)
    if graph_break is not None:
        if subject.kind != "break":
            yield piece(f"✖ graph break: {_expression(graph_break)}", "break")
            costed = next(each for each in rank_breaks(run) if each.graph_break is graph_break)
            if cost := format_cost_briefly(costed, run):  # the row of the break says it itself
                yield piece(cost if "cost" in cost else f"costs {cost}", "number", 2)
        fix = run.fix_of(graph_break)
        if fix is not None and fix.state == "verified":
            yield Piece((Span("fix ready", "ok"), Span(f" ({hint('fix')})", "key")), 1)


def _expression(graph_break: ev.GraphBreak) -> str:
    return shortened(broken_expression(graph_break), EXPRESSION_WIDTH)


def _line_facts(run: Snapshot, line: tuple[str, int]) -> Iterator[Piece]:
    facts, traffic = line_facts(run), hot(run).lines.get(line)
    if time := shares_of_lines(run).get(line):
        # Without what the break costs around the line.
        itself = "the line itself " if line in facts.breaks else ""
        bar = f"{draw_share(time.share)} " if time.of == span_of_bars(run) else ""
        yield piece(f"{bar}{itself}{describe_time(time)}", "number", 2)
    if traffic is not None:
        yield piece(describe_traffic(traffic), "dim", 4)
    elif time is None and (line in facts.breaks or line in facts.skipped):
        yield piece(f"{OUTSIDE} in no kernel", "muted", 4)
    if line in facts.skipped:
        yield piece(f"not compiled: {facts.skipped[line].reason}", "warn", 2)
