"""The code pane: the kernels with their fused ops and their source, and the wrappers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

from tcexplore.documents.code.target_notes import (
    count_kernels,
    describe_loops,
    describe_vectors,
    format_estimate,
    format_resources,
    is_of_this_machine,
    target_rows,
)
from tcexplore.documents.document import Part, Parts, Row, by_identity, fixed
from tcexplore.documents.empty_states import empty_part
from tcexplore.documents.highlight import Highlighted, highlighted
from tcexplore.documents.labels import KernelLines, Labels, kernel_heading, kernel_links, kernel_row, labels
from tcexplore.documents.locations import places
from tcexplore.documents.prose import BLANK, fold, row, wrapped
from tcexplore.documents.timing.device_rows import format_measured
from tcexplore.events import Kernel, Wrapper
from tcexplore.quantities import count
from tcexplore.session import Snapshot
from tcexplore.session.kernel_facts import achieved, kernel_facts, kernel_loops

EMPTY_TEXT = (
    "Inductor's kernels appear here: C++ for a CPU, Triton for a GPU, each with its fused ops, every statement with "
    "its op. The wrapper that calls them comes last."
)


def kernels_document(snapshot: Snapshot, toggled: frozenset[str] = frozenset(), width: int = 78) -> Parts:
    """Return the document of the pane."""
    if not snapshot.code.kernels and not snapshot.code.wrappers:
        return Parts("", [fixed(target_rows(snapshot, toggled, width)), empty_part(snapshot, width, EMPTY_TEXT)])
    known = labels(snapshot)
    parts = [fixed(target_rows(snapshot, toggled, width))]
    parts += [_contents(snapshot, known, width)] if len(snapshot.code.kernels) > 1 else []
    for kernel in snapshot.code.kernels:
        parts += _kernel(snapshot, kernel, known, toggled, width)
    for wrapper in snapshot.code.wrappers:
        parts += _wrapper(wrapper, toggled)
    return Parts(count_kernels(snapshot), parts)


def _contents(snapshot: Snapshot, known: Labels, width: int) -> Part:
    """Return a row for each kernel in call order, under headings if there are several graphs or phases."""
    number = max((len(label.text) for label in known.kernel.values()), default=0)
    where = places(snapshot.file)
    groups = [(key, list(group)) for key, group in groupby(snapshot.code.kernels, lambda k: (k.graph, k.phase))]
    entries: list[Kernel | Row] = []
    for (graph, phase), group in groups:
        machine = ("  for this machine" if is_of_this_machine(snapshot, group[0]) else "", "warn")
        entries += [row((f" {graph}", "title"), (f" {phase}", "muted"), machine)] if len(groups) > 1 else []
        entries += group
    entries.append(BLANK)

    def build(index: int) -> Row:
        entry = entries[index]
        if isinstance(entry, Row):
            return entry
        return kernel_row(entry, known, where, number, width)._replace(target=_fold(entry))

    return Part(len(entries), build)


def _kernel(snapshot: Snapshot, kernel: Kernel, known: Labels, toggled: frozenset[str], width: int) -> Iterable[Part]:
    """Yield one kernel; an extern kernel, which has no source, is folded at first."""
    name = _fold(kernel)
    opened = (name in toggled) != kernel.generated
    yield _heading(kernel, known, snapshot.file, name, opened, width)
    if opened:
        yield fixed(_figures(snapshot, kernel, width))
        rows = _lines(kernel, known)
        yield Part(len(rows), rows.row)
        yield fixed([BLANK])


def kernel_figure_rows(snapshot: Snapshot, width: int) -> Iterator[Row]:
    """Yield for each kernel its name, ops, lines and figures, without its source."""
    known, where = labels(snapshot), places(snapshot.file)
    for kernel in snapshot.code.kernels:
        yield from kernel_heading(kernel, known, where, _fold(kernel), opened=True, width=width)
        yield from _figures(snapshot, kernel, width)


def _figures(snapshot: Snapshot, kernel: Kernel, width: int) -> Iterator[Row]:
    """Yield the resources and rates of a kernel, as far as known."""
    facts = kernel_facts(snapshot.code, kernel)
    made, failed, point = facts
    parts = [format_resources(made.resources)] if made and made.resources else []
    parts += [describe_vectors(made.vectors)] if made and made.vectors else []
    parts += [format_estimate(point)] if point else []
    if how := describe_loops(kernel_loops(snapshot.code, kernel)):
        parts = [how, *parts]
    reached = achieved(snapshot, kernel, facts)
    parts += [format_measured(reached)] if reached else []
    own = kernel_links(kernel)
    if parts:
        yield from wrapped(" · ".join(parts), width, "muted", indent=3, links=own)
    for warning in made.resources.warnings if made and made.resources else ():
        yield from wrapped(warning, width, "warn", indent=3, lead="! ", links=own)
    if failed:
        yield from wrapped(f"not assembled: {failed.reason}", width, "warn", indent=3, links=own)


def _fold(kernel: Kernel) -> str:
    return f"kernel {kernel.graph} {kernel.phase} {kernel.name}"


@by_identity(1024)
def _heading(kernel: Kernel, known: Labels, file: str, name: str, opened: bool, width: int) -> Part:
    return fixed(kernel_heading(kernel, known, places(file), name, opened, width), known.title(kernel))


@by_identity(512)
def _lines(kernel: Kernel, known: Labels) -> KernelLines:
    return KernelLines(kernel, known)


def _wrapper(wrapper: Wrapper, toggled: frozenset[str]) -> Iterable[Part]:
    """Yield the wrapper that calls the kernels, folded at first."""
    name = f"wrapper {wrapper.graph} {wrapper.phase}"
    opened = name in toggled
    text = highlighted(wrapper.source, "python")
    facts = f"  graph {wrapper.graph} {wrapper.phase}, {count(len(text.lines), 'line')}  {wrapper.path}"
    yield fixed([fold(name, opened, ("wrapper", "heading"), (facts, "muted"), indent=0, copy=wrapper.path or None)])
    if opened:
        yield Part(len(text.lines), lambda index: _plain(text, index))


def _plain(text: Highlighted, index: int) -> Row:
    number = len(str(len(text.lines)))
    spans = ((span.text, span.style) for span in text.raw(index))
    return row((f" {index + 1:>{number}}  ", "dim"), *spans, copy=text.lines[index])
