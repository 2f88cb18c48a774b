"""Rows of the timing pane: what of a call is replayed from CUDA graphs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from tcexplore import events as ev
from tcexplore.documents.code.kernel_labels import links
from tcexplore.documents.document import Row
from tcexplore.documents.prose import BLANK, heading, wrapped
from tcexplore.quantities import count, size
from tcexplore.session import Snapshot

_LOGGED = "skipping cudagraphs due to "


def cuda_graph_rows(snapshot: Snapshot, width: int) -> Iterator[Row]:
    """What was recorded, and what was not and why; nothing where torch tried neither."""
    text = summarize_cuda_graphs(snapshot)
    if not text:
        return
    yield BLANK
    yield heading("CUDA graphs")
    yield from wrapped(text, width)
    for one in snapshot.cuda_graphs:
        yield from wrapped(describe_recorded(one), width, "muted", indent=3)
    for kernels, reason in skipped_reasons(snapshot):
        own = tuple(link for kernel in kernels for link in links(kernel))
        place = next((kernel.source_lines[0] for kernel in kernels if kernel.source_lines), None)
        yield from wrapped(reason, width, "warn", lead="! ", links=own, location=place)


def summarize_cuda_graphs(snapshot: Snapshot) -> str:
    """How much of a call is replayed; empty where torch neither recorded nor skipped anything."""
    if not snapshot.cuda_graphs and not snapshot.cuda_graphs_skipped:
        return ""
    text = count(len(snapshot.cuda_graphs), "CUDA graph") + " recorded"
    call = snapshot.call_profile
    if call is None or not snapshot.cuda_graphs:
        return text
    saved = call.replayed_tasks - call.replays
    alone = call.device_tasks - call.replayed_tasks
    rest = f", {alone} more launched one by one" if alone else ""
    launches = "1 launch" if call.replays == 1 else f"{call.replays} launches"
    return f"{text}: a call replays {call.replayed_tasks} kernels and copies with {launches}, {saved} saved{rest}"


def describe_recorded(one: ev.CudaGraphRecorded) -> str:
    """`0/0 forward partition_0: 2 inputs copied before each replay (128 KiB), 1.5 MiB in use while recorded`."""
    parts = [f"{one.graph} {one.phase}".strip() + (f" {one.part}" if one.part else "")]
    copies = f"{count(one.inputs_copied, 'input')} copied before each replay ({size(one.inputs_copied_bytes)})"
    parts.append(copies if one.inputs_copied else "no input copied")
    if one.peak_bytes is not None:
        parts.append(f"{size(one.peak_bytes)} in use at most")
    return f"{parts[0]}: {', '.join(parts[1:])}"


def skipped_reasons(snapshot: Snapshot) -> Iterator[tuple[tuple[ev.Kernel, ...], str]]:
    """Each reason once, with the kernels that it keeps out of the CUDA graphs, in torch's words."""
    nodes: dict[tuple[str, str, str], set[str]] = defaultdict(set)
    for one in snapshot.cuda_graphs_skipped:
        nodes[one.graph, one.phase, one.reason].update(one.nodes)
    for (graph, phase, reason), left_out in nodes.items():
        kernels = tuple(
            kernel
            for kernel in snapshot.code.kernels
            if (kernel.graph, kernel.phase, kernel.target) == (graph, phase, "native")
            and not left_out.isdisjoint(kernel.scheduler_nodes)
        )
        names = f" ({', '.join(kernel.name for kernel in kernels)})" if kernels else ""
        where = f"{graph} {phase}".strip()
        yield kernels, f"{where}{': ' if where else ''}not recorded{names}: {_plain(reason)}"


def _plain(reason: str) -> str:
    """torch's reason without the words that it begins its log message with."""
    while reason.startswith(_LOGGED):
        reason = reason.removeprefix(_LOGGED)
    return reason.strip()
