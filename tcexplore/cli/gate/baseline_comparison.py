"""Comparison of a run with a baseline: what got worse by more than noise explains."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields
from statistics import median
from typing import Literal

from tcexplore.cli.gate.baseline_figures import BaselineFigures, CompileFigures, SpeedFigures
from tcexplore.quantities import count, duration

SLOWER = 0.1
"""Minimum drop of the speedup that counts as slower: two runs differ by some percent beyond their intervals."""

MANY_PAIRS = 100
"""Minimum number of pairs with which the fastest blocks decide."""

FEW_PAIRS = 30
"""The same for the fastest calls, if calls were timed one by one: a call is interrupted less often than a block."""

STEADY = 0.25
"""Maximum noise floor with which the fastest blocks decide alone, and one measurement is enough if there is no second
one."""

UNNOTICED = 1.5
"""A note tells that smaller slowdowns are not detected if that is more than this."""

COMPILE_MARGIN = 0.45
"""Minimum growth of the compile time that counts if its CPU time is unknown, and `COMPILE_SECONDS` of it."""
COMPILE_SECONDS = 0.2

CPU_MARGIN = 0.25
"""Minimum growth of the CPU time of the compile that counts if a second measurement confirms it. Other load can triple
the time of a compile, but adds much less to its CPU time."""

CPU_MARGIN_ONCE = 0.35
"""The same without a second measurement."""

IMPORTS_POWER = 0.7
"""Power of the growth of the imports' CPU time by which noise lengthens the compile's: the slope of one over the other,
on a log scale, in unchanged runs under varying load."""

SPREADS = 3.0
"""Number of standard deviations of the phases by which the whole compile has to grow."""

_DEVIATION = 1.4826
"""Standard deviation over median absolute deviation of a normal distribution."""

TimeVerdict = Literal["worse", "not worse", "not compared"]


@dataclass(frozen=True, slots=True)
class TimeComparison:
    """Comparison of the speed, or of the compile time."""

    verdict: TimeVerdict
    sentence: str = ""
    """What got worse."""
    value: str = ""
    """The compared value of the run."""
    certain: bool = True
    """Whether one measurement is enough if there is no second one."""
    note: str = ""
    """What could not be compared, or what noise hides."""


@dataclass(frozen=True, slots=True)
class BaselineComparison:
    """Comparison of a run with a baseline."""

    counts: tuple[str, ...]
    """Sentences about the numbers that grew."""
    times: tuple[TimeComparison, ...]
    """That of the speed, and that of the compile time."""

    @property
    def slower(self) -> bool:
        """Return whether a time got worse, which a second measurement should confirm."""
        return any(time.verdict == "worse" for time in self.times)

    @property
    def worse(self) -> tuple[str, ...]:
        """Return what got worse by more than noise, as sentences."""
        return (*self.counts, *(time.sentence for time in self.times if time.verdict == "worse"))

    @property
    def notes(self) -> tuple[str, ...]:
        """Return what was not compared, as sentences."""
        return tuple(time.note for time in self.times if time.note)


def compare(before: BaselineFigures, after: BaselineFigures) -> BaselineComparison:
    """Return what is worse in one run than in another, by one measurement of each."""
    slowdown = _machine_factor(before.speed, after.speed)
    times = (_compare_speed(before.speed, after.speed), _compare_compile(before.compile, after.compile, slowdown))
    return BaselineComparison(tuple(_counts(before, after)), times)


def confirm(first: BaselineComparison, second: BaselineComparison | None) -> BaselineComparison:
    """Return the first comparison without the times that a second measurement of the same program does not confirm.

    Without a second measurement, only a time that is certain by one stays worse.
    """
    again = second.times if second else (TimeComparison("not compared"),) * len(first.times)
    times = (_confirm_time(*pair) for pair in zip(first.times, again, strict=True))
    return BaselineComparison(first.counts, tuple(times))


def _confirm_time(first: TimeComparison, second: TimeComparison) -> TimeComparison:
    if first.verdict != "worse":
        return first
    if second.verdict == "worse":
        return TimeComparison("worse", f"{first.sentence}; measured again: {second.value}", first.value)
    if second.verdict == "not compared" and first.certain:
        return first
    again = f"measured again: {second.value}" if second.value else "it could not be measured again"
    return TimeComparison("not worse", value=first.value, note=f"not counted as worse: {first.sentence}; {again}")


def _counts(before: BaselineFigures, after: BaselineFigures) -> Iterator[str]:
    for breaks, known, noun in (
        (after.breaks, before.breaks, "graph break"),
        (after.break_reports, before.break_reports, "reported graph break"),
    ):
        if breaks.total() > known.total():
            file, kind, code = (breaks - known).most_common(1)[0][0]
            new = ", ".join(filter(None, (file, code or kind)))
            yield f"{count(breaks.total(), noun)}, {known.total()} in the baseline; new: {new}"
            break
    names = {"recompiles": "recompile", "graphs": "graph", "kernels": "kernel", "library_calls": "library call"}
    for field in fields(BaselineFigures):
        if field.name in names and (number := getattr(after, field.name)) > getattr(before, field.name):
            yield f"{count(number, names[field.name])}, {getattr(before, field.name)} in the baseline"


# ---- speed


def _compare_speed(old: SpeedFigures | None, new: SpeedFigures | None) -> TimeComparison:
    if reason := _speed_obstacle(old, new):
        return TimeComparison("not compared", note=f"the speed is not compared: {reason}")
    if old is None or new is None:
        return TimeComparison("not compared")
    value = f"{new.speedup:.2f}× [{new.low:.2f}, {new.high:.2f}]"
    if _is_slower(old, new):
        best = f", in its fastest blocks {new.best:.2f}×, was {old.best:.2f}×" if old.best and new.best else ""
        if old.fastest and new.fastest:
            best = f", in its fastest calls {new.fastest:.2f}×, was {old.fastest:.2f}×"
        was = f"{old.speedup:.2f}× [{old.low:.2f}, {old.high:.2f}]"
        sentence = f"compiled is {value} as fast as eager, {was} in the baseline{best}"
        return TimeComparison("worse", sentence, value, certain=max(old.noise_floor, new.noise_floor) <= STEADY)
    note = ""
    if (least := _least_detected(old, new)) > UNNOTICED:
        factor = "no slowdown" if least == math.inf else f"only a slowdown of more than {least:.1f}×"
        noisy = "the baseline" if old.speedup / old.ends[0] > new.ends[1] / new.speedup else "this run"
        note = (
            f"{factor} would be detected, since the timing of {noisy} is noisy: --threads 1 is steadier, for both runs"
        )
    return TimeComparison("not worse", value=value, note=note)


def _speed_obstacle(old: SpeedFigures | None, new: SpeedFigures | None) -> str:
    """Return why two timings cannot be compared; empty if they can be, or if there are none."""
    if old is None or new is None:
        return f"{'this run' if old else 'the baseline'} is not timed" if old or new else ""
    if old.machine != new.machine:
        return f"the baseline is of {old.machine[0]} with {count(old.machine[1], 'thread')}"
    return "the timing ended without a verdict" if "measuring" in (old.verdict, new.verdict) else ""


def _is_slower(old: SpeedFigures, new: SpeedFigures) -> bool:
    """Return whether the fastest calls and blocks are slower; if there are too few, whether the median is.

    Other load changes the speedup of most blocks for as long as it lasts, whatever the interval is.
    """
    if fastest := _fastest(old, new):
        return all(slowdown > tolerance for slowdown, tolerance in fastest)
    tolerance = _tolerance(old, new)
    if old.best and new.best and old.best / new.best <= tolerance:
        return False
    return new.ends[1] < old.ends[0] and old.speedup / new.speedup > tolerance


def _fastest(old: SpeedFigures, new: SpeedFigures) -> list[tuple[float, float]]:
    """Return the slowdown of the fastest blocks and of the fastest calls, each with that which noise explains.

    The blocks count if there are enough of them, and the calls if there are too few blocks, or noisy ones: a single
    call may be fast by chance.
    """
    pairs, fastest = min(old.pairs, new.pairs), []
    if old.best and new.best and pairs >= MANY_PAIRS:
        fastest.append((old.best / new.best, 1 + max(old.best_noise, new.best_noise, SLOWER)))
        if max(old.noise_floor, new.noise_floor) <= STEADY:
            return fastest
    if old.fastest and new.fastest and pairs >= FEW_PAIRS:
        fastest.append((old.fastest / new.fastest, 1 + max(old.fastest_noise, new.fastest_noise, SLOWER)))
    return fastest


def _tolerance(old: SpeedFigures, new: SpeedFigures) -> float:
    """Return the slowdown of the median that two runs of the same program may show."""
    return 1 + max(old.noise_floor, new.noise_floor, SLOWER)


def _least_detected(old: SpeedFigures, new: SpeedFigures) -> float:
    """Return the slowdown that is certainly detected: intervals as wide as these would not overlap."""
    if fastest := _fastest(old, new):
        return max(tolerance for _, tolerance in fastest)
    if old.ends[0] <= 0 or new.speedup <= 0:
        return math.inf
    return max(_tolerance(old, new), old.speedup / old.ends[0] * new.ends[1] / new.speedup)


# ---- compile time


def _compare_compile(old: CompileFigures | None, new: CompileFigures | None, slowdown: float) -> TimeComparison:
    """Compare two compile times; `slowdown` is that of the machine."""
    if reason := _compile_obstacle(old, new):
        return TimeComparison("not compared", note=f"the compile time is not compared: {reason}")
    if old is None or new is None:
        return TimeComparison("not compared")
    value = _describe_compile(new)
    growth, margin = _compile_growth(old, new, slowdown)
    if growth <= margin:
        return TimeComparison("not worse", value=value)
    name = max(new.phases, key=lambda phase: new.phases[phase] - old.phases.get(phase, 0.0))
    was = duration(old.phases[name]) if name in old.phases else "absent"
    sentence = (
        f"compiling took {value}, {_describe_compile(old)} in the baseline, more than the margin "
        f"of {margin:.0%}; {name} grew most: {duration(new.phases[name])}, was {was}"
    )
    return TimeComparison("worse", sentence, value, certain=growth > CPU_MARGIN_ONCE)


def _compile_obstacle(old: CompileFigures | None, new: CompileFigures | None) -> str:
    """Return why two compile times cannot be compared; empty if they can be, or if there are none."""
    if old is None or new is None:
        return f"{'this run' if old else 'the baseline'} has none" if old or new else ""
    return "" if old.cached == new.cached else "one run took more from a cache than the other"


def _describe_compile(figures: CompileFigures) -> str:
    cpu = "" if figures.cpu_s is None else f" ({duration(figures.cpu_s)} of CPU time)"
    return f"{duration(figures.seconds)}{cpu}"


def _machine_factor(old: SpeedFigures | None, new: SpeedFigures | None) -> float:
    """Return how much slower this machine is now, by the time of eager; at least 1."""
    return max(1.0, new.eager_us / old.eager_us) if old and new and old.machine == new.machine and old.eager_us else 1.0


def _compile_growth(old: CompileFigures, new: CompileFigures, slowdown: float) -> tuple[float, float]:
    """Return the growth of the compile time, and the growth that noise explains; `slowdown` is that of the machine.

    CPU times are compared if known, corrected by those of the imports, which noise lengthens as well. A compile
    that got shorter did not grow, unless only the baseline waited for other processes.
    """
    if not old.seconds:
        return 0.0, 0.0
    if old.cpu_s and new.cpu_s:
        imports = new.startup_cpu_s / old.startup_cpu_s if old.startup_cpu_s and new.startup_cpu_s else 1.0
        before, after, margin = old.cpu_s * imports**IMPORTS_POWER, new.cpu_s, CPU_MARGIN
    else:
        before, after, margin = old.seconds * slowdown, new.seconds, compile_margin(old, new)
    longer = new.seconds > old.own_seconds and after - before > COMPILE_SECONDS
    return (after / before - 1 if longer else 0.0), margin


def compile_margin(old: CompileFigures, new: CompileFigures) -> float:
    """Return the growth of the compile time that noise explains, from how unequally the phases grew."""
    logs = {
        name: math.log(new.phases[name] / seconds)
        for name, seconds in old.phases.items()
        if seconds > 0.01 * old.seconds and new.phases.get(name, 0.0) > 0
    }
    if len(logs) < 3:
        return COMPILE_MARGIN
    middle = median(logs.values())
    spread = _DEVIATION * median(abs(value - middle) for value in logs.values())
    weights = [old.phases[name] for name in logs]
    independent = sum(weights) ** 2 / sum(weight**2 for weight in weights)
    return max(COMPILE_MARGIN, math.expm1(SPREADS * spread / math.sqrt(independent)))
