"""The resources view: registers, shared memory, occupancy and instructions of each kernel."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tcexplore.documents.document import Parts, Row, Span, fixed
from tcexplore.documents.labels import Labels, kernel_links, labels
from tcexplore.documents.prose import BLANK, columns, fold, row, wrapped
from tcexplore.events import Kernel, KernelResources
from tcexplore.quantities import count, size
from tcexplore.session import Snapshot
from tcexplore.session.kernel_facts import kernel_facts
from tcexplore.session.links import kernel_link

HEAD = ("kernel", "occupancy", "limited by", "registers", "spills", "shared", "warps", "stages", "threads")


def resources_section(snapshot: Snapshot, toggled: frozenset[str], width: int) -> Parts:
    """Return a table of the kernels that were assembled, and details of each."""
    known = labels(snapshot)
    taken = [
        (k, made.resources)
        for k in snapshot.code.kernels
        if (made := kernel_facts(snapshot.code, k).assembled) and made.resources
    ]
    if not taken:
        return Parts("", [])
    rows = [_cells(kernel, resources, known) for kernel, resources in taken]
    table = columns(HEAD, rows, [kernel_links(kernel) for kernel, _ in taken], left=(0, 2))
    details = (line for kernel, resources in taken for line in _details(kernel, resources, known, toggled, width))
    warned = sum(bool(resources.warnings) for _, resources in taken)
    warnings = f"{warned} with a warning" if warned else "no warnings"
    title = f"{count(len(taken), 'kernel')}{snapshot.for_target}, {warnings}"
    return Parts(title, [fixed(table), fixed([BLANK]), fixed(details), fixed(_source_rows(width))])


def _cells(kernel: Kernel, resources: KernelResources, known: Labels) -> Sequence[tuple[Span, ...]]:
    shared = resources.shared_static + resources.shared_dynamic
    low = "warn" if resources.occupancy < 0.25 else ""
    return (
        known.kernel[kernel_link(kernel)].spans,
        (Span(f"{resources.occupancy:.0%}", low),),
        (Span(resources.limited_by or "–", "muted"),),
        (Span(str(resources.registers)),),
        (Span(size(resources.spills) if resources.spills else "–", "warn" if resources.spills else "muted"),),
        (Span(size(shared) if shared else "–"),),
        (Span(str(resources.num_warps)),),
        (Span(str(resources.num_stages)),),
        (Span(str(resources.threads)),),
    )


def _details(
    kernel: Kernel, resources: KernelResources, known: Labels, toggled: frozenset[str], width: int
) -> Iterator[Row]:
    """Yield the warnings, and a fold with shared memory and the instruction mix."""
    name = f"resources {kernel.graph} {kernel.phase} {kernel.name}"
    opened = name in toggled
    label = ((span.text, span.style) for span in known.kernel[kernel_link(kernel)].spans)
    total = sum(number for _, number in resources.mix)
    text = f"  {count(total, 'instruction')}"
    yield fold(
        name, opened, *label, (f" {kernel.name}", "heading"), (text, "muted"), indent=0, links=kernel_links(kernel)
    )
    for warning in resources.warnings:
        yield from wrapped(warning, width, "warn", indent=3, lead="! ", links=kernel_links(kernel))
    if not opened:
        return
    fits = f"{count(resources.blocks, 'block')} per SM at once, {resources.threads} threads each"
    stack = f", stack {size(resources.stack)} per thread" if resources.stack else ""
    shared = f"shared memory: {size(resources.shared_static)} static, {size(resources.shared_dynamic)} dynamic"
    yield from wrapped(f"{fits} · {shared}{stack}", width, "muted", indent=3)
    longest = max((len(kind) for kind, _ in resources.mix), default=0)
    for kind, number in resources.mix:
        bar = "█" * max(1, round(number / total * max(width - longest - 20, 10)))
        yield row((f"   {kind:<{longest}} ", ""), (f"{number:>6} ", "number"), (bar, "plot.compiled"))


def _source_rows(width: int) -> Iterator[Row]:
    yield BLANK
    text = (
        "Registers, spills and shared memory come from the assembler. Occupancy is the vendor's theoretical limit. "
        "Instructions count once, regardless of loops."
    )
    yield from wrapped(text, width, "dim")
