"""Kernels that the user names for a study."""

from __future__ import annotations

from tcexplore.documents.labels import labels
from tcexplore.events import Kernel
from tcexplore.session import Snapshot
from tcexplore.session.links import kernel_link
from tcexplore.session.stable_ids import stable_ids

SHORTEST_ID = 4
"""Characters of an id that identify a kernel."""


def kernels_named(run: Snapshot, name: str) -> list[Kernel]:
    """Return the kernels of a name such as `triton_poi_fused_0`, a label such as `kernel 2`, or the start of an id."""
    known, ids = labels(run).kernel, stable_ids(run)
    return [
        kernel
        for kernel in run.code.kernels
        if (len(name) >= SHORTEST_ID and ids.kernel(kernel).startswith(name))
        or name in (kernel.name, known[kernel_link(kernel)].name)
    ]
