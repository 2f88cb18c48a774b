"""Comparison of a run with a baseline: the JSON report of an earlier run, `--baseline FILE`."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from statistics import median
from typing import Any

from tcexplore.cli.file_argument import BadFileError
from tcexplore.events.job import Config
from tcexplore.events.timing_events import TimingVerdict
from tcexplore.files import NotWrittenError, read
from tcexplore.quantities import count, duration

SCHEMA = 2
"""Version of the reports that can be compared; `tcexplore.report.json_report` has the same."""

SLOWER = 0.1
"""Minimum drop of the speedup that counts as slower: two runs differ by some percent beyond their intervals."""

MANY_PAIRS, STEADY = 100, 0.25
"""Minimum number of pairs, and maximum noise floor, with which the fastest blocks decide."""

UNNOTICED = 1.5
"""A note tells that smaller slowdowns are not detected if that is more than this."""

COMPILE_MARGIN = 0.45
"""Minimum growth of the compile time that counts, and `COMPILE_SECONDS` of it."""
COMPILE_SECONDS = 0.2

CPU_MARGIN = 0.3
"""Minimum growth of the CPU time of the compile that counts, if both reports have it. Other load can triple the time of
a compile, but adds only a few percent to its CPU time."""

SPREADS = 3.0
"""Number of standard deviations of the phases by which the whole compile has to grow."""

_DEVIATION = 1.4826
"""Standard deviation over median absolute deviation of a normal distribution."""

_COMPARED_CONFIG = ("mode", "backend", "dynamic", "fullgraph", "train", "target", "inputs", "vary")

Report = Mapping[str, Any]

Place = tuple[str, str, str]
"""File, kind and source line of a break."""


def read_baseline(path: str, config: Config | None) -> Report:
    """Return a report of `check --json`. Raises `BadFileError` if it cannot be compared with a run of `config`.

    `config` is None for a trace, which does not know all of its configuration.
    """
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
    )


def _place(graph_break: Report) -> Place:
    return graph_break["file"] or "", graph_break["kind"], graph_break["user_code"]


def _speed_figures(timing: Report | None) -> SpeedFigures | None:
    if timing is None:
        return None
    low, high = timing["ci95"]
    return SpeedFigures(
        timing["eager_us"], timing["speedup"], low, high, timing["noise_floor"], timing["verdict"],
        (timing["device"], timing["threads"]), timing["pairs"],
        *_best(timing.get("samples") or {}),
    )  # fmt: skip


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


def compare(before: BaselineFigures, after: BaselineFigures) -> tuple[list[str], list[str]]:
    """Return what got worse by more than noise, and what could not be compared, each as sentences."""
    notes: list[str] = []
    worse = [*_counts(before, after), *_slower(before, after, notes.append), *_compiling(before, after, notes.append)]
    return worse, notes


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


def _slower(before: BaselineFigures, after: BaselineFigures, note: Callable[[str], None]) -> Iterator[str]:
    old, new = before.speed, after.speed
    if old is None or new is None:
        if old or new:
            note(f"the speed is not compared: {'this run' if old else 'the baseline'} is not timed")
    elif old.machine != new.machine:
        note(f"the speed is not compared: the baseline is of {old.machine[0]} with {count(old.machine[1], 'thread')}")
    elif "measuring" in (old.verdict, new.verdict):
        note("the speed is not compared: the timing ended without a verdict")
    elif _is_slower(old, new):
        best = f", in its fastest blocks {new.best:.2f}×, was {old.best:.2f}×" if old.best and new.best else ""
        yield (
            f"compiled is {new.speedup:.2f}× [{new.low:.2f}, {new.high:.2f}] as fast as eager, "
            f"{old.speedup:.2f}× [{old.low:.2f}, {old.high:.2f}] in the baseline{best}"
        )
    elif (least := _least_detected(old, new)) > UNNOTICED:
        factor = "no slowdown" if least == math.inf else f"only a slowdown of more than {least:.1f}×"
        noisy = "the baseline" if old.speedup / old.ends[0] > new.ends[1] / new.speedup else "this run"
        note(
            f"{factor} would be detected, since the timing of {noisy} is noisy: --threads 1 is steadier, for both runs"
        )


def _is_slower(old: SpeedFigures, new: SpeedFigures) -> bool:
    """Return whether the fastest blocks are slower, and unless they are steady, the median too.

    Other load changes the speedup of most blocks for as long as it lasts, whatever the interval is.
    """
    tolerance = _tolerance(old, new)
    if old.best and new.best and old.best / new.best <= tolerance:
        return False
    return _steady(old, new) or (new.ends[1] < old.ends[0] and old.speedup / new.speedup > tolerance)


def _steady(*runs: SpeedFigures) -> bool:
    """Return whether the fastest blocks of these runs tell enough."""
    return all(run.best and run.pairs >= MANY_PAIRS and run.noise_floor <= STEADY for run in runs)


def _tolerance(old: SpeedFigures, new: SpeedFigures) -> float:
    """Return the slowdown that two runs of the same program may show."""
    if _steady(old, new):
        return 1 + max(old.best_noise, new.best_noise, SLOWER)
    return 1 + max(old.noise_floor, new.noise_floor, SLOWER)


def _least_detected(old: SpeedFigures, new: SpeedFigures) -> float:
    """Return the slowdown that is certainly detected: intervals as wide as these would not overlap."""
    tolerance = _tolerance(old, new)
    if _steady(old, new):
        return tolerance
    if old.ends[0] <= 0 or new.speedup <= 0:
        return math.inf
    return max(tolerance, old.speedup / old.ends[0] * new.ends[1] / new.speedup)


def _compiling(before: BaselineFigures, after: BaselineFigures, note: Callable[[str], None]) -> Iterator[str]:
    old, new = before.compile, after.compile
    if old is None or new is None:
        if old or new:
            note(f"the compile time is not compared: {'this run' if old else 'the baseline'} has none")
        return
    if old.cached != new.cached:
        note("the compile time is not compared: one run took more from a cache than the other")
        return
    growth, margin = _compile_growth(old, new, _machine_factor(before.speed, after.speed))
    if growth > margin:
        name = max(new.phases, key=lambda phase: new.phases[phase] - old.phases.get(phase, 0.0))
        was = duration(old.phases[name]) if name in old.phases else "absent"
        yield (
            f"compiling took {_describe_compile(new)}, {_describe_compile(old)} in the baseline, more than the margin "
            f"of {margin:.0%}; {name} grew most: {duration(new.phases[name])}, was {was}"
        )


def _describe_compile(figures: CompileFigures) -> str:
    cpu = "" if figures.cpu_s is None else f" ({duration(figures.cpu_s)} of CPU time)"
    return f"{duration(figures.seconds)}{cpu}"


def _machine_factor(old: SpeedFigures | None, new: SpeedFigures | None) -> float:
    """Return how much slower this machine is now, by the time of eager; at least 1."""
    return max(1.0, new.eager_us / old.eager_us) if old and new and old.machine == new.machine and old.eager_us else 1.0


def _compile_growth(old: CompileFigures, new: CompileFigures, slowdown: float) -> tuple[float, float]:
    """Return the growth of the compile time, and the growth that noise explains; `slowdown` is that of the machine.

    CPU times are compared if known, corrected by that of the imports. A compile that got shorter did not grow, unless
    only the baseline waited for other processes.
    """
    if not old.seconds:
        return 0.0, 0.0
    if old.cpu_s and new.cpu_s:
        imports = new.startup_cpu_s / old.startup_cpu_s if old.startup_cpu_s and new.startup_cpu_s else 1.0
        before, after = old.cpu_s * max(1.0, imports), new.cpu_s
        margin = CPU_MARGIN if new.seconds > old.seconds else COMPILE_MARGIN
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
