"""The code pane: the kernels with their fused ops and their source, and the wrappers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby

from tcexplore.documents.code.target_notes import (
    count_kernels,
    describe_loops,
    describe_vectors,
    format_estimate,
    format_resources,
    generated_and_extern,
    is_of_this_machine,
    target_rows,
)
from tcexplore.documents.code.wrapped_lines import WrappedLines
from tcexplore.documents.document import Part, Parts, Row, by_identity, fixed
from tcexplore.documents.empty_states import empty_part
from tcexplore.documents.highlight import Highlighted, highlighted
from tcexplore.documents.labels import (
    KernelLines,
    Labels,
    format_traffic,
    is_users,
    kernel_heading,
    kernel_links,
    kernel_row,
    labels,
    op_spans,
)
from tcexplore.documents.locations import places
from tcexplore.documents.module_folds import KernelGroup, kernel_groups
from tcexplore.documents.prose import BLANK, fold, row, wrapped
from tcexplore.documents.timing.device_rows import format_measured
from tcexplore.events import CallPart, Kernel, Wrapper
from tcexplore.events.base import frame_number
from tcexplore.quantities import count, duration, first_of
from tcexplore.session import Snapshot
from tcexplore.session.call_account import CallAccount
from tcexplore.session.kernel_facts import (
    achieved,
    idle_graphs,
    kernel_facts,
    kernel_loops,
    kernels_that_run,
    traced_sizes,
)
from tcexplore.session.links import kernel_link, line_link
from tcexplore.targets.target_names import NATIVE

GROUPED = "grouped kernels"
"""The fold that shows all kernels one by one."""

NAMED = 6
"""Graphs that a sentence names."""

_LABEL_WIDTH = 10
"""Cells for the label of a kernel and the number of its launches."""

NARROW = 60
"""Columns below which C++ is less indented."""

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
    idle = idle_graphs(snapshot)
    # What runs comes first.
    groups = sorted(kernel_groups(snapshot, snapshot.code), key=lambda group: group.graph in idle)
    alike = [group.kernels for group in groups] or [(kernel,) for kernel in snapshot.code.kernels]
    may_group = any(len(group.kernels) > 1 for group in groups)
    grouped = may_group and GROUPED not in toggled
    parts.append(fixed(_slowest(snapshot, alike, known, grouped=grouped)))
    parts.append(fixed(idle_rows(snapshot, width)))
    if may_group:
        parts.append(fixed([grouping_row(snapshot, toggled, groups)]))
    if grouped:
        for group in groups:
            parts += _group(snapshot, group, known, toggled, width, runs=group.graph not in idle)
    else:
        parts += [_contents(snapshot, known, width)] if len(snapshot.code.kernels) > 1 else []
        for kernel in snapshot.code.kernels:
            parts += _kernel(snapshot, kernel, known, toggled, width)
    for wrapper in snapshot.code.wrappers:
        parts += _wrapper(wrapper, toggled)
    return Parts(count_kernels(snapshot), parts)


def idle_rows(snapshot: Snapshot, width: int) -> Iterator[Row]:
    """Yield the graphs that the measured call does not run."""
    if idle := idle_graphs(snapshot):
        names = f"{'graph' if len(idle) == 1 else 'graphs'} {first_of(idle, NAMED)}"
        text = f"The measured call does not run {names}: {'its' if len(idle) == 1 else 'their'} kernels have no time."
        yield from wrapped(" ".join([text, *_replacements(snapshot, idle)]), width, "muted")


def _replacements(snapshot: Snapshot, idle: Sequence[str]) -> Iterator[str]:
    """Yield which graphs with dynamic sizes run in place of older ones: torch keeps to the entry that matched last."""
    graphs = dict.fromkeys(kernel.graph for kernel in snapshot.code.kernels)
    for graph in (known for known in graphs if known not in idle):
        older = [other for other in idle if frame_number(other) == frame_number(graph) and _age(other) < _age(graph)]
        if older and (sizes := traced_sizes(snapshot, (graph,))):
            same = "the same function with dynamic sizes"
            yield f"{graph} runs in place of {first_of(older, NAMED)}: {same} ({sizes} when it was traced)."


def _age(graph: str) -> int:
    """Return the position of a compile among those of its frame."""
    number = graph.rpartition("/")[2]
    return int(number) if number.isdecimal() else 0


def grouping_row(snapshot: Snapshot, toggled: frozenset[str], groups: Sequence[KernelGroup]) -> Row:
    """Return the row that shows all kernels one by one, and groups them again.

    It counts what the measured call runs.
    """
    if GROUPED in toggled:
        text = "all kernels: closes to show those of equal layers once"
    else:
        idle = idle_graphs(snapshot)
        kinds = sum(group.graph not in idle for group in groups)
        running = kernels_that_run(snapshot)
        launched = f"{generated_and_extern(running)}, {count(launches_of(running), 'launch', 'launches')}"
        text = f"{launched}: {count(kinds, 'kind')}, those of equal layers once: opens all"
    return fold(GROUPED, GROUPED in toggled, (text, "muted"), indent=0, keys_only=True)


def _slowest(snapshot: Snapshot, alike: Sequence[Sequence[Kernel]], known: Labels, *, grouped: bool) -> Iterator[Row]:
    """Yield a row that leads to the kernels with the most time of a call, and one to those that Inductor generated.

    Nothing if fewer than two were measured.
    """
    times = [(us, kernels) for kernels in alike if (us := _measured(snapshot, kernels)) is not None]
    if len(times) < 2:
        return
    slowest = max(times, key=lambda time: time[0])
    yield _slowest_row(snapshot, "slowest", *slowest, known, grouped=grouped)
    generated = [time for time in times if time[1][0].generated]
    if generated and not slowest[1][0].generated:
        of_generated = max(generated, key=lambda time: time[0])
        yield _slowest_row(snapshot, "slowest generated", *of_generated, known, grouped=grouped)


def _slowest_row(
    snapshot: Snapshot, title: str, us: float, kernels: Sequence[Kernel], known: Labels, *, grouped: bool
) -> Row:
    first, label = kernels[0], known.kernel[kernel_link(kernels[0])]
    launches = launches_of(kernels)
    total = snapshot.call_account.total_us if snapshot.call_account is not None else 0.0
    target = f"same {_fold(first)}" if grouped else _fold(first)
    return row(
        (f" {title}  ", "muted"), *((span.text, span.style) for span in label.spans),
        (f" ×{launches}" if launches > 1 else "", "number"), (f"  {duration(us / 1e6)}", "number"),
        (f"  {us / total:.0%} of a call  " if total else "  ", "muted"),
        *((span.text, span.style) for span in op_spans(first, known, most=2)), (_spread(snapshot, kernels), "muted"),
        target=target,
    )  # fmt: skip


def _group(
    snapshot: Snapshot, group: KernelGroup, known: Labels, toggled: frozenset[str], width: int, *, runs: bool
) -> Iterable[Part]:
    """Yield the row of equal kernels; if it is open, also the source of the first one, and the others.

    `runs` is whether the measured call runs one of them.
    """
    first = group.kernels[0]
    name = f"same {_fold(first)}"
    opened = name in toggled
    yield fixed([_group_row(snapshot, group, known, name, opened, width, runs=runs)], known.title(first))
    if not opened:
        return
    yield from _source(snapshot, first, known, width)
    for kernel in group.kernels[1:]:
        yield from _kernel(snapshot, kernel, known, toggled, width, at_first=False)


def _group_row(
    snapshot: Snapshot, group: KernelGroup, known: Labels, name: str, opened: bool, width: int, *, runs: bool
) -> Row:
    first = group.kernels[0]
    label = known.kernel[kernel_link(first)]
    launches = launches_of(group.kernels)
    us = _measured(snapshot, group.kernels)
    number = f" ×{launches}" if launches > 1 else ""
    moved = replace(first, bytes_read=_total(k.bytes_read for k in group.kernels),
                    bytes_written=_total(k.bytes_written for k in group.kernels))  # fmt: skip
    traffic, sizes = format_traffic(moved), traced_sizes(snapshot, (kernel.graph for kernel in group.kernels))
    spans: tuple[tuple[str, str], ...] = (
        *((span.text, span.style) for span in label.spans),
        (number, "number"),
        (" " * max(1, _LABEL_WIDTH - len(label.text) - len(number)), ""),
        *((span.text, span.style) for span in op_spans(first, known, most=2 if width < 60 else 4)),
        (f"  {duration(us / 1e6)}" if us is not None else "", "number"),
    )
    rest: tuple[tuple[str, str], ...] = (
        (f" in {launches}" if us is not None and launches > 1 else "", "muted"),
        ("" if runs else "  not run", "muted"),
        (f"  {group.module}" if group.module else "", "heading"),
        (f"  {traffic}{f' at {sizes}' if sizes else ''}" if traffic else "", "muted"),
        ("  yours" if is_users(first.user_op) else "", "changed"),
        (f"  {first.name}", "dim"),
    )
    links = (*map(kernel_link, group.kernels), *map(line_link, first.source_lines))
    place = first.source_lines[0] if first.source_lines else None
    inside = None if opened else partial(_text_inside, group.kernels)
    return fold(
        name, opened, *spans, rest=rest, indent=0, links=links, location=place, copy=first.name, no_wrap=True,
        inside=inside
    )  # fmt: skip


def _text_inside(kernels: Iterable[Kernel]) -> str:
    return "\n".join(f"{kernel.name} {' '.join(kernel.ops)}\n{kernel.source}" for kernel in kernels)


def _total(values: Iterable[int | None]) -> int | None:
    known = list(values)
    return None if None in known else sum(filter(None, known))


def _measured(snapshot: Snapshot, kernels: Iterable[Kernel]) -> float | None:
    """Return the microseconds of kernels in one call; None if they were not measured, or are for another machine."""
    account = snapshot.call_account
    if account is None or snapshot.code.target != NATIVE:
        return None
    known = _parts_of(account, kernels)
    return sum(part.us for part in known) if known else None


UNSTEADY = 1.5
"""Ratio of the most to the least time in the profiled calls from which on both are shown beside the time."""


def _spread(snapshot: Snapshot, kernels: Iterable[Kernel]) -> str:
    """Return `  1.94 ms to 15.6 ms in the profiled calls`, of kernels whose time varies; empty for steady ones."""
    known = _parts_of(snapshot.call_account, kernels) if snapshot.call_account is not None else []
    low, high = sum(part.low_us for part in known), sum(part.high_us for part in known)
    return (
        f"  {duration(low / 1e6)} to {duration(high / 1e6)} in the profiled calls" if high > UNSTEADY * low > 0 else ""
    )


def _parts_of(account: CallAccount, kernels: Iterable[Kernel]) -> list[CallPart]:
    """Return the parts of kernels in one call, of those that were measured."""
    parts = _kernel_parts(account)
    known = (parts.get((kernel.graph, kernel.phase, kernel.name)) for kernel in kernels)
    return [part for part in known if part is not None]


@by_identity(4)
def _kernel_parts(account: CallAccount) -> dict[tuple[str, str, str], CallPart]:
    """Return the part of each kernel in one call, by graph, phase and name."""
    return {(part.graph, part.phase, part.name): part for part in account.parts if part.kind == "kernel"}


def launches_of(kernels: Iterable[Kernel]) -> int:
    """Return the launches of kernels in one call."""
    return sum(max(1, len(kernel.calls)) for kernel in kernels)


def _contents(snapshot: Snapshot, known: Labels, width: int) -> Part:
    """Return a row for each kernel in call order, under headings if there are several graphs or phases."""
    number = max((len(label.text) for label in known.kernel.values()), default=0)
    where = places(snapshot.file)
    groups = [(key, list(group)) for key, group in groupby(snapshot.code.kernels, lambda k: (k.graph, k.phase))]
    entries: list[Kernel | Row] = []
    for (graph, phase), group in groups:
        machine = ("  for this machine" if is_of_this_machine(snapshot, group[0]) else "", "warn")
        entries += [row((f" graph {graph}", "title"), (f" {phase}", "muted"), machine)] if len(groups) > 1 else []
        entries += group
    entries.append(BLANK)

    def build(index: int) -> Row:
        entry = entries[index]
        if isinstance(entry, Row):
            return entry
        return kernel_row(entry, known, where, number, width)._replace(target=_fold(entry))

    return Part(len(entries), build)


def _kernel(
    snapshot: Snapshot, kernel: Kernel, known: Labels, toggled: frozenset[str], width: int, *, at_first: bool = True
) -> Iterable[Part]:
    """Yield one kernel, open `at_first`; an extern kernel, which has no source, is folded at first."""
    name = _fold(kernel) if at_first else f"again {_fold(kernel)}"
    opened = (name in toggled) != (kernel.generated and at_first)
    yield _heading(kernel, known, snapshot.file, name, opened, width)
    if opened:
        yield from _below_heading(snapshot, kernel, known, width)


def _source(snapshot: Snapshot, kernel: Kernel, known: Labels, width: int) -> Iterable[Part]:
    """Yield the rows of a kernel without its first one."""
    heading_rows = list(kernel_heading(kernel, known, places(snapshot.file), "", opened=True, width=width))
    yield fixed(heading_rows[1:])
    yield from _below_heading(snapshot, kernel, known, width)


def _below_heading(snapshot: Snapshot, kernel: Kernel, known: Labels, width: int) -> Iterable[Part]:
    yield fixed(_figures(snapshot, kernel, width))
    rows = _lines(kernel, known, width)
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
    if (sizes := traced_sizes(snapshot, (kernel.graph,))) and format_traffic(kernel):
        parts.append(f"bytes are counted at {sizes}")
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
def _lines(kernel: Kernel, known: Labels, width: int) -> WrappedLines:
    return WrappedLines(KernelLines(kernel, known, narrow=width < NARROW), width)


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
