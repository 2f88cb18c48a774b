"""Rows of the timing pane about CUDA graphs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from tcexplore import events as ev
from tcexplore.documents.code.kernel_labels import kernel_links
from tcexplore.documents.document import Row
from tcexplore.documents.prose import BLANK, heading, wrapped
from tcexplore.quantities import count, size
from tcexplore.session import Snapshot

_LOGGED = "skipping cudagraphs due to "


def cuda_graph_rows(snapshot: Snapshot, width: int) -> Iterator[Row]:
    """Yield the recorded CUDA graphs and the reasons for skipping others, nothing if torch tried neither."""
    text = summarize_cuda_graphs(snapshot)
    if not text:
        return
    yield BLANK
    yield heading("CUDA graphs")
    yield from wrapped(text, width)
    for recorded in snapshot.cuda_graphs:
        yield from wrapped(describe_recorded(recorded), width, "muted", indent=3)
    for kernels, reason in skipped_reasons(snapshot):
        own = tuple(link for kernel in kernels for link in kernel_links(kernel))
        place = next((kernel.source_lines[0] for kernel in kernels if kernel.source_lines), None)
        yield from wrapped(reason, width, "warn", lead="! ", links=own, location=place)


def summarize_cuda_graphs(snapshot: Snapshot) -> str:
    """Return how much of a call is replayed, empty if torch neither recorded nor skipped anything."""
    if not snapshot.cuda_graphs and not snapshot.cuda_graphs_skipped:
        return ""
    text = count(len(snapshot.cuda_graphs), "CUDA graph") + " recorded"
    call = snapshot.call_profile
    if call is None or not snapshot.cuda_graphs:
        return text
    alone = call.device_tasks - call.replayed_tasks
    rest = f"; {alone} are launched separately" if alone else ""
    launches = "1 launch" if call.replays == 1 else f"{call.replays} launches"
    return f"{text}: a call replays {call.replayed_tasks} kernels and copies in {launches}{rest}"


def describe_recorded(recorded: ev.CudaGraphRecorded) -> str:
    """Return `0/0 forward partition_0: 2 inputs copied before replay (128 KiB), peak 1.5 MiB`."""
    parts = [f"{recorded.graph} {recorded.phase}".strip() + (f" {recorded.part}" if recorded.part else "")]
    copies = f"{count(recorded.inputs_copied, 'input')} copied before a replay ({size(recorded.inputs_copied_bytes)})"
    parts.append(copies if recorded.inputs_copied else "no inputs copied")
    if recorded.peak_bytes is not None:
        parts.append(f"peak {size(recorded.peak_bytes)}")
    return f"{parts[0]}: {', '.join(parts[1:])}"


def skipped_reasons(snapshot: Snapshot) -> Iterator[tuple[tuple[ev.Kernel, ...], str]]:
    """Yield each of torch's reasons once, with the kernels that it keeps out of the CUDA graphs."""
    nodes: dict[tuple[str, str, str], set[str]] = defaultdict(set)
    for skip in snapshot.cuda_graphs_skipped:
        nodes[skip.graph, skip.phase, skip.reason].update(skip.nodes)
    for (graph, phase, reason), left_out in nodes.items():
        kernels = tuple(
            kernel
            for kernel in snapshot.code.kernels
            if (kernel.graph, kernel.phase, kernel.target) == (graph, phase, "native")
            and not left_out.isdisjoint(kernel.scheduler_nodes)
        )
        names = f" ({', '.join(kernel.name for kernel in kernels)})" if kernels else ""
        where = f"{graph} {phase}".strip()
        yield kernels, f"{where}{': ' if where else ''}not recorded{names}: {_without_prefix(reason)}"


def _without_prefix(reason: str) -> str:
    """Return torch's reason without the prefix of its log message."""
    while reason.startswith(_LOGGED):
        reason = reason.removeprefix(_LOGGED)
    return reason.strip()
