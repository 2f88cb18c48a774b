"""Which buffers take over the memory of others, as Inductor's memory planner decided for the wrapper."""

from __future__ import annotations

from collections.abc import Iterator

from tcexplore.documents.document import Row, Span
from tcexplore.documents.labels import Labels, labels
from tcexplore.documents.prose import fold, row
from tcexplore.events import Kernel, Wrapper
from tcexplore.quantities import count
from tcexplore.session import Snapshot
from tcexplore.session.links import kernel_link


def buffer_reuse_rows(snapshot: Snapshot, graph: str, toggled: frozenset[str], width: int) -> Iterator[Row]:  # noqa: ARG001
    """The rows on the wrappers of one graph."""
    known = labels(snapshot)
    for wrapper in snapshot.code.wrappers:
        if wrapper.graph == graph:
            yield from _wrapper(snapshot, wrapper, known, toggled)


def _wrapper(snapshot: Snapshot, wrapper: Wrapper, known: Labels, toggled: frozenset[str]) -> Iterator[Row]:
    if not wrapper.reused:
        yield row((f" no memory is used twice in the {wrapper.phase} wrapper", "muted"))
        return
    name = f"reused {wrapper.graph} {wrapper.phase}"
    opened = name in toggled
    said = f"  {count(len(wrapper.reused), 'buffer')} of the {wrapper.phase} in the memory of another"
    yield fold(name, opened, ("memory used again", "heading"), (said, "muted"), indent=1)
    if opened:
        by = _written_by(snapshot, wrapper)
        yield from (_row(freed, new, by, known) for freed, new in wrapper.reused)


def _row(freed: str, new: str, by: dict[str, Kernel], known: Labels) -> Row:
    writers = [by[name] for name in (freed, new) if name in by]
    links = tuple(kernel_link(kernel) for kernel in dict.fromkeys(writers))
    return row(
        ("   ", ""), *_buffer(freed, by, known), (" → ", "muted"), *_buffer(new, by, known), links=links,
        copy=f"{freed} → {new}",
    )  # fmt: skip


def _buffer(name: str, by: dict[str, Kernel], known: Labels) -> tuple[Span, ...]:
    """The buffer, and the kernel that writes it."""
    kernel = by.get(name)
    label = known.kernel[kernel_link(kernel)].spans if kernel else ()
    return (Span(f"{name} ", "node"), *label)


def _written_by(snapshot: Snapshot, wrapper: Wrapper) -> dict[str, Kernel]:
    ours = (k for k in snapshot.code.kernels if (k.graph, k.phase) == (wrapper.graph, wrapper.phase))
    return {buffer: kernel for kernel in ours for buffer in kernel.buffers}
