"""The timing pane: the verdict with its interval, the conditions, the cost of the first call and the break-even."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tcexplore.documents.configurations import describe_grad_mode
from tcexplore.documents.document import Parts, Row, fixed
from tcexplore.documents.empty_states import empty_part
from tcexplore.documents.guards.recompile_rows import describe_failed_guard
from tcexplore.documents.prose import BLANK, row, wrapped
from tcexplore.documents.timing.accuracy_rows import accuracy_rows, memory_rows
from tcexplore.documents.timing.call_profile_rows import call_profile_rows
from tcexplore.documents.timing.compile_time_rows import compile_time_rows
from tcexplore.documents.timing.device_rows import cuda_graph_rows, describe_device_share, device_rows
from tcexplore.documents.timing.recommendation import format_reservation, recommend
from tcexplore.documents.timing.timeline_view import region_rows
from tcexplore.events import TimingEstimate
from tcexplore.keymap import hint
from tcexplore.quantities import count, duration
from tcexplore.session import Snapshot
from tcexplore.session.compile_time import CompiledCall, compiled_calls
from tcexplore.session.economics import economics
from tcexplore.session.history import wrong_result

MOST = 8
"""Calls that are listed one by one."""


TEACHES = (
    "Eager and compiled calls are timed in turns here, warm, on the same inputs, until the next save. The verdict is "
    "faster or slower only if the difference is above the noise."
)

NO_EAGER = "The script makes the calls. Each is timed until it returns; there is no eager version to compare with."

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
        return Parts("", [empty_part(snapshot, width, TEACHES)])
    plot = _plot(snapshot, width) if known else ()
    rows = [
        *_head(snapshot, width),
        BLANK,
        *plot,
        *_conditions(snapshot, width),
        *_cost(snapshot, width),
        *accuracy_rows(snapshot, width),
        *memory_rows(snapshot, width),
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
    if snapshot.status != "running" and (estimate is None or estimate.verdict == "measuring"):
        yield from _cut_short(snapshot, width)
    elif estimate is not None:
        if wrong_result(snapshot):
            yield row((" ✖ WRONG RESULT", "error"), ("  the speedup is meaningless", "muted"))
            yield from wrapped(f"{hint('bisect')} finds the stage.", width, "muted", keys_only=True)
        yield from _verdict(estimate, width)
    elif snapshot.regions:
        yield row((" CALLS OF THE SCRIPT", "heading"))
        yield from wrapped(f"{hint('next-view')} shows the timeline.", width, "muted", keys_only=True)
        yield from wrapped(NO_EAGER, width, "muted")
        yield from region_rows(snapshot, width)
    elif snapshot.timing_skipped:
        yield row((" NOT TIMED", "heading"))
        yield from wrapped(snapshot.timing_skipped, width, "muted")
    else:
        yield row(
            (" MEASURING", "running"), (f"  {count(len(_samples(snapshot, 'eager_us')), 'pair')} so far", "muted")
        )


def _cut_short(snapshot: Snapshot, width: int) -> Iterator[Row]:
    """Yield why a run ended without a verdict."""
    yield row((" NOT TIMED" if snapshot.timing_skipped else " NO VERDICT", "heading"))
    over = "superseded by a newer run" if snapshot.status == "superseded" else "the run ended"
    yield from wrapped(snapshot.timing_skipped or f"{over} before it had enough pairs", width, "muted")


def _verdict(estimate: TimingEstimate, width: int) -> Iterator[Row]:
    word, style, means = VERDICTS.get(estimate.verdict, (estimate.verdict, "strong", ""))
    if estimate.verdict == "measuring":
        yield row((f" {word}", style), (f"  {count(estimate.pairs, 'pair')} so far", "muted"))
        yield from wrapped(means, width, "muted")
        return
    figure = f"  {estimate.speedup:.2f}×"
    interval = f"  [{estimate.low:.2f}, {estimate.high:.2f}]"
    yield row((f" {word}", style), (figure, style), (interval, "interval"),
              (" 95% interval" if width >= 50 else "", "muted"))  # fmt: skip
    yield from wrapped(f"{means} {estimate.load}".rstrip(), width, "muted")
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


def _conditions(snapshot: Snapshot, width: int) -> Iterator[Row]:
    estimate = snapshot.timing
    if estimate is None:
        return
    passes = "forward and backward" if estimate.train else "forward"
    unit = f"{passes} of {count(estimate.calls, 'call')}" if estimate.calls > 1 else passes
    facts = (
        unit, f"{count(estimate.pairs, 'interleaved pair')}", f"noise floor {100 * estimate.noise_floor:.1f}%",
        estimate.device, count(estimate.threads, "thread"),
        *([_processes(estimate.processes_timed)] if estimate.processes else []),
    )  # fmt: skip
    yield from wrapped(" · ".join(facts), width, "muted")
    if mode := describe_grad_mode(snapshot.grad_mode):
        yield from wrapped(mode, width, "muted")
    for note in estimate.notes:
        yield from wrapped(note, width, "warn", lead="! ")


def _processes(number: int) -> str:
    return "1 process" if number == 1 else f"{number} processes"


def _cost(snapshot: Snapshot, width: int) -> Iterator[Row]:
    costs = economics(snapshot)
    facts = []
    if costs.first_call_s is not None:
        facts.append(f"first call {duration(costs.first_call_s)}")
    if costs.compile_s is not None:
        facts.append(f"compiling {duration(costs.compile_s)}")
    if facts:
        yield from wrapped(" · ".join(facts), width)
    for text in call_lines(snapshot):
        yield from wrapped(text, width, "muted")
    if text := recommend(snapshot, snapshot.expected_calls):
        yield from wrapped(text, width, "strong")
        if caveat := format_reservation(snapshot):
            yield from wrapped(caveat, width, "muted")
            yield from wrapped(f"{hint('cold')} measures a cold compile.", width, "muted", keys_only=True)
        if snapshot.expected_calls is None:
            yield from wrapped(f"{hint('calls')} net gain over N calls", width, "dim", keys_only=True)


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
