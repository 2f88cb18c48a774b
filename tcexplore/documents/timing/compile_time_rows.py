"""Rows of the timing pane about compile time."""

from __future__ import annotations

from collections.abc import Iterator

from tcexplore.documents.document import Row
from tcexplore.documents.prose import BLANK, fold, row, wrapped
from tcexplore.quantities import count, duration
from tcexplore.session import Snapshot
from tcexplore.session.compile_time import CompileSpan, CompileTime, compile_time, files_compiled, shorten

OTHER_TIME = "other time in the calls that compiled:"

SLOWEST = 5
"""Kernels that are named."""


COMPILE_TIME = "compile time"

PHASES = {"queued": "waiting for a worker", "querying_cache": "reading caches"}
"""torch's phases of a job, as text where its name says little."""

LAST_OUTPUT = 5
"""Lines of output of compile workers that ended."""


def compile_time_rows(snapshot: Snapshot, opened: frozenset[str], width: int) -> Iterator[Row]:
    """Yield reports on compile workers, and a fold with the tree of compile spans if there are any."""
    spent = compile_time(snapshot)
    reports = list(worker_lines(snapshot))
    if reports:
        yield BLANK
    for line, style in reports:
        yield from wrapped(line, width, style)
    if not spent.roots:
        return
    yield BLANK
    yield fold(COMPILE_TIME, COMPILE_TIME in opened, summarize_compile_time(spent))
    if COMPILE_TIME not in opened:
        return
    for depth, name, seconds, share in span_lines(spent):
        yield row((f" {seconds:>8} {share:>5}  ", "muted"), "  " * depth + name)
    others = list(other_time_lines(spent))
    if others:
        yield from wrapped(OTHER_TIME, width, "muted")
    for name, seconds, share in others:
        yield row((f" {seconds:>8} {share:>6} ", "muted"), name)
    for line in slowest_compiles(snapshot):
        yield from wrapped(line, width, "muted")


def summarize_compile_time(spent: CompileTime) -> str:
    """Return `compiling took 7.20 s, 98% of the calls that compiled`."""
    share = "" if spent.share is None else f", {100 * spent.share:.0f}% of the calls that compiled"
    return f"compiling took {duration(spent.seconds)}{share}"


def span_lines(spent: CompileTime) -> Iterator[tuple[int, str, str, str]]:
    """Yield depth, name, time and share of each significant span."""
    for root in spent.roots:
        yield from _lines(shorten(root, spent.seconds), spent.seconds, 0)


def other_time_lines(spent: CompileTime) -> Iterator[tuple[str, str, str]]:
    """Yield name, time and share of everything but compiling in the calls that compiled, as far as measured."""
    parts = (
        ("running compiled code", spent.graph_seconds),
        ("Dynamo inspecting frames, outside its spans", spent.frame_seconds),
        ("guards, and your code between graphs", spent.unaccounted_seconds),
    )
    for name, seconds in parts:
        if seconds is not None and spent.wall_seconds:
            yield name, duration(seconds), f"{100 * seconds / spent.wall_seconds:.1f}%"


def _lines(span: CompileSpan, whole: float, depth: int) -> Iterator[tuple[int, str, str, str]]:
    graph = f"{span.graph} " if depth == 0 and span.graph else ""
    times = f" ×{span.count}" if span.count > 1 else ""
    share = f"{100 * span.seconds / whole:.0f}%" if whole else ""
    yield depth, f"{graph}{span.name}{times}", duration(span.seconds), share
    for inner in span.children:
        yield from _lines(inner, whole, depth + 1)


def worker_lines(snapshot: Snapshot) -> Iterator[tuple[str, str]]:
    """Yield a line and its style for each job that takes long in torch's compile workers, and for their end."""
    for report in snapshot.compile_workers:
        graph = f"graph {report.graph}: " if report.graph else ""
        if report.job is None:
            status = "" if report.status is None else f", exit status {report.status}"
            pid = "" if report.pid is None else f" {report.pid}"
            yield f"{graph}the process{pid} of torch's compile workers ended{status}", "error"
            yield from ((line, "muted") for line in report.text.split("\n")[-LAST_OUTPUT:] if line)
            continue
        phase = PHASES.get(report.phase, report.phase)
        if phase and report.phase_seconds is not None:
            phase = f"{phase} for {duration(report.phase_seconds)}"
        worker = "" if report.pid is None else f"compile worker {report.pid}"
        where = ", ".join(filter(None, (worker, phase)))
        after = "" if report.seconds is None else f" after {duration(report.seconds)}"
        yield f"{graph}job {report.job} is not done{after}{f' ({where})' if where else ''}", "warn"


def slowest_compiles(snapshot: Snapshot) -> Iterator[str]:
    """Yield the slowest kernels to compile: Triton kernels by name, C++ files, which torch does not name, by time."""
    named = sorted(snapshot.kernel_compiles, key=lambda kernel: -kernel.seconds)[:SLOWEST]
    if named:
        yield "slowest kernels: " + ", ".join(f"{kernel.name} {duration(kernel.seconds)}" for kernel in named)
    files = files_compiled(compile_time(snapshot).roots)
    if files:
        yield f"C++ compiler: {count(len(files), 'file')}, the slowest {duration(files[0])}"
    caches = [
        f"{used.cache} cache: {used.outcome}{f' ({used.reason})' if used.reason else ''}"
        for used in snapshot.cache_lookups
    ]
    yield from dict.fromkeys(caches)
