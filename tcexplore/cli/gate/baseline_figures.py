"""A baseline, the JSON report of an earlier run (`--baseline FILE`), and the figures of a report that are compared."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tcexplore.cli.file_argument import BadFileError
from tcexplore.events.config import Config
from tcexplore.events.timing_events import TimingVerdict
from tcexplore.files import NotWrittenError, read

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
        *_best(timing.get("samples") or {}), *_fastest(timing),
    )  # fmt: skip


def _fastest(timing: Report) -> tuple[float | None, float]:
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
