"""The timing pane: the verdict with its interval, the conditions, the break-even, compile time and parts of a call."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from tcexplore.documents.configurations import describe_grad_mode
from tcexplore.documents.document import Parts, Row, fixed
from tcexplore.documents.empty_states import empty_part
from tcexplore.documents.guards.recompile_rows import describe_failed_guard
from tcexplore.documents.locations import places
from tcexplore.documents.module_folds import KernelGroup, kernel_groups
from tcexplore.documents.prose import BLANK, fold, row, wrapped
from tcexplore.documents.timing.accuracy_rows import accuracy_rows, memory_rows
from tcexplore.documents.timing.cache_miss_rows import cache_miss_rows
from tcexplore.documents.timing.captured_rows import captured_rows
from tcexplore.documents.timing.device_rows import (
    cuda_graph_rows,
    describe_device_share,
    device_rows,
    shorten_device_function,
)
from tcexplore.documents.timing.memory_peak_rows import memory_peak_rows
from tcexplore.documents.timing.profile_rows import profile_rows
from tcexplore.documents.timing.regions_view import region_rows
from tcexplore.documents.timing.step_rows import step_rows
from tcexplore.documents.verdicts import describe_noise, format_reservation, of_medians, recommend, so_far
from tcexplore.events import CallPart, TimingEstimate
from tcexplore.keymap import hint
from tcexplore.quantities import count, duration, factor, factor_range
from tcexplore.session import Snapshot
from tcexplore.session.cache_misses import cache_misses
from tcexplore.session.call_account import CallAccount
from tcexplore.session.compile_time import (
    SMALL,
    CompiledCall,
    CompileSpan,
    CompileTime,
    CriticalPath,
    compile_time,
    compiled_calls,
    compiler_runs,
    critical_path,
    shorten,
)
from tcexplore.session.economics import economics
from tcexplore.session.history import wrong_result
from tcexplore.session.next_steps import CALL_FOLD, COMPILE_FOLD
from tcexplore.targets.target_names import NATIVE

MOST = 8
"""Calls that are listed one by one."""


NOTES = "timing notes"
"""The fold with what reduces the trust in a measurement."""

EMPTY_TEXT = (
    "Eager and compiled calls are timed in turns here, warm, on the same inputs, until the next save. The verdict is "
    "faster or slower only if the difference is above the noise."
)

SCRIPT_CALLS = "The script makes the calls. Each is timed until it returns."
ALTERNATED = "Once steps are warm, eager and compiled ones are timed in turns."

VERDICTS = {
    "faster": ("FASTER", "faster", "compiled is faster than eager"),
    "slower": ("SLOWER", "slower", "compiled is slower than eager"),
    "no difference": ("NO DIFFERENCE", "strong", "no difference above the noise"),
    "undecided": ("UNDECIDED", "strong", "the interval has room for faster and slower"),
    "measuring": ("MEASURING", "running", "too few pairs for a verdict"),
}
"""The badge of each verdict, its style and its meaning."""


def timing_document(snapshot: Snapshot, toggled: frozenset[str] = frozenset(), width: int = 78) -> Parts:
    """Return the document of the pane."""
    known = snapshot.timing is not None or _samples(snapshot, "eager_us")
    if not known and not snapshot.timing_skipped and not snapshot.calls and not snapshot.regions:
        return Parts("", [empty_part(snapshot, width, EMPTY_TEXT)])
    plot = _plot(snapshot, width) if known else ()
    rows = [
        *_head(snapshot, width),
        BLANK,
        *plot,
        *_conditions(snapshot, toggled, width),
        *_cost(snapshot, width),
        *step_rows(snapshot, width),
        *captured_rows(snapshot, width),
        *accuracy_rows(snapshot, width),
        *memory_rows(snapshot, width),
        *memory_peak_rows(snapshot, toggled, width),
        *cuda_graph_rows(snapshot, width),
        *device_rows(snapshot, width),
        *call_profile_rows(snapshot, toggled, width),
        *compile_time_rows(snapshot, toggled, width),
    ]
    return Parts(_title(snapshot), [fixed(rows)])


def _title(snapshot: Snapshot) -> str:
    pairs = snapshot.timing.pairs if snapshot.timing else len(_samples(snapshot, "eager_us"))
    return count(pairs, "pair") if pairs else ""


def _head(snapshot: Snapshot, width: int) -> Iterator[Row]:
    estimate = snapshot.timing
    if snapshot.profile is not None:
        yield from profile_rows(snapshot, width)
    elif snapshot.status != "running" and (estimate is None or estimate.verdict == "measuring"):
        yield from _cut_short(snapshot, width)
        if estimate is None:
            yield from region_rows(snapshot, width)
    elif estimate is not None:
        if wrong_result(snapshot):
            yield row((" ✖ WRONG RESULT", "error"), ("  the speedup is meaningless", "muted"))
            yield from wrapped(f"{hint('bisect')} finds the stage.", width, "muted", keys_only=True)
        yield from _verdict(estimate, width)
    elif snapshot.regions:
        yield row((" CALLS OF THE SCRIPT", "heading"))
        yield from wrapped(f"{hint('next-view')} shows the regions over time.", width, "muted", keys_only=True)
        yield from wrapped(SCRIPT_CALLS, width, "muted")
        yield from wrapped(snapshot.timing_skipped or ALTERNATED, width, "muted")
        yield from region_rows(snapshot, width)
    elif snapshot.timing_skipped:
        yield row((" NOT TIMED", "heading"))
        yield from wrapped(snapshot.timing_skipped, width, "muted")
    else:
        yield row(
            (" MEASURING", "running"), (f"  {count(len(_samples(snapshot, 'eager_us')), 'pair')} so far", "muted")
        )
    if snapshot.timing_goes_on and (fix := snapshot.fix_under_way) is not None:
        line = places(snapshot.file).describe(fix.location)
        yield from wrapped(f"Timing waits: the fix of {line or 'a break'} is being verified.", width, "running")


def _cut_short(snapshot: Snapshot, width: int) -> Iterator[Row]:
    """Yield why a run ended without a verdict."""
    timed = snapshot.timing is not None or not snapshot.timing_skipped
    yield row((" NO VERDICT" if timed else " NOT TIMED", "heading"))
    over = "the next run began" if snapshot.status == "superseded" else "the run ended"
    yield from wrapped(snapshot.timing_skipped or f"{over} before it had enough pairs", width, "muted")


def _verdict(estimate: TimingEstimate, width: int) -> Iterator[Row]:
    word, style, means = VERDICTS.get(estimate.verdict, (estimate.verdict, "strong", ""))
    if estimate.verdict == "measuring":
        yield row((f" {word}", style), (f"  {count(estimate.pairs, 'pair')} so far", "muted"))
        yield from wrapped(means, width, "muted")
        return
    slower = estimate.verdict == "slower"
    figure = f"  {factor(estimate.speedup) if slower else f'{estimate.speedup:.2f}×'}"
    interval = f"  {factor_range(estimate.low, estimate.high, slower=slower)}"
    yield row((f" {word}", style), (figure, style), (interval, "interval"),
              (f" 95% interval{so_far(estimate)}" if width >= 50 else so_far(estimate), "muted"))  # fmt: skip
    yield from wrapped(f"{describe_noise(estimate) or means} {estimate.load}".rstrip(), width, "muted")
    if (ratio := of_medians(estimate)) is not None:
        text = f"The speedup is that of calls next to each other. The medians below give {ratio:.2f}×: times varied."
        yield from wrapped(text, width, "muted")
    if text := describe_device_share(estimate):
        badge = "LAUNCH-BOUND: " if estimate.launch_bound else ""
        yield from wrapped(badge + text, width, "warn" if badge else "muted")


def _plot(snapshot: Snapshot, width: int) -> Iterator[Row]:
    """Yield the median, spread and distribution of both sides on one axis."""
    estimate = snapshot.timing
    sides = (("eager", _samples(snapshot, "eager_us")), ("compiled", _samples(snapshot, "compiled_us")))
    figures = _figures(estimate)
    wide = max(map(len, figures.values()))
    one_row = width >= 60
    indent = wide + 13 if one_row else 3
    on = fit_axis([values for _, values in sides], max(8, width - indent - 3))
    for name, values in sides:
        drawn = (draw_bars(values, on) if on else "", f"plot.{name}")
        figure = (f" {name:<9}", "strong"), (f"{figures[name]:<{wide}}", "number" if name == "compiled" else "")
        if one_row:
            yield row(*figure, "   ", drawn)
        else:
            yield row(*figure)
            yield row(" " * indent, drawn)
    if on:
        yield _scale(on, indent)
        outside = sum(count_outliers(values, on) for _, values in sides)
        if outside:
            yield row((" " * indent + f"{count(outside, 'outlier')} not shown", "dim"))
    yield BLANK


def _figures(estimate: TimingEstimate | None) -> dict[str, str]:
    """Return the median and spread of both sides, empty before the first estimate."""
    if estimate is None:
        return {"eager": "", "compiled": ""}
    return {
        "eager": f"{duration(estimate.eager_us / 1e6)} ± {duration(estimate.eager_spread_us / 1e6)}",
        "compiled": f"{duration(estimate.compiled_us / 1e6)} ± {duration(estimate.compiled_spread_us / 1e6)}",
    }


def _scale(on: Axis, indent: int) -> Row:
    low, high = duration(on.low / 1e6), duration(on.high / 1e6)
    gap = max(1, on.bins - len(low) - len(high))
    return row((" " * indent + low + " " * gap + high, "dim"))


def _conditions(snapshot: Snapshot, toggled: frozenset[str], width: int) -> Iterator[Row]:
    estimate = snapshot.timing
    if estimate is None:
        return
    passes = "forward and backward" if estimate.train else "forward"
    unit = f"{passes} of {count(estimate.calls, 'call')}" if estimate.calls > 1 else passes
    if estimate.unit == "step":
        unit = "whole steps of the script"
    facts = (
        unit, f"{count(estimate.pairs, 'interleaved pair')}", f"noise floor {100 * estimate.noise_floor:.1f}%",
        estimate.device, count(estimate.threads, "thread"),
        *([_processes(estimate)] if estimate.processes else []),
    )  # fmt: skip
    yield from wrapped(" · ".join(facts), width, "muted")
    if mode := describe_grad_mode(snapshot.grad_mode):
        yield from wrapped(mode, width, "muted")
    if not estimate.notes:
        return
    named = [note.partition(":")[0].lower() for note in estimate.notes if ":" in note[:24]]
    subjects = ", ".join([*named, *(["…"] if named and len(named) < len(estimate.notes) else [])])
    label = f"! {count(len(estimate.notes), 'note')} on the measurement"
    yield fold(NOTES, NOTES in toggled, (label, "warn"), (f": {subjects}" if subjects else "", "muted"))
    for note in estimate.notes if NOTES in toggled else ():
        yield from wrapped(note, width, "warn", lead="! ")


def _processes(estimate: TimingEstimate) -> str:
    to_come = f", {estimate.processes_to_come} to come" if estimate.processes_to_come else ""
    return ("1 process" if estimate.processes_timed == 1 else f"{estimate.processes_timed} processes") + to_come


SHOWN_IMPORT_S = 0.1
"""Seconds of imports ahead of a save from which they are shown."""


def _cost(snapshot: Snapshot, width: int) -> Iterator[Row]:
    costs = economics(snapshot)
    facts = []
    if costs.first_call_s is not None:
        facts.append(f"first call {duration(costs.first_call_s)}")
    if costs.compile_s is not None and not compile_time(snapshot).roots:
        facts.append(f"compiling {duration(costs.compile_s)}")
    if (ahead := snapshot.imported_ahead) is not None and ahead.seconds >= SHOWN_IMPORT_S:
        facts.append(f"{', '.join(ahead.packages)} imported ahead of the save in {duration(ahead.seconds)}")
    if facts:
        yield from wrapped(" · ".join(facts), width)
    for text in call_lines(snapshot):
        yield from wrapped(text, width, "muted")
    if text := recommend(snapshot, snapshot.expected_calls):
        yield from wrapped(text, width, "strong")
        if caveat := format_reservation(snapshot):
            yield from wrapped(caveat, width, "muted")
            if snapshot.cold_compile is None:
                yield from wrapped(f"{hint('cold')} measures a cold compile.", width, "muted", keys_only=True)
        if snapshot.expected_calls is None:
            unit = snapshot.timing.unit if snapshot.timing else "call"
            yield from wrapped(f"{hint('calls')} net gain over N {unit}s", width, "dim", keys_only=True)


def _samples(snapshot: Snapshot, side: str) -> list[float]:
    return [us for measured in snapshot.pairs if not measured.control for us in getattr(measured, side)]


def call_lines(snapshot: Snapshot) -> Iterator[str]:
    """Yield `call 1: compile, 1.93 s` for each call, and one line for the warm calls at the end."""
    made = compiled_calls(snapshot)
    last = max((call.number for call in made if call.kind != "warm"), default=0)
    for call in made[:last][:MOST]:
        yield _format_call(call)
    if last > MOST:
        yield f"{last - MOST} more, up to call {last}"
    if not made:
        return
    timing = snapshot.timing
    steady = f": {duration(timing.compiled_us / 1e6)} each" if timing else _first_warm(made[last:])
    if timing or len(made) > last:
        yield f"from call {last + 1} on{steady}"


def _first_warm(made: tuple[CompiledCall, ...]) -> str:
    return f": {duration(made[0].seconds)}" if made else ""


def _format_call(call: CompiledCall) -> str:
    reason = "; ".join(describe_failed_guard(again) for again in call.causes)
    return f"call {call.number}: {call.kind}{f' ({reason})' if reason else ''}, {duration(call.seconds)}"


# ---- distributions


BARS = " ▁▂▃▄▅▆▇█"

REACH = 1.5
"""Interquartile ranges by which the axis extends beyond the quartiles; values further out are outliers."""

DRAWN = 4096
"""Number of samples drawn, the newest ones."""


class Axis(NamedTuple):
    """An axis from `low` to `high`, in the unit of the samples, with `bins` cells."""

    low: float
    high: float
    bins: int


def fit_axis(series: Sequence[Sequence[float]], bins: int) -> Axis | None:
    """Return an axis for all series without their outliers, None if there is nothing to draw."""
    drawn = [sorted(values[-DRAWN:]) for values in series if values]
    if not drawn or bins < 1:
        return None
    fences = [_fences(values) for values in drawn]
    low, high = min(low for low, _ in fences), max(high for _, high in fences)
    if high == low:
        low, high = low - (abs(low) * 0.01 or 1.0), high + (abs(high) * 0.01 or 1.0)
    return Axis(low, high, bins)


def _fences(values: Sequence[float]) -> tuple[float, float]:
    """Return the smallest and the largest of sorted values without the outliers."""
    lower, upper = values[len(values) // 4], values[-1 - len(values) // 4]
    reach = REACH * (upper - lower)
    return min(v for v in values if v >= lower - reach), max(v for v in values if v <= upper + reach)


def draw_bars(values: Sequence[float], on: Axis) -> str:
    """Return one character per cell of the axis: the number of values in it, relative to the fullest cell."""
    counts = [0] * on.bins
    step = (on.high - on.low) / on.bins
    edges = [on.low + step * n for n in range(1, on.bins)]
    for value in values[-DRAWN:]:
        if on.low <= value <= on.high:
            counts[bisect_right(edges, value)] += 1
    most = max(counts)
    return "".join(BARS[0 if not n else max(1, round(n / most * (len(BARS) - 1)))] for n in counts) if most else ""


def count_outliers(values: Sequence[float], on: Axis) -> int:
    """Return how many of the drawn values lie beyond the axis."""
    return sum(not on.low <= value <= on.high for value in values[-DRAWN:])


# ---- compile time


OTHER_TIME = "other time in the calls that compiled:"

SLOWEST = 5
"""Kernels that are named."""


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
    path = critical_path(snapshot)
    yield from critical_path_rows(path, width)
    if path.segments:
        yield from wrapped(SPANS, width, "strong")
    for depth, name, seconds, share in span_lines(spent):
        yield row((f" {seconds:>8} {share:>5}  ", "muted"), "  " * depth + name)
    others = list(other_time_lines(spent))
    if others:
        yield from wrapped(OTHER_TIME, width, "muted")
    for name, seconds, share in others:
        yield row((f" {seconds:>8} {share:>6} ", "muted"), name)
    for line in slowest_compiles(snapshot):
        yield from wrapped(line, width, "muted")
    yield from cache_miss_rows(cache_misses(snapshot), places(snapshot.file), width)


SPANS = "The same as a tree, by torch's names of the spans"

CRITICAL_PATH = "What the calls that compile wait for, in order, and when in the run"


def critical_path_rows(path: CriticalPath, width: int) -> Iterator[Row]:
    """Yield what the calls that compile wait for, without short segments."""
    if not path.segments:
        return
    share = f"; {100 * path.share:.0f}% of the time of the calls that compiled" if path.share is not None else ""
    yield from wrapped(f"{CRITICAL_PATH}{share}", width, "strong")
    stages: defaultdict[str, float] = defaultdict(float)
    for segment in path.segments:
        stages[WAITED_FOR.get(segment.stage, segment.stage)] += segment.seconds
    if len(path.segments) > len(stages) > 1:
        sums = (f"{stage} {duration(seconds)}" for stage, seconds in sorted(stages.items(), key=lambda each: -each[1]))
        yield from wrapped(f"in all: {' · '.join(sums)}", width, "muted")
    shown = [segment for segment in path.segments if segment.seconds >= SMALL * path.seconds]
    for segment in shown:
        at = "" if segment.at is None else f"at {duration(max(0.0, segment.at))}"
        waits = f"  the slowest is {segment.waits_for}" if segment.waits_for else ""
        name = WAITED_FOR.get(segment.stage, segment.stage)
        yield row(
            (f" {duration(segment.seconds):>8} {100 * segment.seconds / path.seconds:>4.0f}%  ", "muted"),
            f"{segment.graph} {name}".strip(), (f"{waits}  {at}", "muted"),
        )  # fmt: skip
    short = [segment.seconds for segment in path.segments if segment.seconds < SMALL * path.seconds]
    if short:
        yield row((f" {duration(sum(short)):>8} {100 * sum(short) / path.seconds:>4.0f}%  ", "muted"),
                  (f"{count(len(short), 'shorter segment')}", "muted"))  # fmt: skip
    yield BLANK


WAITED_FOR = {
    "compile workers": "kernels compiled by other processes",
    "compiled code": "running compiled code for the first time",
    "frames": "Dynamo inspecting frames, outside its spans",
}
"""Stages in words."""


def summarize_compile_time(spent: CompileTime) -> str:
    """Return `compiling took 7.20 s, 98% of the 7.35 s of the calls that compiled`."""
    took = f"compiling took {duration(spent.seconds)}"
    if spent.share is None or spent.wall_seconds is None:
        return took
    return f"{took}, {100 * spent.share:.0f}% of the {duration(spent.wall_seconds)} of the calls that compiled"


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
    """Yield the slowest kernels to compile: Triton kernels by name, runs of the C++ compiler by time."""
    named = sorted(snapshot.kernel_compiles, key=lambda kernel: -kernel.seconds)[:SLOWEST]
    if named:
        yield "slowest kernels: " + ", ".join(f"{kernel.name} {duration(kernel.seconds)}" for kernel in named)
    if runs := compiler_runs(compile_time(snapshot).roots):
        yield f"C++ compiler: {count(len(runs), 'run')}, the longest {duration(runs[0])}"
    caches = [
        f"{used.cache} cache: {used.outcome}{f' ({used.reason})' if used.reason else ''}"
        for used in snapshot.cache_lookups
    ]
    yield from dict.fromkeys(caches)


# ---- parts of a compiled call


PART_NAMES = {
    "Python": "Python outside the compiled regions",
    "guards": "guards",
    "launch": "launch:",
    "idle": "device idle: Python and launch",
    "kernel": "kernel",
    "library": "library call",
    "eager op": "outside the graphs:",
}

MOST_PARTS = 16
"""Parts that are listed one by one."""

ESTIMATED = (
    "Estimates: the machine ran over 10% faster or slower than in the timing while the parts were measured. They are "
    "scaled to the timing."
)

CALL_PROFILE, COMPILE_TIME = CALL_FOLD, COMPILE_FOLD


class PartLine(NamedTuple):
    """One part as text."""

    time: str
    share: str
    name: str
    range: str = ""
    """The least and the greatest time among the profiled calls."""


def call_profile_rows(snapshot: Snapshot, opened: frozenset[str], width: int) -> Iterator[Row]:
    """Yield a fold with the parts of a call, once it is profiled."""
    account = snapshot.call_account
    if account is None:
        return
    yield BLANK
    yield fold(CALL_PROFILE, CALL_PROFILE in opened, summarize_account(account))
    if CALL_PROFILE in opened:
        for line in account_lines(account, kernel_groups(snapshot, snapshot.code_for(NATIVE))):
            yield row((f" {line.time:>8} {line.share:>5}  ", "muted"), line.name, (f"  {line.range}", "dim"))
        if account.estimated:
            yield from wrapped(ESTIMATED, width, "muted")


def summarize_account(account: CallAccount) -> str:
    """Return `one compiled call: 412 µs, 61% of it in kernels`, or how long the device is busy."""
    total = f"one compiled call: {duration(account.total_us / 1e6)}"
    if account.on_device:
        idle = account.us("idle", "guards")
        return f"{total}, device busy for {_percent(account.total_us - idle, account.total_us)} of it"
    kernels = account.us("kernel", "library")
    return total + (f", {_percent(kernels, account.total_us)} of it in kernels" if kernels and account.total_us else "")


def account_lines(account: CallAccount, groups: Sequence[KernelGroup] = ()) -> Iterator[PartLine]:
    """Yield the parts of a call, longest first, and what they leave; kernels of a group are one part."""
    parts = _grouped(account.parts, groups)
    yield from (_part_line(part, account.total_us, module) for part, module in parts[:MOST_PARTS])
    if len(parts) > MOST_PARTS:
        rest = sum(part.us for part, _ in parts[MOST_PARTS:])
        shorter = count(len(parts) - MOST_PARTS, "shorter part")
        yield PartLine(duration(rest / 1e6), _percent(rest, account.total_us), shorter)
    if account.rest_us:
        name = "overlapping work of the device" if account.rest_us < 0 else "in no part"
        time = duration(abs(account.rest_us) / 1e6)
        yield PartLine(f"-{time}" if account.rest_us < 0 else time, _percent(account.rest_us, account.total_us), name)
    profile = account.profile
    if account.on_device:
        replays = f", {profile.replayed_tasks} of them in {count(profile.replays, 'CUDA graph')}"
        launches = f"{profile.device_tasks} kernels, copies and fills in {profile.launches} launches"
        yield PartLine("", "", launches + (replays if profile.replays else ""))


def _grouped(parts: Iterable[CallPart], groups: Iterable[KernelGroup]) -> list[tuple[CallPart, str]]:
    """Return the parts with the module of each kernel, the longest first; as one, those of equal layers and lines."""
    keys: dict[tuple[str, str, str], KernelGroup] = {
        (kernel.graph, kernel.phase, kernel.name): group for group in groups for kernel in group.kernels
    }
    joined: dict[object, tuple[CallPart, str]] = {}
    for part in parts:
        group = keys.get((part.graph, part.phase, part.name)) if part.kind == "kernel" else None
        key: object = id(part) if group is None else id(group)
        if part.kind == "eager op":
            key = part.name, part.location
        if key in joined:
            known = joined[key][0]
            part = replace(
                known, us=known.us + part.us, low_us=known.low_us + part.low_us,
                high_us=known.high_us + part.high_us, launches=known.launches + part.launches,
                name=group.kernels[0].name if group is not None else part.name,
            )  # fmt: skip
        joined[key] = part, group.module if group is not None else ""
    return sorted(joined.values(), key=lambda item: -item[0].us)


def _part_line(part: CallPart, whole: float, module: str) -> PartLine:
    times = f" ×{part.launches}" if part.launches > 1 else ""
    name = f"{PART_NAMES[part.kind]} {shorten_device_function(part.name)}".strip()
    graph = f"  {part.graph} {part.phase}" if part.graph else ""
    low, high = duration(part.low_us / 1e6), duration(part.high_us / 1e6)
    ends = f"{low} to {high}" if low != high else ""
    of_module = f"  {module}" if module else ""
    line = f"  {os.path.basename(part.location.file)}:{part.location.line}" if part.location else ""
    return PartLine(duration(part.us / 1e6), _percent(part.us, whole), f"{name}{times}{of_module}{line}{graph}", ends)


def _percent(microseconds: float, whole: float) -> str:
    return f"{100 * microseconds / whole:.0f}%" if whole else ""
