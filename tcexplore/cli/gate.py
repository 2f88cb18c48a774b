"""The gate of `tcexplore check`: limits, the allow-list of breaks, the exit status, and the reports for CI systems."""

from __future__ import annotations

import difflib
import json
import os
import stat
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from fnmatch import fnmatch
from functools import partial
from typing import TYPE_CHECKING, Any

from tcexplore import events as ev
from tcexplore.cli.file_argument import BadFileError
from tcexplore.cli.options import Limits, Outputs, Request
from tcexplore.cli.terminal import USER_ERROR, print_error, refuse
from tcexplore.documents.code.fusion_view import first_reason
from tcexplore.documents.locations import display_path
from tcexplore.documents.timing.accuracy_rows import FAITHFUL_VERDICTS, describe_accuracy
from tcexplore.files import NotWrittenError, create, read, require_unused
from tcexplore.quantities import count, duration
from tcexplore.report.gate_result import AllowedBreak, ExceededLimit, GateResult
from tcexplore.session import Snapshot
from tcexplore.session.economics import economics
from tcexplore.session.history import summarize
from tcexplore.session.run_diff import unique_kernels
from tcexplore.session.stable_ids import stable_ids
from tcexplore.studies.runs import Outcome, failure_status

if TYPE_CHECKING:
    from tcexplore.cli.baseline import Report

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
        entries = read_allow_list(limits.allow)
    if limits.baseline is not None:
        from tcexplore.cli.baseline import read_baseline

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
        exceeded += [
            *_not_fused(limits, run),
            *_speed(limits, run),
            *_costs(limits, run),
            *_cache_hits(limits, run),
            *_accuracy(limits, run),
        ]
        worse, notes = _regressions(outcome, files, measure_again)
        exceeded += worse
        exceeded += _failed_op_tests(request, run)
        notes = (*notes, *_unused_entries(run, limits, files))
    return GateResult(tuple(exceeded), _options(request), breaks, allowed, notes)


def status(result: GateResult, run: Snapshot) -> int:
    """Return 0 ok, 1 limit exceeded, 2 error in FILE or arguments, 3 error in the compiler or the worker."""
    return EXCEEDED if result.exceeded else failure_status(run)


def _options(request: Request) -> tuple[str, ...]:
    """Return the limits that a request has."""
    values = {name: value for name, value in request.limits._asdict().items() if name != "own"}
    unset = (None, False, ())
    given = [name.replace("_", "-") for name, value in values.items() if not any(value is none for none in unset)]
    given += ["opcheck"] if request.config.opcheck else []
    return tuple(["fullgraph", *given] if request.config.fullgraph else given)


def _sort_breaks(
    run: Snapshot, limits: Limits, files: GateFiles, today: date
) -> tuple[tuple[ev.GraphBreak, ...], tuple[AllowedBreak, ...], list[ExceededLimit]]:
    """Return the breaks that count, those that are allowed, and the expired entries that would allow one."""
    if not limits.own and not files.allow:
        return run.breaks, (), []

    counted, allowed, expired, ids = [], [], {}, stable_ids(run)
    for graph_break in run.breaks:
        if limits.own and not in_paths(graph_break, limits.own):
            continue
        entry = first_cover(files.allow, graph_break, ids.graph_break(graph_break), today)
        if entry is not None and not entry.expired(today):
            allowed.append(AllowedBreak(graph_break, entry.reason, entry.expires))
            continue
        counted.append(graph_break)
        if entry is not None and graph_break.location is not None:
            place = f"{display_path(graph_break.location.file)}:{graph_break.location.line}"
            expired[entry] = f"the break at {place} was allowed until {entry.expires}: {entry.reason}"
    return tuple(counted), tuple(allowed), [ExceededLimit("allow", sentence) for sentence in expired.values()]


