"""Comparison of a variant with the row that it varies: compile time, time of a call, and what becomes unsafe."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tcexplore.documents.configurations import REGIONS
from tcexplore.documents.guards.guard_filter_rows import UNSAFE, describe_guard_cost, describe_guard_filter
from tcexplore.events import GuardFilterTried
from tcexplore.events.config import Config
from tcexplore.quantities import count, duration
from tcexplore.session import Snapshot
from tcexplore.session.economics import DECIDED, Range, RunFigures, guard_cost, is_faster
from tcexplore.studies.timed_cells import may_become_certain

SPEEDUP_TOLERANCE = 1.05
"""Ratio of two speedups below which the faster one is not worth a longer compile."""

COMPILE_TIME_TOLERANCE = 1.25
"""Ratio to the shortest compile time up to which compile times count as equal. Of equal runs the first is used."""


@dataclass(frozen=True, slots=True)
class ModeChoice:
    """The mode to use.

    Runs are compared by the lower end of their intervals, so that a noisy measurement does not win by chance.
    """

    best: RunFigures
    """Of the runs that are certain to be as fast as the fastest, the first with a short compile."""
    equal: tuple[RunFigures, ...]
    """Other runs that may be as fast, within `SPEEDUP_TOLERANCE`."""
    dynamic: RunFigures | None
    """The fastest run with dynamic shapes, if `best` recompiles for each size; None if none is faster than eager."""

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
    best = next(result for result in certain if _compile_s(result) <= longest)
    dynamic = next((result for result in good if result.run.config.dynamic), None)
    return ModeChoice(
        best=best,
        equal=tuple(result for result in good if result is not best and _interval(result)[1] >= least),
        dynamic=dynamic if best.run.config.dynamic is False else None,
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


def _interval(result: RunFigures) -> tuple[float, float]:
    return (result.run.timing.low, result.run.timing.high) if result.run.timing else (0.0, 0.0)


def _compile_s(result: RunFigures) -> float:
    return float("inf") if result.compile_s is None else result.compile_s


@dataclass(frozen=True, slots=True)
class Comparison:
    """A variant against the row that it varies."""

    base: RunFigures
    variant: RunFigures

    @property
    def cold_ratio(self) -> float | None:
        """First call of the base over that of the variant, each in a new process; above 1, the variant is faster."""
        base, variant = self.base.cold_s, self.variant.cold_s
        return base / variant if base and variant else None

    @property
    def steady_ratio(self) -> Range | None:
        """Time of a call of the base over that of the variant, from both speedups over eager."""
        base, variant = self.base.run.timing, self.variant.run.timing
        if base is None or variant is None or min(base.low, variant.low) <= 0:
            return None
        return Range(variant.speedup / base.speedup, variant.low / base.high, variant.high / base.low)

    @property
    def decided(self) -> bool:
        """Return whether both rows have a verdict."""
        rows = (self.base.run.timing, self.variant.run.timing)
        return all(timing is not None and timing.verdict in DECIDED for timing in rows)


def compare_regions(results: Sequence[RunFigures]) -> list[Comparison]:
    """Return each row with regional compilation against its row of the whole model."""
    return _compare(results, lambda config: replace(config, regions="whole"))


def next_cold(results: Sequence[RunFigures]) -> RunFigures | None:
    """Return a row whose first call in a new process is compared, but not known yet."""
    compared = [row for comparison in compare_regions(results) for row in (comparison.base, comparison.variant)]
    return next((row for row in compared if row.cold is None), None)


def compare_guard_filters(results: Sequence[RunFigures]) -> list[Comparison]:
    """Return each row with a guard filter against its row without one."""
    return _compare(results, lambda config: replace(config, guard_filter=""))


def _compare(results: Sequence[RunFigures], base_of: Callable[[Config], Config]) -> list[Comparison]:
    """Return each row against that of its base; a base is its own base."""
    known = {result.run.config: result for result in results if not result.failure}
    pairs = ((known.get(base_of(config)), result) for config, result in known.items() if base_of(config) != config)
    return [Comparison(base, result) for base, result in pairs if base is not None]


# ---- sentences


def variant_sentences(results: Sequence[RunFigures]) -> Iterator[str]:
    """Yield a sentence for each comparison."""
    regions = compare_regions(results)
    if regions and (blocks := _blocks(regions[0].base.run)):
        yield f"Repeated blocks: {blocks}. Against the whole model:"
    yield from (f"  {_regions_sentence(comparison)}" for comparison in regions)
    filters = compare_guard_filters(results)
    if filters and (cost := guard_cost(filters[0].base.run)) is not None:
        yield describe_guard_cost(cost)
    yield from (describe_guard_filter(tried_filter(comparison)) for comparison in filters)


def _blocks(run: Snapshot) -> str:
    kinds = run.repeated_blocks.kinds if run.repeated_blocks else ()
    return ", ".join(f"{number} × {name}" for name, number in kinds)


def _regions_sentence(comparison: Comparison) -> str:
    variant = comparison.variant
    parts = [REGIONS[variant.run.config.regions]]
    if (cold := comparison.cold_ratio) is not None and variant.cold_s and comparison.base.cold_s:
        seconds = f"{duration(variant.cold_s)} instead of {duration(comparison.base.cold_s)}"
        parts.append(f"first call in a new process {seconds} ({cold:.2f}×)")
    steady = comparison.steady_ratio
    if steady is not None and not comparison.decided:
        parts.append("then undecided because of noise")
    elif steady is not None:
        parts.append(f"then {steady.value:.2f}× its speed [{steady.low:.2f}, {steady.high:.2f}]")
    parts.append(f"{variant.summary.kernels} instead of {count(comparison.base.summary.kernels, 'kernel')}")
    accuracy = variant.run.accuracy
    return ", ".join([*parts, *([accuracy.verdict] if accuracy else [])])


def tried_filter(comparison: Comparison) -> GuardFilterTried:
    """Return the result of a row with a guard filter."""
    steady = comparison.steady_ratio or Range(0.0, 0.0, 0.0)
    return GuardFilterTried(
        name=comparison.variant.run.config.guard_filter, speed=steady.value, low=steady.low, high=steady.high,
        decided=comparison.decided, wrong=comparison.variant.summary.wrong,
    )  # fmt: skip


# ---- JSON


def regional_fields(results: Sequence[RunFigures]) -> list[dict[str, Any]]:
    """Return the comparisons of regional compilation."""
    return [
        {
            "regions": comparison.variant.run.config.regions,
            "blocks": dict(blocks.kinds) if (blocks := comparison.variant.run.repeated_blocks) else {},
            "cold_s": comparison.variant.cold_s,
            "whole_cold_s": comparison.base.cold_s,
            "cold_ratio": comparison.cold_ratio,
            **_steady_fields(comparison),
        }
        for comparison in compare_regions(results)
    ]


def guard_filter_fields(results: Sequence[RunFigures]) -> list[dict[str, Any]]:
    """Return the comparisons of guard filters."""
    return [
        {
            "guard_filter": (name := comparison.variant.run.config.guard_filter),
            "guard_share": cost.share if (cost := guard_cost(comparison.base.run)) else None,
            "unsafe": UNSAFE.get(name),
            **_steady_fields(comparison),
        }
        for comparison in compare_guard_filters(results)
    ]


def _steady_fields(comparison: Comparison) -> dict[str, Any]:
    steady, variant = comparison.steady_ratio, comparison.variant
    return {
        "steady_us": variant.run.timing.compiled_us if variant.run.timing else None,
        "steady_ratio": steady.value if steady else None,
        "steady_low": steady.low if steady else None,
        "steady_high": steady.high if steady else None,
        "kernels": variant.summary.kernels,
        "accuracy": variant.run.accuracy.verdict if variant.run.accuracy else None,
    }
