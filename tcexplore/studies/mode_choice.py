"""Which row of the modes study to use, and which rows more timing could decide."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from tcexplore.documents.configurations import describe_variant
from tcexplore.events.config import INDUCTOR
from tcexplore.session import Snapshot
from tcexplore.session.economics import RunFigures, is_faster
from tcexplore.studies.timed_cells import may_become_certain

SPEEDUP_TOLERANCE = 1.05
"""Ratio of two speedups below which the faster one is not worth a longer compile."""

COMPILE_TIME_TOLERANCE = 1.25
"""Ratio to the shortest compile time up to which compile times count as equal. Of equal runs the first is used."""


@dataclass(frozen=True, slots=True)
class ModeChoice:
    """The mode to use.

    Runs are compared by the lower end of their intervals, so that a noisy measurement does not win by chance. But the
    default mode is kept with a wider interval if it measured as fast: another mode needs evidence.
    """

    best: RunFigures
    """Of the runs that are certain to be as fast as the fastest, the first with a short compile. The default mode
    instead, if it measured as fast; the first run with the same code, if that may be as fast."""
    equal: tuple[RunFigures, ...]
    """Other runs that may be as fast as the fastest, within `SPEEDUP_TOLERANCE`."""
    dynamic: RunFigures | None
    """The fastest run with dynamic shapes, if `best` recompiles for each size; None if none is faster than eager."""
    unclear: RunFigures | None = None
    """The default mode, if it is undecided whether it is faster than eager, and may be as fast as `best`."""

    @property
    def compiles_fastest(self) -> bool:
        """Whether no equal run has a shorter compile."""
        return all(_compile_s(self.best) <= _compile_s(result) for result in self.equal)


def choose_mode(results: Sequence[RunFigures]) -> ModeChoice | None:
    """Choose among the runs that are faster than eager and have its result; return None if there are none."""
    results = [result for result in results if not result.run.config.guard_filter]  # unsafe
    good = sorted((result for result in results if is_faster(result)), key=lambda result: -_interval(result)[0])
    if not good:
        return None
    least = _interval(good[0])[0] / SPEEDUP_TOLERANCE
    certain = [result for result in results if is_faster(result) and _interval(result)[0] >= least]
    longest = COMPILE_TIME_TOLERANCE * min(map(_compile_s, certain))
    short = next(result for result in certain if _compile_s(result) <= longest)
    usual = next((result for result in results if is_faster(result) and _is_default(result)), short)
    if _speedup(usual) >= _interval(short)[0]:
        short = usual
    # What compiles first also compiles headers: a later mode with the same code is no better one, unless it is faster.
    may_be = (result for result in results if is_faster(result) and _interval(result)[1] >= _interval(short)[0])
    best = next((result for result in may_be if has_same_code(result, short)), short)
    dynamic = next((result for result in good if result.run.config.dynamic), None)
    default = next((result for result in results if _is_default(result)), best)
    undecided = default.run.timing is not None and default.run.timing.verdict == "undecided"
    return ModeChoice(
        unclear=default if undecided and _interval(default)[1] >= _interval(best)[0] else None,
        best=best,
        equal=tuple(result for result in good if result is not best and _interval(result)[1] >= least),
        dynamic=None if best.run.config.dynamic else dynamic,
    )


def may_be_best(known: dict[Hashable, Snapshot]) -> set[Hashable]:
    """Return the keys of the runs that more timing could make the one to use, or could rule out."""
    figures = {key: RunFigures(run) for key, run in known.items() if run.timing is not None and run.failure is None}
    least = max((_interval(run)[0] for run in figures.values() if is_faster(run)), default=1.0) / SPEEDUP_TOLERANCE
    return {key for key, run in figures.items() if _is_contender(run, max(1.0, least))}


def may_be_decided(known: dict[Hashable, Snapshot]) -> set[Hashable]:
    """Return the keys of the runs whose verdict more timing could decide."""
    return {key for key, run in known.items() if run.timing is not None and may_become_certain(run.timing)}


def _is_contender(figures: RunFigures, least: float) -> bool:
    timing = figures.run.timing
    return timing is not None and may_become_certain(timing) and not figures.summary.wrong and timing.high >= least


def wrong_runs(results: Sequence[RunFigures]) -> tuple[RunFigures, ...]:
    """Return the runs whose compiled result differs from eager's."""
    return tuple(result for result in results if result.summary.wrong)


def has_same_code(one: RunFigures, other: RunFigures) -> bool:
    """Return whether two runs have the same generated code, as `default` and `reduce-overhead` on a CPU."""
    code = _code(one)
    return bool(code) and code == _code(other)


def _code(result: RunFigures) -> tuple[tuple[str, str], ...]:
    return tuple((kernel.name, kernel.source) for kernel in result.run.code.kernels)


def _interval(result: RunFigures) -> tuple[float, float]:
    return (result.run.timing.low, result.run.timing.high) if result.run.timing else (0.0, 0.0)


def _is_default(result: RunFigures) -> bool:
    config = result.run.config
    return (config.backend, config.mode) == (INDUCTOR, "default") and not describe_variant(config)


def _speedup(result: RunFigures) -> float:
    return result.run.timing.speedup if result.run.timing else 0.0


def _compile_s(result: RunFigures) -> float:
    return float("inf") if result.compile_s is None else result.compile_s
