"""Fake runs and sessions for tests of panes and screens."""

from __future__ import annotations

from tcexplore.session import Session, Snapshot
from tests.snapshots import large
from tests.snapshots.mlp_source import FILE, FOLDER, SOURCE
from tests.snapshots.runs import (
    complete,
    facts_missing,
    failed,
    grow,
    nothing_compiled,
    one_graph,
    recompiled,
    running,
    two_files,
)

__all__ = [
    "FILE", "FOLDER", "SOURCE", "complete", "facts_missing", "failed", "grow", "large", "nothing_compiled", "one_graph",
    "recompiled", "running", "session", "sitting", "two_files",
]  # fmt: skip


def session(*runs: Snapshot, pinned: int | None = None) -> Session:
    """Return a session of these runs, oldest first."""
    return Session(runs=runs, pinned=pinned)


def sitting() -> Session:
    """Return five runs: an error, nothing compiled, one break, one graph, and one in progress."""
    return session(failed(4), nothing_compiled(5), complete(7), one_graph(8), running(9))
