"""What each kernel reached on the device in the machine: its measured time, and the rates against the peaks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tcexplore.documents.code.kernel_labels import links
from tcexplore.documents.columns import Cell, columns
from tcexplore.documents.device_text import format_rate
from tcexplore.documents.document import Row, Span
from tcexplore.documents.labels import Labels
from tcexplore.documents.prose import BLANK, heading, wrapped
from tcexplore.events import Kernel
from tcexplore.quantities import duration
from tcexplore.session.achieved_rates import Achieved
from tcexplore.session.links import kernel_link

HEAD = ("kernel", "measured", "launches", "memory", "of peak", "arithmetic", "of peak", "of the roof")

SLOW = 0.5
"""Below this share of what its bound allows, a kernel of some length is worth a look."""

Measured = tuple[Kernel, Achieved]


def achieved_rows(found: Sequence[Measured], known: Labels, width: int) -> Iterator[Row]:
    """A table of the kernels that were measured; nothing where none was."""
    if not found:
        return
    yield BLANK
    yield heading("Measured")
    yield from columns(HEAD, [_cells(*each, known) for each in found], [links(kernel) for kernel, _ in found])
    said = (
        "Measured: the device's own time under torch's profiler, the median of a few calls, with warm caches. `of the "
        "roof` is the least time that the bound allows over this time; a kernel of a few microseconds stays far below."
    )
    yield from wrapped(said, width, "dim")


def _cells(kernel: Kernel, found: Achieved, known: Labels) -> Sequence[Cell]:
    return (
        known.kernel[kernel_link(kernel)].spans,
        (Span(duration(found.timed.us / 1e6), "strong"),),
        (Span(f"{found.timed.count} replayed" if found.timed.replayed else str(found.timed.count)),),
        (Span(format_rate(found.memory, "B/s") if found.memory else "–"),),
        (Span(_share(found.memory_share), "number"),),
        (Span(format_rate(found.compute, "FLOP/s") if found.compute else "–"),),
        (Span(_share(found.compute_share), "number"),),
        (Span(_share(found.of_bound), "warn" if (found.of_bound or 1.0) < SLOW else "number"),),
    )


def _share(share: float | None) -> str:
    return "–" if share is None else f"{share:.0%}"
