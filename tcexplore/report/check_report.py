"""The report of `tcexplore check`: the documents of the panes one below the other, the verdict first and last."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from tcexplore import events as ev
from tcexplore.documents.breaks_view import breaks_document
from tcexplore.documents.code.autotuning_view import autotuning_document
from tcexplore.documents.code.kernels_view import kernel_figure_rows
from tcexplore.documents.code.target_notes import ASSUMED, target_rows
from tcexplore.documents.configurations import describe_grad_mode, format_configurations, format_torch
from tcexplore.documents.document import Document, Parts, Row, Span, fixed
from tcexplore.documents.empty_states import nothing_compiled_rows
from tcexplore.documents.graph.graph_view import graph_heading, op_check_rows
from tcexplore.documents.graph.modules_view import module_row_list
from tcexplore.documents.guards.cache_entries_view import recompiled_frame_rows
from tcexplore.documents.guards.guards_view import brief_guard_rows
from tcexplore.documents.guards.recompile_check_view import recompile_check_document
from tcexplore.documents.guards.recompile_rows import recompile_rows
from tcexplore.documents.guards.symbols_view import symbols_document
from tcexplore.documents.locations import display_path, places
from tcexplore.documents.module_folds import timed_tree
from tcexplore.documents.output_view import failure_rows, last_output_rows, missing_fact_rows
from tcexplore.documents.prose import BLANK, heading, row, wrapped
from tcexplore.documents.ranks_view import collective_rows, ranks_document, split_rows, verdict_rows
from tcexplore.documents.strip import run_verdict
from tcexplore.documents.timing.hot_lines_view import hottest_line_rows
from tcexplore.documents.timing.memory_peak_rows import PEAK
from tcexplore.documents.timing.next_view import next_rows
from tcexplore.documents.timing.regions_view import regions_document
from tcexplore.documents.timing.state_dict_view import state_dict_rows
from tcexplore.documents.timing.step_timeline_view import printed_timeline
from tcexplore.documents.timing.timing_view import CALL_PROFILE, COMPILE_TIME, NOTES, timing_document
from tcexplore.documents.verdicts import recommend
from tcexplore.notebook import describe_cell, is_notebook
from tcexplore.session import Snapshot
from tcexplore.session.call_account import eager_ops
from tcexplore.session.links import break_link
from tcexplore.session.ranked_breaks import rank_breaks
from tcexplore.session.recompile_fixes import recompile_fixes

OUTPUT_LINES = 20
"""Lines of the program's output in a report, the last ones; the JSON has all of them."""

FEWEST_MODULES = 3
"""Maximum number of modules of a model whose report leaves them out."""

INDENT = 1
MARGIN = Span(" " * INDENT)
"""Columns by which a section is indented, and the blanks in front of its rows."""

Section = Callable[[Snapshot, int], Iterable[Row]]


def check_report(
    snapshot: Snapshot, machine: ev.Standby | None, exceeded: Sequence[str], calls: int | None, width: int
) -> Parts:
    """Return the report of a run. `exceeded` are the limits that it exceeds; `calls` asks for the gain over N calls."""
    verdict = _verdict(snapshot, exceeded, calls, width)
    rows = [*_head(snapshot, machine, width), BLANK, *verdict]
    for title, section in SECTIONS:
        lines = list(section(snapshot, width - INDENT))
        if any(line.text.strip() for line in lines):
            rows += [BLANK, heading(title), *(line._replace(spans=(MARGIN, *line.spans)) for line in lines)]
    return Parts("", [fixed([*rows, BLANK, *verdict])])


def summary_report(
    snapshot: Snapshot, machine: ev.Standby | None, exceeded: Sequence[str], calls: int | None, width: int
) -> Parts:
    """Return the file, the verdict, the limits, each difference of ranks, each break, and the recompile checks."""
    title = next(iter(_head(snapshot, machine, width)))
    rows = [title, *_verdict(snapshot, exceeded, calls, width), *_break_lines(snapshot, width)]
    compared = snapshot.rank_comparison
    if compared is not None and compared.divergence is not None:
        rows += list(verdict_rows(compared, width))[1:]
    return Parts("", [fixed([*rows, *_recompile_checks(snapshot, width)])])


