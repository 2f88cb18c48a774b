"""Where compiling spent its time."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import RenderableType

from tcexplore.documents import compile_time_text as words
from tcexplore.report.text.layout import columns, indented
from tcexplore.session import Snapshot
from tcexplore.session.compile_time import compile_time as tree_of


def compile_time(snapshot: Snapshot) -> Iterable[RenderableType]:
    found = tree_of(snapshot)
    if not found.roots:
        return
    yield indented(words.headline(found))
    rows = [[seconds, share, f"{'  ' * depth}{name}"] for depth, name, seconds, share in words.lines(found)]
    yield from columns(rows, right=(0, 1), by=4)
    beside = [[seconds, share, name] for name, seconds, share in words.beside(found)]
    if beside:
        yield indented(words.BESIDE, by=4)
        yield from columns(beside, right=(0, 1), by=4)
    for line in words.kernels(snapshot):
        yield indented(line, by=4)
