"""What the user's program printed: its end, when there is much of it."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import RenderableType

from tcexplore.quantities import count
from tcexplore.report.text.layout import indented
from tcexplore.session import Snapshot

SHOWN = 20
"""Lines."""


def output(snapshot: Snapshot) -> Iterable[RenderableType]:
    lines = "".join(piece.text for piece in snapshot.output).splitlines()
    if len(lines) > SHOWN:
        yield indented(f"… {count(len(lines) - SHOWN, 'line')} before these (all of them: --json)", "dim")
    for line in lines[-SHOWN:]:
        yield indented(line)
