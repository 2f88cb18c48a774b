"""Rows of the timing pane about the peak of memory: what lives at it and why, and the memory over the schedule."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tcexplore.documents.document import Row
from tcexplore.documents.locations import display_path
from tcexplore.documents.prose import Column, fold, row, shortened, table, wrapped
from tcexplore.quantities import count, size
from tcexplore.session import Snapshot
from tcexplore.session.links import Link, line_links
from tcexplore.session.memory_peak import LiveTensor, MemoryPeak, memory_peak

PEAK = "why this peak"
"""Name of the fold."""

LISTED = 20
"""Tensors that are shown; the report as JSON has all."""

MOST_ABOVE = 1.02
"""Factor by which the measured peak may exceed that of the code without a remark."""

LEAST_ROOM = 12
"""Columns that the reason of a tensor needs to be shown."""

_BARS = "▁▂▃▄▅▆▇█"
_CHART = 64
"""Columns of the chart, at most."""


def memory_peak_rows(snapshot: Snapshot, opened: frozenset[str], width: int) -> Iterator[Row]:
    """Yield a fold with what lives at the peak of the compiled call."""
    peak = memory_peak(snapshot)
    if peak is None or not peak.bytes:
        return
    measured = snapshot.memory.compiled_peak if snapshot.memory is not None else None
    share = f", {peak.bytes / measured:.0%} of the measured" if measured else ""
    yield fold(PEAK, PEAK in opened, f"{PEAK}: {size(peak.bytes)} by the code{share}")
    if PEAK not in opened:
        return
    yield row(("   ", ""), (chart(peak.history, min(_CHART, max(width - 8, 16))), "muted"))
    at = f"{peak.phase}, kernel {peak.step + 1} of {peak.steps}" if peak.kernel else "the end of the call"
    yield from wrapped(f"The peak is at {at}{f': {peak.kernel}' if peak.kernel else ''}", width, "muted", indent=3)
    yield from _kinds(peak, width)
    allocated = [tensor for tensor in peak.tensors if tensor.kind not in ("parameter", "input")]
    shown = allocated[:LISTED]
    yield from table(_columns(width), shown, [_links(tensor) for tensor in shown])
    if len(allocated) > LISTED:
        rest = sum(tensor.bytes for tensor in allocated[LISTED:])
        yield row((f"   {count(len(allocated) - LISTED, 'smaller tensor')}, {size(rest)}", "muted"))
    if measured and measured > MOST_ABOVE * peak.bytes:
        text = (
            f"The measured peak is {size(measured - peak.bytes)} higher: library calls allocate memory for themselves."
        )
        yield from wrapped(text, width, "muted", indent=3)
    if peak.unknown:
        yield from wrapped(f"Of unknown size: {', '.join(peak.unknown[:5])}", width, "warn", indent=3)


def chart(history: Sequence[int], width: int) -> str:
    """Return the bytes alive over the schedule as one row of bars; a column has the most of its kernels."""
    if not history:
        return ""
    most = max(history) or 1
    columns = min(width, len(history))
    bars = []
    for column in range(columns):
        first, last = column * len(history) // columns, (column + 1) * len(history) // columns
        highest = max(history[first : max(last, first + 1)])
        bars.append(_BARS[round(highest / most * (len(_BARS) - 1))])
    return "".join(bars)


def _kinds(peak: MemoryPeak, width: int) -> Iterator[Row]:
    sums: dict[str, int] = {}
    for tensor in peak.tensors:
        if tensor.kind not in ("parameter", "input"):
            sums[tensor.kind] = sums.get(tensor.kind, 0) + tensor.bytes
    parts = [f"{size(known)} {_KINDS[kind]}" for kind, known in sorted(sums.items(), key=lambda item: -item[1])]
    yield from wrapped("; ".join(parts), width, "strong", indent=3)


_KINDS = {
    "activation": "saved for the backward", "temporary": "temporary", "gradient": "gradients", "output": "outputs",
    "workspace": "scratch memory",
}  # fmt: skip


def _columns(width: int) -> list[Column[LiveTensor]]:
    room = width - 68
    columns: list[Column[LiveTensor]] = [
        Column("size", lambda tensor: size(tensor.bytes)),
        Column("kind", lambda tensor: tensor.kind, left=True, style="muted"),
        Column("line", _line),
        Column("from – to", _lifetime),
    ]
    if room >= LEAST_ROOM:
        columns.insert(3, Column("op", lambda tensor: shortened(tensor.op.removeprefix("aten."), 14) or None))
        columns.append(Column("why", lambda tensor: shortened(tensor.reason, room), left=True, style="muted"))
    return columns


def _line(tensor: LiveTensor) -> str | None:
    if tensor.location is None:
        return None
    name = display_path(tensor.location.file).rpartition("/")[2]
    return f"{shortened(name, 16)}:{tensor.location.line}"


def _lifetime(tensor: LiveTensor) -> str:
    born = "" if tensor.born is None else str(tensor.born + 1)
    return f"{born} – {'' if tensor.dies is None else tensor.dies + 1}"


def _links(tensor: LiveTensor) -> tuple[Link, ...]:
    return line_links(tensor.location)
