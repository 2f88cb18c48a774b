"""Compile artifacts that one worker saved and another loaded: what went along, and what it spared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tcexplore.documents.columns import columns
from tcexplore.documents.document import Row, Span
from tcexplore.documents.document_parts import StaticDocument
from tcexplore.documents.prose import BLANK, heading, wrapped
from tcexplore.documents.timing.state_dict_view import checkpoint
from tcexplore.quantities import duration
from tcexplore.session import Snapshot
from tcexplore.session.run_figures import RunFigures
from tcexplore.studies.artifacts import artifacts_text as words
from tcexplore.studies.artifacts.artifacts_result import Shipped
from tcexplore.studies.artifacts.artifacts_result import shipped as both

INTENT = (
    "Your file is compiled in one worker with empty caches, which saves what torch can save of that "
    "(torch.compiler.save_cache_artifacts); another worker, with empty caches as well, loads it first "
    "(torch.compiler.load_cache_artifacts) and then does the same."
)
CODE = ("saved, info = torch.compiler.save_cache_artifacts()", "torch.compiler.load_cache_artifacts(saved)")
"""What the user writes: behind the first calls, and elsewhere before them."""


def shipped(runs: Sequence[Snapshot], *, over: bool, width: int = 78) -> StaticDocument:
    """The document of what there is of both runs."""
    found, rows = both(runs), list(wrapped(INTENT, width, "muted"))
    if found is not None:
        rows += [BLANK, *_figures(found), BLANK, *_said(found, width), BLANK, *_how(found, width)]
        rows += [BLANK, *checkpoint(found.made, width)]
    if over and (found is None or (found.loaded is None and found.saved)):
        rows += [BLANK, *wrapped("Stopped before the second run.", width, "warn")]
    return StaticDocument("", tuple(rows))


def _figures(found: Shipped) -> Iterator[Row]:
    made, loaded = RunFigures(found.made), RunFigures(found.loaded) if found.loaded is not None else None
    rows = [
        _row("first call", made.first_call_s, loaded.first_call_s if loaded else None),
        _row("compiling", made.compile_s, loaded.compile_s if loaded else None),
    ]
    if found.loaded is not None and found.loaded.artifacts_loaded is not None:
        rows.append(_row("loading", None, found.loaded.artifacts_loaded.seconds))
    rows = [cells for cells in rows if any(span.text for cell in cells[1:] for span in cell)]
    yield from columns(("", "saves", "loads"), rows, [()] * len(rows))


def _row(name: str, one: float | None, other: float | None) -> list[tuple[Span, ...]]:
    return [(Span(name),), *(((Span("" if s is None else duration(s), "strong")),) for s in (one, other))]


def _said(found: Shipped, width: int) -> Iterator[Row]:
    yield from wrapped(words.saved(found), width, "ok" if found.saved else "warn")
    for run in (found.made, found.loaded):
        if run is not None and RunFigures(run).failure:
            yield from wrapped(RunFigures(run).failure, width, "error", lead="✖ ")
    for said in filter(None, (words.verdict(found), words.again(found))):
        yield from wrapped(said, width, "strong")


def _how(found: Shipped, width: int) -> Iterator[Row]:
    if found.saved:
        yield heading("How", "behind the first calls here, before them there")
        for line in CODE:
            yield from wrapped(line, width, "code.python")
