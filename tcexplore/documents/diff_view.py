"""The diff of two runs: summary, source, breaks, kernels, graph nodes and guards, one section per fact."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from tcexplore import events as ev
from tcexplore.documents.document import Part, Parts, Row, Span, by_identity, fixed
from tcexplore.documents.labels import format_call, format_tensor, format_traffic, labels, name_node, op_spans
from tcexplore.documents.locations import Places, places
from tcexplore.documents.prose import BLANK, fold, row, wrapped
from tcexplore.documents.text_diff import Numbered, text_rows
from tcexplore.documents.timing.cache_miss_rows import cache_miss_rows
from tcexplore.documents.verdicts import VERDICT_STYLES, format_interval, of_medians
from tcexplore.events import Kernel, Location, TimingEstimate
from tcexplore.quantities import count, duration, rounded, speedup_range
from tcexplore.session import Snapshot, summarize
from tcexplore.session.cache_misses import cache_misses
from tcexplore.session.economics import economics
from tcexplore.session.history import changed_counts
from tcexplore.session.links import break_link, guard_link, kernel_link, line_links, node_link
from tcexplore.session.run_diff import (
    GraphGuard,
    RunChange,
    RunDiff,
    align,
    are_ranks,
    count_changes,
    match_kernels,
    run_diff,
    same_program,
)
from tcexplore.session.time_ratio import Range, call_ratio, relative_ratio

BREAK_STYLES = {"added": "removed", "removed": "added"}
"""A new break is bad, and one that is gone is good."""

MARKS = {"added": ("+ ", "added"), "removed": ("- ", "removed"), "changed": ("~ ", "changed"), "same": ("  ", "muted")}


DRIFT = 1.1
"""Ratio of the eager times of two runs from which on it is said that they differ."""


def node_rows(diff: RunDiff, toggled: frozenset[str], width: int) -> Iterator[Row]:  # noqa: ARG001
    """Yield the nodes that only one of the runs has, and those that read the result of another op."""
    for change in diff.nodes:
        if change.kind != "same":
            yield _node(change, places(diff.after.file))


def _node(change: RunChange[tuple[str, ev.FxNode]], where: Places) -> Row:
    graph, node = change.item
    mark = MARKS[change.kind]
    links = (node_link(graph, node.name),) if change.after else ()
    facts = (
        (f"{graph}  ", "dim"),
        (name_node(node), mark[1]),
        (f"  {format_tensor(node)}", "shape"),
        (f"  {format_call(node)}", "target"),
    )
    place = (f"  {where.describe(node.location)}" if node.location else "", "muted")
    return row("   ", mark, *facts, place, links=links, location=node.location, copy=format_call(node))


def break_rows(diff: RunDiff, toggled: frozenset[str], width: int) -> Iterator[Row]:  # noqa: ARG001
    """Yield the breaks that only one of the runs has."""
    for change in diff.breaks:
        graph_break = change.item
        if change.kind != "same":
            where = places(diff.after.file).describe(graph_break.location)
            links = (break_link(graph_break),) if change.after else ()
            style = BREAK_STYLES.get(change.kind, MARKS[change.kind][1])
            facts = (f"{where}  ", "muted"), (graph_break.code or graph_break.reason, style)
            kind = (f"  {graph_break.registry_id or graph_break.kind}", "muted")
            yield row("   ", (MARKS[change.kind][0], style), *facts, kind, links=links, location=graph_break.location)


def guard_rows(diff: RunDiff, toggled: frozenset[str], width: int) -> Iterator[Row]:  # noqa: ARG001
    """Yield the guards that differ: those that differ in the same way once, and structural guards in a fold."""
    changed = [change for change in diff.guards if change.kind != "same"]
    alike: dict[tuple[str, ...], list[RunChange[GraphGuard]]] = {}
    for change in changed:
        if not change.item[1].structural:
            alike.setdefault((change.kind, change.item[1].kind, _condition(change)), []).append(change)
    for first, *others in alike.values():
        yield _guard_row(first)
        name = f"diff guards like {first.item[0]} {first.item[1].source}"
        opened = len(others) == 1 or name in toggled
        if len(others) > 1:
            yield fold(name, opened, (f"{len(others)} others in the same way", "muted"), indent=5)
        yield from map(_guard_row, others if opened else ())
    structural = [change for change in changed if change.item[1].structural]
    if structural:
        label = f"{count(len(structural), 'structural guard')} on modules and torch itself"
        opened = "diff structural" in toggled
        yield fold("diff structural", opened, (label, "muted"), indent=3)
        yield from (_guard_row(change) for change in (structural if opened else ()))


def _condition(change: RunChange[GraphGuard]) -> str:
    """Return what a guard requires, before and after if both runs have it."""
    sides = (item[1] for item in (change.before, change.after) if item is not None)
    return " → ".join(guard.summary or " and ".join(guard.code) for guard in sides)


def _guard_row(change: RunChange[GraphGuard]) -> Row:
    graph, guard = change.item
    mark, links = MARKS[change.kind], (guard_link(graph, guard),) if change.after else ()
    name = guard.name or guard.source or guard.kind
    return row("   ", mark, (f"{graph}  ", "dim"), (name, mark[1]),
               f"  {_condition(change)}", (f"  {guard.kind}", "dim"),
               links=links, location=guard.location)  # fmt: skip


def kernel_diff_rows(diff: RunDiff, toggled: frozenset[str], width: int) -> Iterator[Row]:
    """Yield the changed, added and removed kernels, with a fold for those with the same code."""
    for index, change in enumerate(diff.kernels):
        if change.kind != "same":
            yield from _kernel(diff, change, f"diff kernel {index}", toggled, width)
    same = [change for change in diff.kernels if change.kind == "same"]
    if same:
        opened = "diff same kernels" in toggled
        label = f"{count(len(same), 'kernel')} with identical code"
        yield fold("diff same kernels", opened, (label, "muted"), indent=3)
        for change in same if opened else ():
            made = _one_line(diff, change)
            yield made._replace(spans=(Span("   "), *made.spans))


def _kernel(diff: RunDiff, change: RunChange[Kernel], name: str, toggled: frozenset[str], width: int) -> Iterator[Row]:
    """Yield the heading of a kernel and, if it is open, its code or the diff of both."""
    opened = (name in toggled) == (change.kind != "changed")
    made = _one_line(diff, change)
    spans = ((span.text, span.style) for span in made.spans)
    yield fold(name, opened, *spans, indent=1, links=made.links, location=made.location, copy=made.copy)
    if opened:
        yield from text_rows(_code(change), width)


def compare_code(before: Snapshot, after: Snapshot) -> None:
    """Compare the code of two runs ahead of its display."""
    same_program(before, after)
    ranks = are_ranks(before, after)
    for change in match_kernels(before.code.kernels, after.code.kernels, ranks=ranks):
        if change.kind == "changed":
            _code(change)


def _code(change: RunChange[Kernel]) -> tuple[RunChange[str], ...]:
    return _changed_lines(change.before, change.after)


@by_identity(64)
def _changed_lines(before: Kernel | None, after: Kernel | None) -> tuple[RunChange[str], ...]:
    """Return the differences of both sources; the names of the kernels do not count."""
    was, now = (_lines(kernel) for kernel in (before, after))
    return tuple(
        RunChange(change.kind, change.before and change.before[1], change.after and change.after[1])
        for change in align(was, now, lambda line: line[0])
    )


def _lines(kernel: Kernel | None) -> list[tuple[str, str]]:
    """Return each line without the name of the kernel, and the original line."""
    return [(line.replace(kernel.name, ""), line) for line in kernel.source.splitlines()] if kernel else []


def _one_line(diff: RunDiff, change: RunChange[Kernel]) -> Row:
    before, after = change.before, change.after
    both = [(s, k) for s, k in ((diff.before, before), (diff.after, after)) if k is not None]
    labelled = [span for s, kernel in both for span in (Span(" → ", "muted"), *_label(s, kernel))][1:]
    where = diff.after if after else diff.before
    spans = (
        Span(*MARKS[change.kind]), *labelled, Span(" "), *op_spans(change.item, labels(where), most=5),
        Span(f"  {_moved(before, after)}", "muted"), Span(f"  {change.item.name}", "dim"),
    )  # fmt: skip
    place = change.item.source_lines[0] if change.item.source_lines else None
    links = (kernel_link(after),) if after else ()
    return row(*((span.text, span.style) for span in spans), links=links, location=place, copy=change.item.name)


def _label(snapshot: Snapshot, kernel: Kernel) -> Iterable[Span]:
    return labels(snapshot).kernel[kernel_link(kernel)].spans


def _moved(before: Kernel | None, after: Kernel | None) -> str:
    """Return what a kernel reads and writes, before and after if that differs."""
    texts = dict.fromkeys(format_traffic(kernel) for kernel in (before, after) if kernel and format_traffic(kernel))
    return " → ".join(texts)


NOTHING = "Nothing to compare with yet. The next save is compared with this one."

NO_OTHER_RANK = "No other rank has been read to compare with."

Rows = Callable[[RunDiff, frozenset[str], int], Iterator[Row]]


class _Section(NamedTuple):
    name: str
    changes: Callable[[RunDiff], Sequence[RunChange[Any]]]
    rows: Rows


def diff_document(
    before: Snapshot | None,
    after: Snapshot,
    toggled: frozenset[str] = frozenset(),
    width: int = 78,
    under_way: str = "",
) -> Parts:
    """Return the document of the view; `under_way` is the label of a newer run that is not over."""
    if before is None:
        text = NO_OTHER_RANK if after.trace else NOTHING
        if under_way:
            text = f"The diff of {after.label} and {under_way} follows as soon as {under_way} is over."
        return Parts("", [fixed(wrapped(text, width, "muted"))])
    diff = _compared(before, after)
    misses = cache_misses(after, before)
    missed = [fixed([*cache_miss_rows(misses, places(after.file), width), BLANK])] if misses else []
    parts = [fixed(_summary(diff, width)), *missed, *(_section(section, diff, toggled, width) for section in SECTIONS)]
    return Parts(f"{before.label} → {after.label}", parts)


_compared = by_identity(4)(run_diff)


def _summary(diff: RunDiff, width: int) -> Iterator[Row]:
    """Yield whether the generated code is the same, and the figures that changed."""
    before, after = diff.before, diff.after
    runs = (f" {before.label} → {after.label} ", "title")
    if diff.same_program:
        yield row(runs, (" ✔ SAME PROGRAM ", "badge.ok"), ("  the generated code is identical", "ok"))
        text = "Kernels and wrappers are the same except for names and comments: any timing difference is noise."
        if are_ranks(before, after):
            text = "Kernels and wrappers are the same except for names, comments and the numbers of devices."
        yield from wrapped(text, width, "muted")
    else:
        known = before.code.kernels and after.code.kernels
        text = "the generated code differs" if known else "one of the runs has no generated code"
        if before.target != after.target:
            text = f"their generated code is for different targets: {before.target} and {after.target}"
        yield row(runs, (" ≠ ", "badge.warn"), (f"  {text}", "changed"))
    figures = changed_counts(summarize(before), summarize(after))
    yield row(
        (
            f" {'  '.join(figures) or 'breaks, graphs and number of kernels unchanged'}",
            "strong" if figures else "muted",
        )
    )
    yield from _speeds(before, after)
    yield from _captured_call_times(before, after)
    yield from _compile_times(before, after)
    yield BLANK


def _speeds(before: Snapshot, after: Snapshot) -> Iterator[Row]:
    """Yield the speed of each run over eager, and of the later run over the earlier; nothing if neither was timed."""
    runs = before, after
    if all(run.timing is None for run in runs):
        return
    width = max(len(run.label) for run in runs)
    if before.timing is not None and after.timing is not None:
        yield from _call_times(before.timing, after.timing, f"compiled {after.timing.unit}")
    for run in runs:
        label = f" {run.label:<{width}}  "
        timing = run.timing
        if timing is None or timing.verdict == "measuring":
            yield row((label, "muted"), ("not timed" if timing is None else "too few pairs for a verdict", "dim"))
            continue
        sides = f"{duration(timing.eager_us / 1e6)} eager, {duration(timing.compiled_us / 1e6)} compiled"
        if (ratio := of_medians(timing)) is not None:
            sides += f", medians that give {ratio:.2f}×: times varied"
        speed = f"vs. eager {format_interval(timing)} {timing.verdict}"
        load = f"  {timing.load}" if timing.load else ""
        yield row(
            (label, "muted"), (speed, VERDICT_STYLES.get(timing.verdict, "muted")), (f"  {sides}", "muted"),
            rest=((load, "warn"),),
        )  # fmt: skip
    busy = [bool(run.timing.load) for run in runs if run.timing is not None]
    if len(set(busy)) > 1:
        yield row(("Timed at different load: the speedups may differ for that alone.", "warn"))


def _captured_call_times(before: Snapshot, after: Snapshot) -> Iterator[Row]:
    """Yield the same for the first captured call of two scripts, if both are of one region and with equal inputs."""
    one, other = (next(iter(run.captured_calls), None) for run in (before, after))
    if one is None or other is None or (one.region, one.inputs) != (other.region, other.inputs):
        return
    if one.timing is not None and other.timing is not None:
        yield from _call_times(one.timing, other.timing, "captured call, compiled")


def _call_times(before: TimingEstimate, after: TimingEstimate, name: str) -> Iterator[Row]:
    """Yield whether a compiled call of the later run is faster than one of the earlier, by what is known of both."""
    if (ratio := call_ratio(before, after)) is None:
        return
    times = " → ".join(duration(timing.compiled_us / 1e6) for timing in (before, after))
    eager = " → ".join(duration(timing.eager_us / 1e6) for timing in (before, after))
    verdict, relative = _difference(ratio), relative_ratio(before, after)
    yield row(
        (f" {name} {times}: ", "muted"),
        (f"{verdict}, {speedup_range(ratio.value, ratio.low, ratio.high)}", VERDICT_STYLES.get(verdict, "strong")),
        rest=((f"  eager {eager}", "muted"),),
    )
    eager_ratio = before.eager_us / after.eager_us
    if not 1 / DRIFT <= eager_ratio <= DRIFT:
        changed = "got faster" if eager_ratio > 1 else "got slower"
        of_eager = f"{_difference(relative)}, {speedup_range(relative.value, relative.low, relative.high)}"
        text = f"Eager {changed} too, by your edit or by the machine. Relative to eager: {of_eager}."
        yield row((f" {text}", "warn"))


def _compile_times(before: Snapshot, after: Snapshot) -> Iterator[Row]:
    """Yield what compiling took in both runs, after how many calls it pays off, and what came from the cache."""
    costs = [economics(run) for run in (before, after)]
    if any(cost.compile_s is None for cost in costs):
        return
    compiling = " → ".join(duration(cost.compile_s or 0.0) for cost in costs)
    needed = [f"~{rounded(calls)}" for cost in costs if (calls := cost.break_even_calls) is not None]
    units = {run.timing.unit for run in (before, after) if run.timing is not None}
    even = f"  break-even {' → '.join(needed)} {units.pop()}s" if len(needed) == 2 and len(units) == 1 else ""
    cached = [f"{cost.kernels_cached} of {cost.cpp_kernels}" for cost in costs]
    caches = f"  C++ kernels from the cache: {' → '.join(cached)}" if any(cost.kernels_cached for cost in costs) else ""
    yield row((f" compiling {compiling}", "strong"), (even, "muted"), (caches, "muted"))


def _difference(ratio: Range) -> str:
    return "no clear difference" if ratio.verdict == "undecided" else ratio.verdict


def _section(section: _Section, diff: RunDiff, toggled: frozenset[str], width: int) -> Part:
    return fixed(_rows(section, diff, toggled, width))


def _rows(section: _Section, diff: RunDiff, toggled: frozenset[str], width: int) -> Iterator[Row]:
    total = count_changes(section.changes(diff))
    same = sum(total.values()) == total["same"]
    name = f"diff {section.name}"
    if same and section.name != "kernels":
        text = "the same" if total["same"] else "none in either run"
        yield row(("   ", ""), (section.name, "muted"), (f"  {text}", "dim"))
        return
    opened = name not in toggled
    yield fold(name, opened, (section.name, "heading"), *_counts(total), indent=1)
    if opened:
        yield from section.rows(diff, toggled, width)
        yield BLANK


def _counts(total: dict[str, int]) -> Iterator[tuple[str, str]]:
    for kind, mark in (("added", "+"), ("removed", "−"), ("changed", "~")):
        if total[kind]:
            yield f"  {mark}{total[kind]}", kind
    if total["same"]:
        yield f"  {total['same']} the same", "muted"


def _source(diff: RunDiff, toggled: frozenset[str], width: int) -> Iterator[Row]:  # noqa: ARG001
    def at(line: Numbered) -> Row:
        """Return the link and location of a line of the later file."""
        place = Location(diff.after.file, line.after) if line.after else None
        return Row((), line_links(place), place)

    yield from text_rows(diff.source, width, at)


SECTIONS = (
    _Section("source", lambda run_diff: run_diff.source, _source),
    _Section("breaks", lambda run_diff: run_diff.breaks, break_rows),
    _Section("kernels", lambda run_diff: run_diff.kernels, kernel_diff_rows),
    _Section("graph nodes", lambda run_diff: run_diff.nodes, node_rows),
    _Section("guards", lambda run_diff: run_diff.guards, guard_rows),
)
