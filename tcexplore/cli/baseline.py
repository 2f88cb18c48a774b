"""`--baseline FILE`: the figures of two reports, and what got worse by more than noise explains."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from statistics import median
from typing import Any, Literal

from tcexplore.cli.file_argument import BadFileError
from tcexplore.events.config import Config
from tcexplore.events.timing_events import TimingVerdict
from tcexplore.files import NotWrittenError, read
from tcexplore.quantities import count, duration, speedup_range

# ---- figures of a report


_COMPARED_CONFIG = ("mode", "backend", "dynamic", "fullgraph", "train", "target", "inputs", "vary")

Report = Mapping[str, Any]

Place = tuple[str, str, str]
"""File, kind and source line of a break."""


def read_baseline(path: str, config: Config | None) -> Report:
    """Return a report of `check --json`. Raises `BadFileError` if it cannot be compared with a run of `config`.

    `config` is None for a trace, which does not know all of its configuration.
    """
    from tcexplore.report.json_report import SCHEMA

    try:
        report = json.loads(read(path))
        baseline_figures(report)
    except NotWrittenError as error:
        raise BadFileError(str(error)) from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise BadFileError(f"{path} is not a report of `tcexplore check --json`.") from None
    if report.get("schema") != SCHEMA:
        raise BadFileError(f"{path} has schema {report.get('schema')}, not {SCHEMA}.", "Make a new baseline.")
    if report["error"] is not None:
        raise BadFileError(f"{path} is the report of a run that failed.", "Make a new baseline.")
    for key in _COMPARED_CONFIG if config else ():
        value = getattr(config, key)
        if report["config"][key] != (list(value) if isinstance(value, tuple) else value):
            raise BadFileError(f"{path} was made with another {key}: {report['config'][key]}.", "Make a new baseline.")
    return report  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True)
class SpeedFigures:
    """The timing of a report."""

    eager_us: float
    speedup: float
    low: float
    high: float
    noise_floor: float
    verdict: TimingVerdict
    machine: tuple[str, int]
    """Device and number of threads."""
    pairs: int
    best: float | None
    """Speedup of the fastest blocks, which other load disturbs least; None without samples."""
    best_noise: float
    """Deviation from 1 of the fastest blocks of eager with those of its control."""
    fastest: float | None = None
    """Speedup of the fastest calls; None if calls were not timed one by one."""
    fastest_noise: float = math.inf
    """The same deviation of the fastest calls."""

    @property
    def ends(self) -> tuple[float, float]:
        """Ends of the interval, on a log scale twice as wide if undecided: such noise varies from run to run."""
        if self.verdict != "undecided" or self.low <= 0:
            return self.low, self.high
        return self.low**2 / self.speedup, self.high**2 / self.speedup


@dataclass(frozen=True, slots=True)
class CompileFigures:
    """The compile time of a report."""

    seconds: float
    phases: dict[str, float]
    """Seconds of each phase without those inside it."""
    cpu_s: float | None
    """CPU time of the calls that compiled; None if unknown."""
    startup_cpu_s: float | None
    """CPU time of the imports before; None if unknown."""
    cached: tuple[bool, int]
    """Whether a cache of torch had a result, and the number of C++ files that were compiled, since kernels and torch's
    headers may be cached."""

    @property
    def own_seconds(self) -> float:
        """The time of the compile without other load: at most its CPU time."""
        return self.seconds if self.cpu_s is None else min(self.seconds, self.cpu_s)


@dataclass(frozen=True, slots=True)
class BaselineFigures:
    """The figures of a report that are compared."""

    breaks: Counter[Place]
    break_reports: Counter[Place]
    """The same as often as torch reported them: for several expressions of a line, or for nested frames."""
    recompiles: int
    graphs: int
    kernels: int
    library_calls: int
    speed: SpeedFigures | None
    compile: CompileFigures | None
    lines: Mapping[Place, tuple[int, ...]]
    """The lines of the breaks."""


def baseline_figures(report: Report) -> BaselineFigures:
    """Return the figures of a report. Raises the errors of Python if it has another form."""
    kernels = [kernel for kernel in report["kernels"] if kernel["target"] == report["config"]["target"]]
    extern = sum(kernel["language"] == "extern" for kernel in kernels)
    return BaselineFigures(
        breaks=Counter(map(_place, report["breaks"])),
        break_reports=Counter(
            _place(graph_break) for graph_break in report["breaks"] for _ in range(graph_break["count"])
        ),
        recompiles=len({r["graph"] for r in report["recompiles"] if not r["limit_hit"]}),
        graphs=len(report["graphs"]),
        kernels=len(kernels) - extern,
        library_calls=extern,
        speed=_speed_figures(report["timing"]),
        compile=_compile_figures(report),
        lines=_break_lines(report),
    )


def _break_lines(report: Report) -> dict[Place, tuple[int, ...]]:
    lines: dict[Place, tuple[int, ...]] = {}
    for graph_break in report["breaks"]:
        if graph_break["line"] is not None:
            place = _place(graph_break)
            lines[place] = (*lines.get(place, ()), graph_break["line"])
    return lines


def _place(graph_break: Report) -> Place:
    return graph_break["file"] or "", graph_break["kind"], graph_break["user_code"]


def _speed_figures(timing: Report | None) -> SpeedFigures | None:
    if timing is None:
        return None
    low, high = timing["ci95"]
    return SpeedFigures(
        timing["eager_us"], timing["speedup"], low, high, timing["noise_floor"], timing["verdict"],
        (timing["device"], timing["threads"]), timing["pairs"],
        *_best(timing.get("samples") or {}), *_fastest_calls(timing),
    )  # fmt: skip


def _fastest_calls(timing: Report) -> tuple[float | None, float]:
    """Return the speedup of the fastest calls, and its noise."""
    times = [timing.get(f"fastest_{side}_us") for side in ("eager", "compiled", "control")]
    eager, compiled, control = (float(us) if us else 0.0 for us in times)
    if not eager or not compiled:
        return None, math.inf
    return eager / compiled, max(eager, control) / min(eager, control) - 1 if control else math.inf


def _best(samples: Mapping[str, Sequence[float]]) -> tuple[float | None, float]:
    """Return the speedup of the fastest blocks, and its noise."""
    eager, compiled = samples.get("eager_us"), samples.get("compiled_us")
    if not eager or not compiled or min(compiled) <= 0:
        return None, math.inf
    controls = [min(times) for name in ("control_a_us", "control_b_us") if (times := samples.get(name))]
    fastest = [min(eager), *controls]
    return min(eager) / min(compiled), max(fastest) / min(fastest) - 1 if controls else math.inf


def _compile_figures(report: Report) -> CompileFigures | None:
    time = report["compile_time"]
    if not time["spans"]:
        return None
    phases: Counter[str] = Counter()
    pending = list(time["spans"])
    while pending:
        span = pending.pop()
        phases[span["name"]] += span["self_s"]
        pending += span["children"]
    hits = any(lookup["outcome"] == "hit" for lookup in report["cache_lookups"])
    cached = hits, len(time["file_compiles_s"])
    cpu_s = _cpu_s(report["calls"])
    return CompileFigures(time["seconds"], dict(phases), cpu_s, report.get("startup_cpu_s"), cached)


def _cpu_s(calls: Sequence[Report]) -> float | None:
    """Return the CPU time of the calls that compiled; None if a call has none, as in reports of older versions."""
    times = [call.get("cpu_s") for call in calls if call["variant"] == "compiled" and call["compiles"]]
    known = [float(seconds) for seconds in times if seconds is not None]
    return sum(known) if known and len(known) == len(times) else None


# ---- comparison


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
            new = "; ".join(_new_break(place, after, before) for place in breaks - known)
            yield f"{count(breaks.total(), noun)}, {known.total()} in the baseline; new: {new}"
            break
    names = {"recompiles": "recompile", "graphs": "graph", "kernels": "kernel", "library_calls": "library call"}
    for field in fields(BaselineFigures):
        if field.name in names and (number := getattr(after, field.name)) > getattr(before, field.name):
            yield f"{count(number, names[field.name])}, {getattr(before, field.name)} in the baseline"


def _new_break(place: Place, after: BaselineFigures, before: BaselineFigures) -> str:
    """Return the place of a new break, `model.py:12, print(x)`, without the lines that the baseline has."""
    file, kind, code = place
    lines = after.lines.get(place, ())
    unknown = [line for line in lines if line not in before.lines.get(place, ())] or lines
    at = f"{file}:{', '.join(map(str, unknown))}" if file and unknown else file
    return ", ".join(filter(None, (at, code or kind)))


# ---- speed


def _compare_speed(old: SpeedFigures | None, new: SpeedFigures | None) -> TimeComparison:
    if reason := _speed_obstacle(old, new):
        return TimeComparison("not compared", note=f"the speed is not compared: {reason}")
    if old is None or new is None:
        return TimeComparison("not compared")
    value = speedup_range(new.speedup, new.low, new.high)
    if _is_slower(old, new):
        best = f", in its fastest blocks {new.best:.2f}×, was {old.best:.2f}×" if old.best and new.best else ""
        if old.fastest and new.fastest:
            best = f", in its fastest calls {new.fastest:.2f}×, was {old.fastest:.2f}×"
        was = speedup_range(old.speedup, old.low, old.high)
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
