"""Comparison of a variant with the row that it varies: compile time, time of a call, and what becomes unsafe."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tcexplore.documents.configurations import REGIONS
from tcexplore.events.job import SKIP_GUARD_EVAL, Config
from tcexplore.quantities import count, duration
from tcexplore.session import Snapshot
from tcexplore.session.economics import DECIDED, Range
from tcexplore.session.run_summary import RunFigures

VISIBLE_GUARD_SHARE = 0.05
"""Share of a compiled call that guards must take to be worth a filter."""

GUARD_FILTERS = ("skip_guard_on_inbuilt_nn_modules_unsafe", "skip_guard_on_all_nn_modules_unsafe", SKIP_GUARD_EVAL)
"""Filters to try, the safest first."""

UNSAFE = {
    "skip_guard_on_inbuilt_nn_modules_unsafe": "a change in torch's own layers after the compile, such as train() or "
    "another dropout, goes unnoticed",
    "skip_guard_on_all_nn_modules_unsafe": "a change of any attribute of a module after the compile goes unnoticed",
    "skip_guard_on_globals_unsafe": "a change of a global variable after the compile goes unnoticed",
    "keep_tensor_guards_unsafe": "any change except of the input tensors' shape, stride, dtype or device goes "
    "unnoticed: values, modules, globals, grad mode",
    "skip_all_guards_unsafe": "any change goes unnoticed, also of shape or dtype: the call may read wrong memory",
    SKIP_GUARD_EVAL: "after the warm-up, an input that needs another graph runs a wrong one",
}
"""Risk of each filter, as text."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """A variant against the row that it varies."""

    base: RunFigures
    variant: RunFigures

    @property
    def cold_ratio(self) -> float | None:
        """First call of the base over that of the variant: above 1, the variant compiles faster."""
        base, variant = self.base.first_call_s, self.variant.first_call_s
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


def compare_guard_filters(results: Sequence[RunFigures]) -> list[Comparison]:
    """Return each row with a guard filter against its row without one."""
    return _compare(results, lambda config: replace(config, guard_filter=""))


def _compare(results: Sequence[RunFigures], base_of: Callable[[Config], Config]) -> list[Comparison]:
    """Return each row against that of its base; a base is its own base."""
    known = {result.run.config: result for result in results if not result.failure}
    pairs = ((known.get(base_of(config)), result) for config, result in known.items() if base_of(config) != config)
    return [Comparison(base, result) for base, result in pairs if base is not None]


def guard_share(run: Snapshot) -> float | None:
    """Return the share of a compiled call that one check of its guards takes; None if unknown."""
    slowest: dict[str, float] = {}
    for installed in run.guards:
        frame = installed.graph.partition("/")[0]
        slowest[frame] = max(slowest.get(frame, 0.0), installed.latency_us or 0.0)
    decided = run.timing is not None and run.timing.verdict in DECIDED
    if run.timing is None or not decided or not run.timing.compiled_us or not any(slowest.values()):
        return None
    return sum(slowest.values()) / run.timing.compiled_us


def needs_guard_filter(run: Snapshot) -> bool:
    """Return whether the guards of a run take a visible share of a call."""
    return (guard_share(run) or 0.0) >= VISIBLE_GUARD_SHARE


# ---- sentences


def variant_sentences(results: Sequence[RunFigures]) -> Iterator[str]:
    """Yield a sentence for each comparison."""
    regions = compare_regions(results)
    if regions and (blocks := _blocks(regions[0].base.run)):
        yield f"Repeated blocks: {blocks}. Against the whole model:"
    yield from (f"  {_regions_sentence(comparison)}" for comparison in regions)
    yield from (_guard_sentence(comparison) for comparison in compare_guard_filters(results))


def _blocks(run: Snapshot) -> str:
    kinds = run.repeated_blocks.kinds if run.repeated_blocks else ()
    return ", ".join(f"{number} × {name}" for name, number in kinds)


def _regions_sentence(comparison: Comparison) -> str:
    variant = comparison.variant
    parts = [REGIONS[variant.run.config.regions]]
    if (cold := comparison.cold_ratio) is not None and variant.first_call_s and comparison.base.first_call_s:
        seconds = f"{duration(variant.first_call_s)} instead of {duration(comparison.base.first_call_s)}"
        parts.append(f"first call {seconds} ({cold:.2f}×)")
    steady = comparison.steady_ratio
    if steady is not None and not comparison.decided:
        parts.append("then undecided because of noise")
    elif steady is not None:
        parts.append(f"then {steady.value:.2f}× its speed [{steady.low:.2f}, {steady.high:.2f}]")
    parts.append(f"{variant.summary.kernels} instead of {count(comparison.base.summary.kernels, 'kernel')}")
    accuracy = variant.run.accuracy
    return ", ".join([*parts, *([accuracy.verdict] if accuracy else [])])


def _guard_sentence(comparison: Comparison) -> str:
    name, steady = comparison.variant.run.config.guard_filter, comparison.steady_ratio
    share = guard_share(comparison.base.run)
    cost = "" if share is None else f"Guards take {share:.0%} of a call. "
    unsafe = UNSAFE.get(name, "what the dropped guards check goes unnoticed")
    if comparison.variant.summary.wrong:
        return f"{cost}{name}: the result is wrong."
    if steady is None:
        return f"{cost}{name}: not timed. Unsafe: {unsafe}."
    if not comparison.decided:
        return f"{cost}{name}: undecided because of noise. Unsafe: {unsafe}."
    interval = f"{steady.value:.2f}× the speed [{steady.low:.2f}, {steady.high:.2f}]"
    gain = interval if steady.low > 1 else f"no certain gain ({interval})"
    return f"{cost}{name}: {gain}. Unsafe: {unsafe}."


# ---- JSON


def regional_fields(results: Sequence[RunFigures]) -> list[dict[str, Any]]:
    """Return the comparisons of regional compilation."""
    return [
        {
            "regions": comparison.variant.run.config.regions,
            "blocks": dict(blocks.kinds) if (blocks := comparison.variant.run.repeated_blocks) else {},
            "cold_s": comparison.variant.first_call_s,
            "whole_cold_s": comparison.base.first_call_s,
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
            "guard_share": guard_share(comparison.base.run),
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