def _unused_entries(run: Snapshot, limits: Limits, files: GateFiles) -> Iterator[str]:
    """Yield the entries of the allow-list that describe no break of this run."""
    ids = stable_ids(run) if files.allow else None
    for number, entry in enumerate(files.allow, 1):
        if ids is not None and not any(entry.covers(known, ids.graph_break(known)) for known in run.breaks):
            line = f":{entry.line}" if entry.line is not None else ""
            text = f", {entry.text!r}" if entry.text else ""
            name = f"{entry.file or entry.id}{line}{text}"
            yield f"{limits.allow}, entry {number} matches no graph break: {name}"


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


def _not_fused(limits: Limits, run: Snapshot) -> Exceeded:
    """Compare the kernels of each pair of lines, and say why the scheduler did not fuse them."""
    for pair in limits.must_fuse:
        kernels = [[k for k in run.code.kernels if k.generated and _has_line(run, k, line)] for line in pair]
        if any(kernel in kernels[1] for kernel in kernels[0]):
            continue
        lines = f"lines {pair[0]} and {pair[1]}"
        empty = next((line for line, known in zip(pair, kernels, strict=True) if not known), None)
        if empty is not None:
            yield ExceededLimit("must-fuse", f"{lines} share no kernel: line {empty} is in no generated kernel")
            continue
        first, second = kernels[0][-1], kernels[1][0]
        reason = first_reason(run, first, second)
        yield ExceededLimit("must-fuse", f"{lines} share no kernel: {first.name} and {second.name}, {reason}")


def _has_line(run: Snapshot, kernel: ev.Kernel, line: int) -> bool:
    return any((at.file, at.line) == (run.file, line) for at in kernel.source_lines)


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
    from tcexplore.cli.baseline import BaselineComparison, baseline_figures, compare, confirm
    from tcexplore.report.json_report import report

    before = baseline_figures(files.baseline)

    def compared(run: Outcome) -> BaselineComparison:
        return compare(before, baseline_figures(report(run.snapshot, run.machine)))

    comparison = compared(outcome)
    if comparison.slower:
        again = measure_again() if measure_again else None
        comparison = confirm(comparison, compared(again) if again and again.snapshot.failure is None else None)
    return [ExceededLimit("baseline", sentence) for sentence in comparison.worse], comparison.notes


# ---- the allow-list


KEYS = ("id", "file", "line", "text", "kind", "reason", "expires")


@dataclass(frozen=True, slots=True)
class AllowEntry:
    """A graph break that is allowed for a reason, until a date."""

    file: str
    """Path as in the report, relative to the working directory, or a pattern such as `models/*.py`; empty: any file."""
    reason: str
    id: str = ""
    """Stable id of the break; empty: any."""
    line: int | None = None
    """None: every line."""
    text: str = ""
    """A part of the source line; empty: every line."""
    kind: str = ""
    """torch's `gb_type`, or its id in torch's registry (`GB0059`); empty: every kind."""
    expires: date | None = None
    """Last day on which the break is allowed; None: no end."""

    def covers(self, graph_break: ev.GraphBreak, break_id: str) -> bool:
        """Return whether the entry describes a break, expired or not."""
        place = graph_break.location
        if self.id not in ("", break_id) or place is None or not (not self.file or _is_file(place.file, self.file)):
            return False
        if self.line not in (None, place.line) or self.kind not in ("", graph_break.kind, graph_break.registry_id):
            return False
        return self.text in graph_break.code

    def expired(self, today: date) -> bool:
        return self.expires is not None and today > self.expires


def read_allow_list(path: str) -> tuple[AllowEntry, ...]:
    """Return the entries of an allow-list. Raises `BadFileError` if one of them is invalid."""
    try:
        content = tomllib.loads(read(path).decode())
    except NotWrittenError as error:
        raise BadFileError(str(error)) from None
    except ValueError as error:
        raise BadFileError(f"{path} is not valid TOML: {error}.") from None
    entries = content.pop("allow", [])
    if content or not isinstance(entries, list):
        unknown = next(iter(content), "allow")
        raise BadFileError(f"{path}: {unknown!r} is not a list of [[allow]] tables.")
    return tuple(_entry(f"{path}, entry {number}", entry) for number, entry in enumerate(entries, 1))


