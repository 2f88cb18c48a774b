"""The GPU in the machine: what it is, what it chose, what is replayed from CUDA graphs."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import RenderableType

from tcexplore.documents import autotuning_text as tuning_words
from tcexplore.documents import cuda_graphs_text as graph_words
from tcexplore.documents import device_text as words
from tcexplore.quantities import duration
from tcexplore.report.text.layout import columns, indented
from tcexplore.session import Snapshot

MOST = 5
"""So many choices of each are printed; the JSON has all."""


def device(snapshot: Snapshot) -> Iterable[RenderableType]:
    """Nothing on a CPU."""
    for said in words.facts(snapshot.device) if snapshot.device else ():
        yield indented(said, "yellow" if said.startswith("slowed") else "")


def cuda_graphs(snapshot: Snapshot) -> Iterable[RenderableType]:
    said = graph_words.headline(snapshot)
    if not said:
        return
    yield indented(said)
    for one in snapshot.cuda_graphs:
        yield indented(graph_words.recorded(one), "dim", by=4)
    for _, reason in graph_words.skipped(snapshot):
        yield indented(f"! {reason}", "yellow", by=4)


def autotuning(snapshot: Snapshot) -> Iterable[RenderableType]:
    for tuned in snapshot.tuned:
        yield indented(f"{tuning_words.subject(tuned)}, {tuned.graph} {tuned.phase}: {tuning_words.outcome(tuned)}")
        rows = [
            ("not measured" if one.us is None else duration(one.us / 1e6), "*" if one.taken else "", one.kind, one.name)
            for one in tuned.choices[:MOST]
        ]
        yield from columns(rows, right=(0,), by=4)
