"""Older runs of the history: compressed to about a tenth of their memory, or on disk."""

from __future__ import annotations

import pickle
import zlib
from dataclasses import dataclass

from tcexplore.session.run_summary import RunSummary, summarize
from tcexplore.session.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class PackedRun:
    """A run that is over. `unpack` returns its snapshot."""

    run: int
    summary: RunSummary
    data: bytes
    """The pickled snapshot, compressed. It never leaves this process."""

    def unpack(self) -> Snapshot:
        """Return the snapshot."""
        snapshot: Snapshot = pickle.loads(zlib.decompress(self.data))
        return snapshot


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A run of an earlier start of the app."""

    run: int
    """Negative: -1 for the newest."""
    summary: RunSummary
    file: str
    """The file that holds its snapshot."""


def pack(snapshot: Snapshot) -> PackedRun:
    """Compress a run."""
    data = pickle.dumps(snapshot, pickle.HIGHEST_PROTOCOL)
    return PackedRun(snapshot.run, summarize(snapshot), zlib.compress(data, 1))