def first_cover(
    entries: Iterable[AllowEntry], graph_break: ev.GraphBreak, break_id: str, today: date
) -> AllowEntry | None:
    """Return the first valid entry that describes a break, or else the first expired one."""
    covers = [entry for entry in entries if entry.covers(graph_break, break_id)]
    return min(covers, key=lambda entry: entry.expired(today), default=None)


def in_paths(graph_break: ev.GraphBreak, paths: Iterable[str]) -> bool:
    """Return whether the break is in one of these files or folders."""
    if graph_break.location is None:
        return False
    file = os.path.realpath(graph_break.location.file)
    roots = [os.path.realpath(path) for path in paths]
    return any(file == root or file.startswith(root.rstrip(os.sep) + os.sep) for root in roots)


def _entry(place: str, entry: Any) -> AllowEntry:
    if not isinstance(entry, Mapping):
        raise BadFileError(f"{place} is not a table.")
    for key in entry:
        if key not in KEYS:
            nearest = difflib.get_close_matches(key, KEYS, 1)
            raise BadFileError(
                f"{place} has an unknown key {key!r}.", f"Did you mean {nearest[0]!r}?" if nearest else ""
            )
    line, expires = entry.get("line"), entry.get("expires")
    if line is not None and (not isinstance(line, int) or isinstance(line, bool) or line < 1):
        raise BadFileError(f"{place}: 'line' is not a line number.")
    if expires is not None and (not isinstance(expires, date) or isinstance(expires, datetime)):
        raise BadFileError(f"{place}: 'expires' is not a date, such as 2027-01-31 without quotes.")
    texts = {key: _text(place, entry, key) for key in ("id", "file", "reason", "text", "kind")}
    for key in ("reason",) if texts["id"] else ("file", "reason"):
        if not texts[key].strip():
            raise BadFileError(f"{place} has no {key!r}.")
    if line is None and not texts["text"] and not texts["id"]:
        raise BadFileError(f"{place} needs 'id', 'line' or 'text'.")
    return AllowEntry(line=line, expires=expires, **texts)


def _text(place: str, entry: Mapping[str, Any], key: str) -> str:
    text = entry.get(key, "")
    if not isinstance(text, str):
        raise BadFileError(f"{place}: {key!r} is not a text.")
    return text


def _is_file(path: str, pattern: str) -> bool:
    shown = display_path(path).replace(os.sep, "/")
    return fnmatch(shown, pattern.removeprefix("./")) or os.path.realpath(path) == os.path.realpath(pattern)


# ---- printing, and reports for CI systems


STEP_SUMMARY = "GITHUB_STEP_SUMMARY"
"""Variable with the file that GitHub shows on the page of a job."""


def require_outputs(outputs: Outputs, sources: Iterable[str | None]) -> None:
    """Raise `BadFileError` if a report cannot be written, or would replace a source of the run."""
    paths = [path for path in (outputs.sarif, outputs.junit, outputs.gitlab, outputs.markdown, outputs.html) if path]
    kept = {os.path.realpath(source) for source in sources if source and os.path.exists(source)}
    for path in paths:
        try:
            require_unused(path, force=True)
        except NotWrittenError as error:
            raise BadFileError(str(error)) from None
        if os.path.realpath(path) in kept:
            raise BadFileError(f"{path} is also used for something else.", "Choose another name for the report.")
        kept.add(os.path.realpath(path))
        if not os.path.isdir(os.path.dirname(os.path.abspath(path))):
            raise BadFileError(f"The folder of {path} does not exist.")


