"""What must stay the same for the graphs to be used again, and where it did not."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import RenderableType
from rich.text import Text

from tcexplore import events as ev
from tcexplore.documents.paths import at
from tcexplore.quantities import count
from tcexplore.report.text.layout import columns, indented, labelled
from tcexplore.session import Snapshot
from tcexplore.session.recompile_count import once_each

LONGEST = 48
"""Characters of a guard's name that are shown."""


def guards(snapshot: Snapshot) -> Iterable[RenderableType]:
    for installed in snapshot.guards:
        readable = [guard for guard in installed.guards if not guard.structural]
        title = Text.assemble((installed.graph, "bold"), f"  {count(len(installed.guards), 'guard')}")
        if installed.latency_us is not None:
            title.append(f", one check takes {installed.latency_us:.0f} µs")
        yield indented(title)
        if readable:
            yield from columns([_row(guard, snapshot.file) for guard in readable], by=4)
        if folded := len(installed.guards) - len(readable):
            yield indented(f"and {count(folded, 'identity check')} on modules and torch itself", "dim", by=4)


def _row(guard: ev.Guard, file: str) -> list[str | Text]:
    checked = guard.summary or " and ".join(guard.code) or guard.kind
    source = guard.source or guard.kind
    return [_shortened(source), Text(at(guard.location, file), "dim"), checked]


def _shortened(source: str) -> str:
    """Both ends of a name: what it belongs to, and what it is."""
    return source if len(source) <= LONGEST else f"{source[: LONGEST // 3]}…{source[-(2 * LONGEST // 3) :]}"


def recompiles(snapshot: Snapshot) -> Iterable[RenderableType]:
    for found, _ in once_each(snapshot):
        entries = f"  entry {found.entries} of {found.limit}" if found.entries and found.limit else ""
        title = Text.assemble(
            (f"{found.of} → {found.graph}", "bold"), f"  {at(found.location, snapshot.file)}{entries}"
        )
        yield indented(title)
        yield labelled("failed", found.failed_guard or found.reason)
        if found.old or found.new:
            yield labelled("was", f"{found.old or '?'}, now {found.new or '?'}")
        if found.limit_hit:
            yield indented("the recompile limit is reached: this frame runs eagerly from now on", "bold red", by=4)
