"""Where the graph broke, why, and what was left outside."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import RenderableType
from rich.text import Text

from tcexplore import events as ev
from tcexplore.documents.break_costs_text import cost, together, why
from tcexplore.documents.paths import at
from tcexplore.quantities import count, duration
from tcexplore.report.text.layout import columns, indented, labelled
from tcexplore.session import Snapshot
from tcexplore.session.ranked_breaks import ranked


def breaks(snapshot: Snapshot) -> Iterable[RenderableType]:
    for costed in ranked(snapshot):
        yield from _one(costed.found, snapshot.file)
        if lost := cost(costed, snapshot):
            yield labelled("costs", f"{lost}: {why(costed)}")
    if said := together(snapshot):
        yield indented(said, "dim")


def _one(found: ev.GraphBreak, file: str) -> Iterable[RenderableType]:
    title = Text.assemble(("✖ ", "red"), (at(found.location, file) or "somewhere", "bold"))
    if found.code:
        title.append(f"  {found.code}")
    yield indented(title)
    identity = f"{found.id}  " if found.id else ""
    times = f"  (×{found.count})" if found.count > 1 else ""
    yield indented(f"{identity}{found.reason or found.kind}{times}", by=4)
    explanation = found.explanation or found.registry_explanation
    if explanation:
        yield labelled("why", explanation)
    for hint in found.hints or found.registry_hints:
        yield labelled("try", hint, "green")
    if len(found.stack) > 1:
        yield labelled("from", " → ".join(at(frame, file) for frame in found.stack), "dim")
    if found.url:
        yield labelled("more", found.url, "dim")


def skipped(snapshot: Snapshot) -> Iterable[RenderableType]:
    for frame in snapshot.skipped:
        where = at(frame.frame, snapshot.file)
        yield indented(Text.assemble((f"{frame.frame.function or 'frame'}, {where}", "bold"), f": {frame.reason}"))


def outside(snapshot: Snapshot) -> Iterable[RenderableType]:
    """Ops that ran eagerly although the program was compiled."""
    if snapshot.outside is None or not snapshot.outside.ops:
        return
    yield indented(f"one call enters {count(snapshot.outside.regions, 'compiled region')}, and runs besides:", "dim")
    ops = sorted(snapshot.outside.ops, key=lambda op: -op[2])
    yield from columns([[name, f"×{times}", duration(total / 1e6)] for name, times, total in ops], right=(1,), by=4)
