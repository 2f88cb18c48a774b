"""What went wrong, where in the person's file, and what to try; and which facts are not known."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import RenderableType
from rich.text import Text

from tcexplore.report.paths import at
from tcexplore.report.text.layout import columns, indented, labelled
from tcexplore.session import Snapshot

BLAME = {"person": "in your file or arguments", "compiler": "in torch or the worker, not in your file"}


def error(snapshot: Snapshot) -> Iterable[RenderableType]:
    failed = snapshot.failed
    if failed is None:
        return
    where = at(failed.location, snapshot.file)
    yield indented(Text.assemble((where or failed.stage, "bold"), f"  {BLAME.get(failed.blame, failed.blame)}"))
    yield indented(Text(f"{failed.type}: {failed.message}", "red"))
    if failed.hint:
        yield labelled("try", failed.hint, "green")
    if failed.traceback:
        yield indented(failed.traceback.rstrip("\n"), "dim", by=4)


def missing(snapshot: Snapshot) -> Iterable[RenderableType]:
    if snapshot.missing:
        yield from columns([[fact.fact, fact.reason] for fact in snapshot.missing])