def _break_lines(snapshot: Snapshot, width: int) -> Iterator[Row]:
    """Yield each break in one line, those of the model file with the line only."""
    for ranked in rank_breaks(snapshot):
        graph_break = ranked.graph_break
        where = places(snapshot.file).describe(graph_break.location) or "unknown line"
        if cell := _cell(snapshot, graph_break.location):
            where = f"{where} ({cell})"
        code = f": {graph_break.code.strip()}" if graph_break.code.strip() else ""
        yield from wrapped(f"{where}{code}  {graph_break.reason}", width, lead="✖ ")


def _cell(snapshot: Snapshot, location: ev.Location | None) -> str:
    """Return the cell of a notebook, and the line in it; empty for another file."""
    if location is None or location.file != snapshot.file or not is_notebook(location.file):
        return ""
    return describe_cell(snapshot.source, location.line)


def _verdict(snapshot: Snapshot, exceeded: Sequence[str], calls: int | None, width: int) -> list[Row]:
    """Return the verdict of the run, and the limits that it exceeds."""
    verdict = [run_verdict(snapshot)]
    if snapshot.rank_comparison is not None:
        verdict += list(verdict_rows(snapshot.rank_comparison, width))[:1]
    if calls and (text := recommend(snapshot, calls)):
        verdict += wrapped(text, width, "strong")
    for limit in exceeded:
        verdict += wrapped(f"limit exceeded: {limit}", width, "break", lead="✖ ")
    return verdict


def _head(snapshot: Snapshot, machine: ev.Standby | None, width: int) -> Iterator[Row]:
    """Yield the file, its entry, the inputs, the machine and the configuration."""
    entry, file = snapshot.entry, display_path(snapshot.file)
    yield row((f" {file}:{entry.name}" if entry and entry.name else f" {file}", "title"))
    if entry:
        yield from wrapped(f"{entry.kind}, {entry.rule}", width, "muted")
        for index, call in enumerate(entry.calls, 1):
            number = f" {index}" if len(entry.calls) > 1 else ""
            yield from wrapped(f"call{number}: {', '.join(call)}", width, "muted")
    on = [format_torch(machine), machine.device] if machine else []
    yield from wrapped(" · ".join(filter(None, [*on, format_configurations(snapshot)])), width, "muted")
    for note in entry.notes if entry else ():
        yield from wrapped(note, width)
    if note := describe_grad_mode(snapshot.grad_mode):
        yield from wrapped(note, width, "muted")


def _failed(snapshot: Snapshot, width: int) -> Iterable[Row]:
    return failure_rows(snapshot, snapshot.failure, width) if snapshot.failure else ()


def _not_compiled(snapshot: Snapshot, width: int) -> Iterable[Row]:
    return nothing_compiled_rows(snapshot, width) if snapshot.complete and not snapshot.compiled else ()


def _breaks(snapshot: Snapshot, width: int) -> Iterator[Row]:
    ran_eagerly = snapshot.skipped_frames or (eager_ops(snapshot.call_account))
    if snapshot.breaks or snapshot.restarts or (ran_eagerly and snapshot.compiled):
        names = [f"break {link.where} {link.name}" for link in map(break_link, snapshot.breaks)]
        details = frozenset((*names, *(f"{name} more" for name in names), "restarts"))
        yield from _rows(breaks_document(snapshot, details, width))
    if snapshot.breaks and snapshot.complete and not snapshot.trace:
        command = f"tcexplore fix {display_path(snapshot.file)}"
        yield from wrapped(f"`{command}` tries and verifies edits that remove graph breaks.", width, "muted")


