"""The diff of two runs: summary, source, breaks, kernels, graph nodes and guards."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from tcexplore.documents.diff.diff_sections import break_rows, guard_rows, kernel_diff_rows, node_rows
from tcexplore.documents.diff.text_diff import Numbered, text_rows
from tcexplore.documents.document import Part, Parts, Row, by_identity, fixed
from tcexplore.documents.prose import BLANK, fold, row, wrapped
from tcexplore.events import Location
from tcexplore.session import Snapshot, changes, summarize
from tcexplore.session.links import line_links
from tcexplore.session.run_diff import RunChange, RunDiff, are_ranks, count_changes, run_diff

NOTHING = "Nothing to compare with yet. The next save is compared with this one."

NO_OTHER_RANK = "No other rank has been read to compare with."

Rows = Callable[[RunDiff, frozenset[str], int], Iterator[Row]]


class _Section(NamedTuple):
    name: str
    changes: Callable[[RunDiff], Sequence[RunChange[Any]]]
    rows: Rows


def diff_document(
    before: Snapshot | None, after: Snapshot, toggled: frozenset[str] = frozenset(), width: int = 78
) -> Parts:
    """Return the document of the view."""
    if before is None:
        text = NO_OTHER_RANK if after.trace else NOTHING
        return Parts("", [fixed(wrapped(text, width, "muted"))])
    diff = _compared(before, after)
    parts = [fixed(_summary(diff, width)), *(_section(section, diff, toggled, width) for section in SECTIONS)]
    return Parts(f"{before.label} → {after.label}", parts)


_compared = by_identity(4)(run_diff)


def _summary(diff: RunDiff, width: int) -> Iterator[Row]:
    """Yield whether the generated code is the same, and the figures that changed."""
    before, after = diff.before, diff.after
    runs = (f" {before.label} → {after.label} ", "title")
    if diff.same_program:
        yield row(runs, (" ✔ SAME PROGRAM ", "badge.ok"), ("  the generated code is identical", "ok"))
        text = "Kernels and wrappers are the same except for names and comments: any timing difference is noise."
        if are_ranks(before, after):
            text = "Kernels and wrappers are the same except for names, comments and the numbers of devices."
        yield from wrapped(text, width, "muted")
    else:
        known = before.code.kernels and after.code.kernels
        text = "the generated code differs" if known else "one of the runs has no generated code"
        if before.target != after.target:
            text = f"their generated code is for different targets: {before.target} and {after.target}"
        yield row(runs, (" ≠ ", "badge.warn"), (f"  {text}", "changed"))
    figures = changes(summarize(before), summarize(after))
    yield row(
        (
            f" {'  '.join(figures) or 'breaks, graphs and number of kernels unchanged'}",
            "strong" if figures else "muted",
        )
    )
    yield BLANK


def _section(section: _Section, diff: RunDiff, toggled: frozenset[str], width: int) -> Part:
    return fixed(_rows(section, diff, toggled, width))


def _rows(section: _Section, diff: RunDiff, toggled: frozenset[str], width: int) -> Iterator[Row]:
    total = count_changes(section.changes(diff))
    same = sum(total.values()) == total["same"]
    name = f"diff {section.name}"
    if same and section.name != "kernels":
        text = "the same" if total["same"] else "none in either run"
        yield row(("   ", ""), (section.name, "muted"), (f"  {text}", "dim"))
        return
    opened = name not in toggled
    yield fold(name, opened, (section.name, "heading"), *_counts(total), indent=1)
    if opened:
        yield from section.rows(diff, toggled, width)
        yield BLANK


def _counts(total: dict[str, int]) -> Iterator[tuple[str, str]]:
    for kind, mark in (("added", "+"), ("removed", "−"), ("changed", "~")):
        if total[kind]:
            yield f"  {mark}{total[kind]}", kind
    if total["same"]:
        yield f"  {total['same']} the same", "muted"


def _source(diff: RunDiff, toggled: frozenset[str], width: int) -> Iterator[Row]:  # noqa: ARG001
    def at(line: Numbered) -> Row:
        """Return the link and location of a line of the later file."""
        place = Location(diff.after.file, line.after) if line.after else None
        return Row((), line_links(place), place)

    yield from text_rows(diff.source, width, at)


SECTIONS = (
    _Section("source", lambda run_diff: run_diff.source, _source),
    _Section("breaks", lambda run_diff: run_diff.breaks, break_rows),
    _Section("kernels", lambda run_diff: run_diff.kernels, kernel_diff_rows),
    _Section("graph nodes", lambda run_diff: run_diff.nodes, node_rows),
    _Section("guards", lambda run_diff: run_diff.guards, guard_rows),
)
