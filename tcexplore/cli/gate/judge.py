"""Judgment of a run by its limits, and the exit status."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING

from tcexplore.cli.request import Limits, Request
from tcexplore.documents.locations import display_path
from tcexplore.documents.timing.accuracy_rows import FAITHFUL_VERDICTS, describe_accuracy
from tcexplore.quantities import count, duration
from tcexplore.report.gate_result import AllowedBreak, ExceededLimit, GateResult
from tcexplore.session import Snapshot
from tcexplore.session.economics import economics
from tcexplore.session.history import summarize
from tcexplore.session.run_diff import unique_kernels
from tcexplore.studies.study_runs import Outcome, failure_status

if TYPE_CHECKING:
    from tcexplore import events as ev
    from tcexplore.cli.gate.allow_list import AllowEntry
    from tcexplore.cli.gate.baseline_figures import Report

EXCEEDED = 1
"""Exit status if a limit was exceeded."""

Exceeded = Iterator[ExceededLimit]

MeasureAgain = Callable[[], Outcome]
"""Runs the program once more in a new process."""


@dataclass(frozen=True, slots=True)
class GateFiles:
    """Contents of the files that the limits name."""

    allow: tuple[AllowEntry, ...] = ()
    baseline: Report | None = None


def read_gate_files(limits: Limits, config: ev.Config | None) -> GateFiles:
    """Read the allow-list and the baseline. Raises `BadFileError`; `config` is that of the run, None for a trace."""
    entries: tuple[AllowEntry, ...] = ()
    baseline = None
    if limits.allow is not None:
        from tcexplore.cli.gate.allow_list import read_allow_list

        entries = read_allow_list(limits.allow)
    if limits.baseline is not None:
        from tcexplore.cli.gate.baseline_figures import read_baseline

        baseline = read_baseline(limits.baseline, config)
    return GateFiles(entries, baseline)


def judge(
    request: Request,
    outcome: Outcome,
    files: GateFiles | None = None,
    today: date | None = None,
    measure_again: MeasureAgain | None = None,
) -> GateResult:
    """Compare a run with its limits; an unmeasured value exceeds its limit.

    If a time got worse than in the baseline, `measure_again` has to confirm it; it is None if that is impossible.
    """
    run, limits, files = outcome.snapshot, request.limits, files or GateFiles()
    breaks, allowed, expired = _sort_breaks(run, limits, files, today or date.today())
    exceeded = [*_break_limits(request, breaks), *expired, *_count_limits(limits, run)]
    if outcome.late:
        exceeded.append(ExceededLimit("timeout", f"not finished after {request.timeout:g} s"))
    notes: tuple[str, ...] = ()
    if run.failure is None:
        exceeded += [*_speed(limits, run), *_costs(limits, run), *_cache_hits(limits, run), *_accuracy(limits, run)]
        worse, notes = _regressions(outcome, files, measure_again)
        exceeded += worse
        exceeded += _failed_op_tests(request, run)
    return GateResult(tuple(exceeded), _options(request), breaks, allowed, notes)


def status(result: GateResult, run: Snapshot) -> int:
    """Return 0 ok, 1 limit exceeded, 2 error in FILE or arguments, 3 error in the compiler or the worker."""
    return EXCEEDED if result.exceeded else failure_status(run)


def _options(request: Request) -> tuple[str, ...]:
    """Return the limits that a request has."""
    values = {name: value for name, value in request.limits._asdict().items() if name != "own"}
    given = [name.replace("_", "-") for name, value in values.items() if value is not None and value is not False]
    given += ["opcheck"] if request.config.opcheck else []
    return tuple(["fullgraph", *given] if request.config.fullgraph else given)


def _sort_breaks(
    run: Snapshot, limits: Limits, files: GateFiles, today: date
) -> tuple[tuple[ev.GraphBreak, ...], tuple[AllowedBreak, ...], list[ExceededLimit]]:
    """Return the breaks that count, those that are allowed, and the expired entries that would allow one."""
    if not limits.own and not files.allow:
        return run.breaks, (), []
    from tcexplore.cli.gate.allow_list import first_cover, in_paths

    counted, allowed, expired = [], [], {}
    for graph_break in run.breaks:
        if limits.own and not in_paths(graph_break, limits.own):
            continue
        entry = first_cover(files.allow, graph_break, today)
        if entry is not None and not entry.expired(today):
            allowed.append(AllowedBreak(graph_break, entry.reason, entry.expires))
            continue
        counted.append(graph_break)
        if entry is not None and graph_break.location is not None:
            place = f"{display_path(graph_break.location.file)}:{graph_break.location.line}"
            expired[entry] = f"the break at {place} was allowed until {entry.expires}: {entry.reason}"
    return tuple(counted), tuple(allowed), [ExceededLimit("allow", sentence) for sentence in expired.values()]


def _failed_op_tests(request: Request, run: Snapshot) -> Exceeded:
    failed = [check for check in run.op_checks if not check.passed] if request.config.opcheck else []
    for check in failed:
        yield ExceededLimit("opcheck", f"{check.op} fails {check.test}: {check.reason}")


def _break_limits(request: Request, breaks: tuple[ev.GraphBreak, ...]) -> Exceeded:
    most = request.limits.max_breaks
    if most is not None and len(breaks) > most:
        yield ExceededLimit("max-breaks", f"{count(len(breaks), 'graph break')}, {most} allowed")
    if request.config.fullgraph and breaks:
        yield ExceededLimit("fullgraph", f"{count(len(breaks), 'graph break')}, none allowed")


def _count_limits(limits: Limits, run: Snapshot) -> Exceeded:
    """Compare numbers that only grow, which a failed run may exceed too."""
    for option, noun, number, most in (
        ("max-recompiles", "recompile", summarize(run).recompiles, limits.max_recompiles),
        ("max-graphs", "graph", len(run.graphs), limits.max_graphs),
        ("max-unique-kernels", "unique kernel", unique_kernels(run), limits.max_unique_kernels),
    ):
        if most is not None and number > most:
            yield ExceededLimit(option, f"{count(number, noun)}, {most} allowed")


def _speed(limits: Limits, run: Snapshot) -> Exceeded:
    """Compare the measured speedup with its limit; if it is undecided, all of its interval has to be above it."""
    if limits.min_speedup is None:
        return
    required, timing, text = f"{limits.min_speedup:g}× required", run.timing, ""
    if timing is None:
        text = "no speedup was measured"
    elif timing.verdict in ("undecided", "measuring") and timing.low < limits.min_speedup:
        interval = f"{timing.low:.2f}× to {timing.high:.2f}×"
        text = f"compiled is most likely {timing.speedup:.2f}× as fast, but maybe {interval}"
    elif timing.speedup < limits.min_speedup:
        text = f"compiled is {timing.speedup:.2f}× as fast"
    if text:
        yield ExceededLimit("min-speedup", f"{text}, {required}")


def _costs(limits: Limits, run: Snapshot) -> Exceeded:
    seconds, most = economics(run).compile_s, limits.max_compile_seconds
    if most is not None and (seconds is None or seconds > most):
        taken = "compile time is unknown" if seconds is None else f"compiling took {duration(seconds)}"
        yield ExceededLimit("max-compile-seconds", f"{taken}, {most:g} s allowed")
    ratio = limits.max_memory_ratio
    if ratio is None:
        return
    peaks = (run.memory.eager_peak, run.memory.compiled_peak) if run.memory else (None, None)
    if peaks[0] is None or peaks[1] is None:
        yield ExceededLimit("max-memory-ratio", f"peak memory was not measured, {ratio:g}× allowed")
    elif peaks[1] > ratio * peaks[0]:
        times = f"{peaks[1] / peaks[0]:.2f}×" if peaks[0] else "more than"
        yield ExceededLimit("max-memory-ratio", f"compiled's peak is {times} eager's, {ratio:g}× allowed")


def _cache_hits(limits: Limits, run: Snapshot) -> Exceeded:
    least, lookups = limits.min_cache_hits, run.cache_lookups
    if least is None:
        return
    hits = sum(lookup.outcome == "hit" for lookup in lookups)
    if not lookups:
        yield ExceededLimit("min-cache-hits", f"no cache was looked up, {least:.0%} hits required")
    elif hits < least * len(lookups):
        lookup = next(lookup for lookup in lookups if lookup.outcome != "hit")
        reason = f": {lookup.reason}" if lookup.reason else ""
        example = f"{lookup.cache} {lookup.outcome} in graph {lookup.graph}{reason}"
        share = f"{hits} of {count(len(lookups), 'cache lookup')} hit"
        yield ExceededLimit("min-cache-hits", f"{share}, {least:.0%} required; {example}")


def _accuracy(limits: Limits, run: Snapshot) -> Exceeded:
    if limits.accuracy and (run.accuracy is None or run.accuracy.verdict not in FAITHFUL_VERDICTS):
        yield ExceededLimit("accuracy", describe_accuracy(run.accuracy) if run.accuracy else "results not compared")


def _regressions(
    outcome: Outcome, files: GateFiles, measure_again: MeasureAgain | None
) -> tuple[list[ExceededLimit], tuple[str, ...]]:
    if files.baseline is None:
        return [], ()
    from tcexplore.cli.gate.baseline_comparison import BaselineComparison, compare, confirm
    from tcexplore.cli.gate.baseline_figures import baseline_figures
    from tcexplore.report.json_report import report

    before = baseline_figures(files.baseline)

    def compared(run: Outcome) -> BaselineComparison:
        return compare(before, baseline_figures(report(run.snapshot, run.machine)))

    comparison = compared(outcome)
    if comparison.slower:
        again = measure_again() if measure_again else None
        comparison = confirm(comparison, compared(again) if again and again.snapshot.failure is None else None)
    return [ExceededLimit("baseline", sentence) for sentence in comparison.worse], comparison.notes