def _graphs(snapshot: Snapshot, _: int) -> Iterator[Row]:
    return (graph_heading(snapshot, captured, opened=False) for captured in snapshot.graphs)


def _modules(snapshot: Snapshot, width: int) -> Iterable[Row]:
    tree = timed_tree(snapshot)
    return module_row_list(tree, frozenset(), width) if len(tree.rows) > FEWEST_MODULES else ()


def _symbols(snapshot: Snapshot, width: int) -> Iterable[Row]:
    return (
        _rows(symbols_document(snapshot, frozenset(), width))
        if snapshot.symbols or [*recompile_fixes(snapshot)]
        else ()
    )


def _recompile_checks(snapshot: Snapshot, width: int) -> Iterable[Row]:
    """Return the answers in the order in which they were asked for."""
    asked = replace(snapshot, recompile_answers=snapshot.recompile_answers[::-1])
    return _rows(recompile_check_document(asked, frozenset(), width)) if snapshot.recompile_answers else ()


def _target(snapshot: Snapshot, width: int) -> Iterable[Row]:
    return target_rows(snapshot, frozenset([ASSUMED]), width)


def _autotuning(snapshot: Snapshot, width: int) -> Iterable[Row]:
    return _rows(autotuning_document(snapshot, frozenset(), width)) if snapshot.autotuned else ()


def _timing(snapshot: Snapshot, width: int) -> Iterable[Row]:
    known = snapshot.timing or snapshot.timing_skipped or snapshot.calls or snapshot.regions
    opened = frozenset([CALL_PROFILE, COMPILE_TIME, NOTES, PEAK])
    return _rows(timing_document(snapshot, opened, width)) if known else ()


def _step_timeline(snapshot: Snapshot, width: int) -> Iterable[Row]:
    return printed_timeline(snapshot, width) if snapshot.step_timelines else ()


def _regions(snapshot: Snapshot, width: int) -> Iterable[Row]:
    return _rows(regions_document(snapshot, frozenset(), width)) if snapshot.regions else ()


def _state(snapshot: Snapshot, width: int) -> Iterable[Row]:
    return state_dict_rows(snapshot, width) if snapshot.state_keys is not None else ()


def _output(snapshot: Snapshot, _: int) -> Iterable[Row]:
    return last_output_rows(snapshot, OUTPUT_LINES)


def _missing(snapshot: Snapshot, width: int) -> Iterable[Row]:
    return missing_fact_rows(snapshot, frozenset(), width)


def _rows(document: Document) -> Iterator[Row]:
    return map(document.row, range(len(document)))


def _communication(snapshot: Snapshot, _: int) -> Iterable[Row]:
    return (*collective_rows(snapshot), *split_rows(snapshot))


def _ranks(snapshot: Snapshot, width: int) -> Iterable[Row]:
    return _rows(ranks_document(snapshot.rank_comparison, width)) if snapshot.rank_comparison else ()


SECTIONS: tuple[tuple[str, Section], ...] = (
    ("Ranks", _ranks),
    ("Error", _failed),
    ("Next", next_rows),
    ("Not compiled", _not_compiled),
    ("Graph breaks", _breaks),
    ("Graphs", _graphs),
    ("Modules", _modules),
    ("Custom ops", op_check_rows),
    ("Communication", _communication),
    ("Recompiles", recompile_rows),
    ("Cache entries", recompiled_frame_rows),
    ("Symbolic sizes", _symbols),
    ("Recompile check", _recompile_checks),
    ("Guards", brief_guard_rows),
    ("Target", _target),
    ("Kernels", kernel_figure_rows),
    ("Autotuning", _autotuning),
    ("Timing", _timing),
    ("Hottest lines", hottest_line_rows),
    ("Timeline of a step", _step_timeline),
    ("Regions", _regions),
    ("State", _state),
    ("Output", _output),
    ("Unavailable facts", _missing),
)
"""The sections in their order; those without rows are left out."""
