"""What went wrong, where in the user's file, and what to try; and which facts are not known."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import RenderableType
from rich.text import Text

from tcexplore.documents.paths import at
from tcexplore.documents.phase_names import PHASES
from tcexplore.report.text.layout import columns, indented, labelled
from tcexplore.session import Snapshot

BLAME = {"user": "your code", "compiler": "torch or the worker, not your code"}

STAGES = PHASES | {"file": "the file", "arguments": "the arguments", "worker": "the worker process"}


def error(snapshot: Snapshot) -> Iterable[RenderableType]:
    failed = snapshot.failed
    if failed is None:
        return
    where = at(failed.location, snapshot.file)
    asked = failed.stage in {"file", "arguments"}
    title = Text(STAGES.get(failed.stage, failed.stage), "bold")
    title.append(f", {where}" if where else "", "bold")
    title.append("" if asked else f": {BLAME.get(failed.blame, failed.blame)}")
    yield indented(title)
    yield indented(Text(f"{failed.type}: {failed.message}", "red"))
    if failed.hint:
        yield labelled("try", failed.hint, "green")
    if failed.traceback and not (asked and failed.location is None):
        yield indented(failed.traceback.rstrip("\n"), "dim", by=4)


def missing(snapshot: Snapshot) -> Iterable[RenderableType]:
    if snapshot.missing:
        yield from columns([[fact.fact, fact.reason] for fact in snapshot.missing])
