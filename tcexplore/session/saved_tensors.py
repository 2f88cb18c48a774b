"""What compiled code keeps for the backward pass."""

from __future__ import annotations

from tcexplore.session.code import NATIVE
from tcexplore.session.snapshot import Snapshot


def saved_for_backward(snapshot: Snapshot) -> int | None:
    """Bytes that the compiled forward, as it runs here, hands to the backward, inputs left out; None where a size is
    unknown or nothing was partitioned."""
    partitions = snapshot.code_for(NATIVE).partitions
    sizes = [saved.bytes for part in partitions for saved in part.saved if not saved.input]
    known = [size for size in sizes if size is not None]
    return sum(known) if partitions and len(known) == len(sizes) else None
