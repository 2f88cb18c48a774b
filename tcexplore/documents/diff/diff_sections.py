"""What of two runs came and went: graph nodes, graph breaks, guards."""

from __future__ import annotations

from collections.abc import Iterator

from tcexplore import events as ev
from tcexplore.documents.document import Row
from tcexplore.documents.location_text import Places, places
from tcexplore.documents.node_text import format_call, format_tensor, name_node
from tcexplore.documents.prose import fold, row
from tcexplore.quantities import count
from tcexplore.session.links import break_link, guard_link, node_link
from tcexplore.session.run_diff import RunChange, RunDiff

MARKS = {"added": ("+ ", "added"), "removed": ("- ", "removed"), "changed": ("~ ", "changed"), "same": ("  ", "muted")}


def nodes(found: RunDiff, toggled: frozenset[str], width: int) -> Iterator[Row]:  # noqa: ARG001
    """The nodes that only one of the runs has; a graph that only one has is a row of its own."""
    for change in found.nodes:
        if change.kind != "same":
            yield _node(change, places(found.after.file))


def _node(change: RunChange[tuple[str, ev.FxNode]], where: Places) -> Row:
    graph, node = change.item
    mark = MARKS[change.kind]
    links = (node_link(graph, node.name),) if change.after else ()
    facts = (
        (f"{graph}  ", "dim"),
        (name_node(node), mark[1]),
        (f"  {format_tensor(node)}", "shape"),
        (f"  {format_call(node)}", "target"),
    )
    place = (f"  {where.describe(node.location)}" if node.location else "", "muted")
    return row("   ", mark, *facts, place, links=links, location=node.location, copy=format_call(node))


def breaks(found: RunDiff, toggled: frozenset[str], width: int) -> Iterator[Row]:  # noqa: ARG001
    """The breaks that only one of the runs has."""
    for change in found.breaks:
        broken = change.item
        if change.kind != "same":
            where = places(found.after.file).describe(broken.location)
            links = (break_link(broken),) if change.after else ()
            facts = (f"{where}  ", "muted"), (broken.code or broken.reason, MARKS[change.kind][1])
            yield row("   ", MARKS[change.kind], *facts, (f"  {broken.id or broken.kind}", "muted"), links=links,
                      location=broken.location)  # fmt: skip


def guards(found: RunDiff, toggled: frozenset[str], width: int) -> Iterator[Row]:  # noqa: ARG001
    """The guards that only one of the runs has, structural ones behind their count."""
    changed = [change for change in found.guards if change.kind != "same"]
    for change in changed:
        if not change.item[1].structural:
            yield _guard_row(change)
    structural = [change for change in changed if change.item[1].structural]
    if structural:
        said = f"{count(len(structural), 'identity check')} on modules and torch itself"
        opened = "diff structural" in toggled
        yield fold("diff structural", opened, (said, "muted"), indent=3)
        yield from (_guard_row(change) for change in (structural if opened else ()))


def _guard_row(change: RunChange[tuple[str, ev.Guard]]) -> Row:
    graph, guard = change.item
    mark, links = MARKS[change.kind], (guard_link(graph, guard),) if change.after else ()
    said = guard.summary or " and ".join(guard.code)
    return row("   ", mark, (f"{graph}  ", "dim"), (guard.name or guard.source or guard.kind, mark[1]), f"  {said}",
               (f"  {guard.kind}", "dim"), links=links, location=guard.location)  # fmt: skip
