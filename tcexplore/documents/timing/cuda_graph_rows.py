"""Rows of the timing pane: the device, and what of a call is replayed from CUDA graphs."""

from __future__ import annotations

from collections.abc import Iterator

from tcexplore.documents import cuda_graphs_text as words
from tcexplore.documents import device_text as device_words
from tcexplore.documents.code.kernel_labels import links
from tcexplore.documents.document import Row
from tcexplore.documents.prose import BLANK, heading, wrapped
from tcexplore.session import Snapshot


def device_rows(snapshot: Snapshot, width: int) -> Iterator[Row]:
    """What the GPU is and how it is doing; nothing on a CPU."""
    if snapshot.device is None:
        return
    yield BLANK
    yield heading("Device")
    for said in device_words.describe_device(snapshot.device):
        yield from wrapped(said, width, "warn" if said.startswith("slowed") else "")


def cuda_graph_rows(snapshot: Snapshot, width: int) -> Iterator[Row]:
    """What was recorded, and what was not and why; nothing where torch tried neither."""
    said = words.summarize_cuda_graphs(snapshot)
    if not said:
        return
    yield BLANK
    yield heading("CUDA graphs")
    yield from wrapped(said, width)
    for one in snapshot.cuda_graphs:
        yield from wrapped(words.describe_recorded(one), width, "muted", indent=3)
    for kernels, reason in words.skipped_reasons(snapshot):
        own = tuple(link for kernel in kernels for link in links(kernel))
        place = next((kernel.source_lines[0] for kernel in kernels if kernel.source_lines), None)
        yield from wrapped(reason, width, "warn", lead="! ", links=own, location=place)
