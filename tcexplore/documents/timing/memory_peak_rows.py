"""Rows of the timing pane about the peak of memory: what lives at it and why, and the memory over the schedule."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.cells import cell_len

from tcexplore.documents.document import Row
from tcexplore.documents.locations import display_path
from tcexplore.documents.prose import Column, fold, row, shortened, squeezed, table, wrapped
from tcexplore.quantities import count, size
from tcexplore.session import Snapshot
from tcexplore.session.kernel_facts import is_call_of_traced_sizes, traced_sizes
from tcexplore.session.links import Link, line_links
from tcexplore.session.memory_peak import KEPT, LiveTensor, MemoryPeak, TensorGroup, groups, memory_peak, peak_graphs

PEAK = "memory peak"
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
    sizes = traced_sizes(snapshot, peak_graphs(snapshot))
    if sizes and not is_call_of_traced_sizes(snapshot):
        measured = None  # of a call with other sizes, maybe
    share = f", {peak.bytes / measured:.0%} of the measured peak" if measured else f" at {sizes}" if sizes else ""
    yield fold(PEAK, PEAK in opened, f"{PEAK}: {size(peak.bytes)} in the generated code{share}")
    if PEAK not in opened:
        return
    yield row(("   ", ""), (chart(peak.history, min(_CHART, max(width - 8, 16))), "muted"))
    at = f"{peak.phase}, kernel {peak.step + 1} of {peak.steps}" if peak.kernel else "the end of the call"
    yield from wrapped(f"The peak is at {at}{f': {peak.kernel}' if peak.kernel else ''}", width, "muted", indent=3)
    yield from _kinds(peak, width)
    allocated = peak.allocated
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


WIDE = 110
"""Columns from which on lifetimes have ops and modules beside them."""

GROUPS, SMALLEST = 16, 0.005
"""Most rows of lifetimes, and the least share of the peak of each; the others are added up."""

KIND_STYLES = {"activation": "plot.compiled", "gradient": "value", "output": "number", "workspace": "warn"}


def lifetime_rows(peak: MemoryPeak, width: int, unit: str = "kernel") -> Iterator[Row]:
    """Yield what is in use at the peak, in groups, each with its memory over the schedule as bars.

    A column of bars has the most of its positions. A full bar is all of the group, in the first row the peak.
    """
    every = groups(peak.allocated)
    shown = [group for group in every[:GROUPS] if group.bytes >= SMALLEST * peak.bytes]
    # Where a library defines the model, all is called on one line of the user.
    one_line = len({_line(group.first) for group in shown if group.first.location}) <= 1
    labels = [_label(group, width, by_module=one_line) for group in shown]
    room = [max((cell_len(cells[index]) for cells in labels), default=0) for index in range(len(labels[0]))]
    left = sum(room) + 2 * len(room)
    columns = max(width - left - 3, 16)
    yield _ruler(peak, left, columns, unit)
    yield row((" " + f"{'all in use':<{left}}", "strong"), (bars(peak.history, columns, peak.bytes), "strong"))
    for group, cells in zip(shown, labels, strict=True):
        padded = [
            f"{cell:<{space}}" if index > 1 else f"{cell:>{space}}"
            for index, (cell, space) in enumerate(zip(cells, room, strict=True))
        ]
        chart = bars(group.in_use(peak), columns, group.bytes)
        style = KIND_STYLES.get(group.first.kind, "muted")
        text = "".join(f"{cell}  " for cell in padded)
        yield row(" " + text, (chart, style), links=_links(group.first), no_wrap=True)
    if len(every) > len(shown):
        rest = sum(group.bytes for group in every[len(shown) :])
        number = sum(len(group.tensors) for group in every[len(shown) :])
        yield row((f" {size(rest):>{room[0]}}  {count(number, 'smaller tensor')}", "muted"))
    yield row((" " * (1 + left + peak_column(peak, columns)) + "▲", "key"), (f" peak {size(peak.bytes)}", "strong"))


def peak_column(peak: MemoryPeak, columns: int) -> int:
    """Return the column of a chart that has the peak."""
    step = min(peak.step, peak.steps - 1)
    return next(column for column in range(columns) if step in _positions(column, columns, peak.steps))


def _positions(column: int, columns: int, steps: int) -> range:
    """Return the positions of the schedule that a column of a chart shows: at least one."""
    first = column * steps // columns
    return range(first, max((column + 1) * steps // columns, first + 1))


def bars(history: Sequence[int], columns: int, most: int) -> str:
    """Return a value at each position of the schedule as bars over exactly these columns; nothing is a dot."""
    text = []
    for column in range(columns):
        highest = max(history[step] for step in _positions(column, columns, len(history)))
        text.append(_BARS[min(round(highest / most * 8), 8) - 1 if highest * 16 > most else 0] if highest > 0 else "·")
    return "".join(text)


def _ruler(peak: MemoryPeak, left: int, columns: int, unit: str) -> Row:
    """Return a row with the phases over the chart."""
    total = count(peak.steps, unit)
    head = f" {total:<{left}}"
    if peak.forward_steps in (0, peak.steps):
        return row((head, "muted"), (shortened("forward " + "─" * columns, columns), "muted"))
    begin = next(c for c in range(columns) if _positions(c, columns, peak.steps)[-1] >= peak.forward_steps)
    first = ("forward " if begin > len("forward ") else "fwd " if begin > len("fwd ") else "") + "─" * begin
    second = "├ backward " + "─" * columns
    return row((head, "muted"), (first[:begin] + second[: columns - begin], "muted"))


def _label(group: TensorGroup, width: int, *, by_module: bool) -> tuple[str, ...]:
    tensor, number = group.first, len(group.tensors)
    times = f"{number}×" if number > 1 else ""
    op = tensor.op.removeprefix("aten.").partition(".")[0]
    line = _line(tensor) or ""
    kind = SHORT_KINDS.get(tensor.kind, tensor.kind)
    if width < WIDE:
        module = ".".join((group.module or "").split(".")[-2:])
        place = squeezed(module, 14) if by_module and module else shortened(line, 14)
        return size(group.bytes), times, kind, place, shortened(op, 10)
    module = squeezed(group.module or "", 24)
    return size(group.bytes), times, kind, line, shortened(op, 22), module


SHORT_KINDS = {"activation": "saved", "temporary": "temp", "gradient": "grad", "workspace": "scratch"}


def reason_rows(peak: MemoryPeak, width: int) -> Iterator[Row]:
    """Yield why memory is in use at the peak: its bytes by reason."""
    sums: dict[str, list[int]] = {}
    for group in groups(peak.allocated):
        reason = group.reason.partition("; saved for ")[0] if group.first.kind == "activation" else group.reason
        if group.first.kind == "temporary" and reason.endswith(("reads it", "writes it")):
            reason = "temporary: a kernel writes it, or still reads it"
        elif reason.startswith(KEPT) and "reuses" in reason:
            reason = f"temporary: {KEPT}, and kept to be used again"
        known = sums.setdefault(f"saved: {reason}" if group.first.kind == "activation" else reason, [0, 0])
        known[0] += group.bytes
        known[1] += len(group.tensors)
    for reason, (total, number) in sorted(sums.items(), key=lambda item: -item[1][0]):
        if total < SMALLEST * peak.bytes:
            return
        yield from wrapped(f"{reason} ({count(number, 'tensor')})", width, "muted", lead=f"{size(total):>10}  ")


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