def publish(
    request: Request, outcome: Outcome, files: GateFiles | None = None, measure_again: MeasureAgain | None = None
) -> int:
    """Print the run, write the reports, and return the exit status."""
    result = judge(request, outcome, files, measure_again=measure_again)
    on_github = request.outputs.github
    if on_github and not request.json:
        from tcexplore.report.ci_formats import stop_commands

        stop, resume = stop_commands()
        sys.stdout.write(f"{stop}\n")
        _print(request, outcome, result)
        sys.stdout.write(f"{resume}\n")
    else:
        _print(request, outcome, result)
    for note in result.notes:
        print_error(note)
    written = _write_reports(request, outcome, result) if request.outputs != Outputs() else True
    sys.stdout.flush()
    return status(result, outcome.snapshot) or (0 if written else USER_ERROR)


def refuse_unread(request: Request, message: str) -> int:
    """Print why nothing can be read, with `--json` as a report as well; return the exit status."""
    if request.json:
        empty = Snapshot(run=1, file=request.target, source="", config=request.config)
        failure = ev.Failed(run=1, stage="file", blame="user", type="file", message=message)
        publish(Request("open", json=True), Outcome(empty.apply(failure)))
    return refuse(message)


def _print(request: Request, outcome: Outcome, result: GateResult) -> None:
    limits = result.sentences
    if request.json:
        from tcexplore.report.json_report import long_lists, report, report_pieces
        from tcexplore.report.json_text import write_report

        if request.select is None:
            lists = long_lists(outcome.snapshot)
            pieces = report_pieces(outcome.snapshot, outcome.machine, limits, request.calls, lists)
            write_report(pieces, sys.stdout, lists)
            return
        from tcexplore.answers.selection import parse_selection, selected_report

        selection = parse_selection(request.select)
        keys = [chosen.key for chosen in selection]
        whole = report(outcome.snapshot, outcome.machine, limits, request.calls, keys)
        json.dump(selected_report(whole, selection), sys.stdout, separators=(",", ":"))
        sys.stdout.write("\n")
        return
    from tcexplore.report.check_report import check_report, summary_report
    from tcexplore.report.printed import print_document

    build = summary_report if request.outputs.summary else check_report
    print_document(partial(build, outcome.snapshot, outcome.machine, limits, request.calls))


def _write_reports(request: Request, outcome: Outcome, result: GateResult) -> bool:
    """Write the chosen reports; return whether all were written."""
    snapshot = outcome.snapshot
    from tcexplore.documents.locations import display_path
    from tcexplore.report.ci_formats import ci_issues, gitlab, junit, markdown, sarif, workflow_commands
    from tcexplore.report.html_report import html_report

    outputs, path = request.outputs, display_path(snapshot.file)
    results = ci_issues(snapshot, result)
    written = True
    contents: tuple[tuple[str | None, Callable[[], str]], ...] = (
        (outputs.sarif, lambda: sarif(results, snapshot)),
        (outputs.junit, lambda: junit(results, result, snapshot, path)),
        (outputs.gitlab, lambda: gitlab(results)),
        (outputs.markdown, lambda: markdown(results, result, snapshot, path)),
        (outputs.html, lambda: html_report(snapshot, outcome.machine)),
    )
    for file, content in contents:
        try:
            if file is not None:
                create(file, content(), force=True)
        except NotWrittenError as error:
            print_error(str(error))
            written = False
    if outputs.github:
        # JSON on stdout stays valid; GitHub reads commands from both streams.
        (sys.stderr if request.json else sys.stdout).writelines(f"{line}\n" for line in workflow_commands(results))
        if summary := os.environ.get(STEP_SUMMARY):
            written &= _append(summary, markdown(results, result, snapshot, path))
    return written


def _append(path: str, text: str) -> bool:
    """Append to a file that other steps write to as well; return whether that worked."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        with os.fdopen(descriptor, "ab") as opened:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise OSError(0, "it is not a regular file")
            opened.write(text.encode("utf-8", "replace"))
    except OSError as error:
        print_error(f"{path} ({STEP_SUMMARY}) cannot be written: {error.strerror}")
        return False
    return True
