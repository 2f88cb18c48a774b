"""Variants of a row of the modes study: regions, nested graph breaks, numerics, guard filters, dynamic shapes.

Each is compared with the row that it varies: compile time, time of a call, and what becomes unsafe.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from tcexplore.argument_types import name, one_of, several
from tcexplore.documents import configurations
from tcexplore.documents.guards.guards_view import UNSAFE, describe_guard_cost, describe_guard_filter
from tcexplore.events import ACCURACY_VERDICTS, Config, GuardFilterTried, Job, StepTried
from tcexplore.events.config import INDUCTOR, REGIONS, Regions
from tcexplore.quantities import count, duration, factor_range
from tcexplore.session import Snapshot
from tcexplore.session.economics import DECIDED, GUARD_FILTERS, RunFigures, guard_cost, needs_guard_filter
from tcexplore.session.time_ratio import Range
from tcexplore.studies.mode_choice import has_same_code
from tcexplore.studies.study import StudyState

NESTED_BREAKS = "torch._dynamo.config.nested_graph_breaks"
NUMERICS = "torch._inductor.config.numerics"
OBLIVIOUS = "torch.fx.experimental._config.backed_size_oblivious"
"""Settings of torch."""

Shapes = Literal["static", "automatic", "backed", "unbacked", "oblivious"]
"""Kinds of dynamic shapes. `backed`: `dynamic=True`. `unbacked`: the varied dimensions are marked with `mark_unbacked`.
`oblivious`: `backed`, without assumptions on sizes of 0 and 1 (`backed_size_oblivious`)."""

SHAPES: tuple[Shapes, ...] = get_args(Shapes)


Numerics = Literal["default", "strict_pointwise", "strict_reduction", "strict"]
"""How closely Inductor follows eager's arithmetic: in pointwise ops, in the order of reductions, or in both."""

ALL_NUMERICS: tuple[Numerics, ...] = get_args(Numerics)

INACCURATE = ACCURACY_VERDICTS[ACCURACY_VERDICTS.index("less accurate than eager") :]
"""Verdicts after which `strict` is tried."""


@dataclass(frozen=True, slots=True)
class ModesOptions:
    """Rows to compare. Empty: the modes of this torch that differ on this device, the default backends, shapes as in
    the file and dynamic."""

    modes: tuple[str, ...] = ()
    backends: tuple[str, ...] = ()
    dynamic: tuple[bool | None, ...] = ()
    regions: tuple[Regions, ...] | None = None
    """None: all of them in the default mode, if the model has repeated blocks."""
    nested_breaks: tuple[bool, ...] | None = None
    """Whether Dynamo breaks graphs inside nested calls. None: on and off in the default mode, if there are breaks."""
    numerics: tuple[Numerics, ...] | None = None
    """Inductor's numerics (torch 2.15). None: `strict` in the default mode, if its results are worse than eager's."""
    guard_filters: tuple[str, ...] | None = None
    """Guard filters of `torch.compiler`. None: in the default mode, if guards take a visible share of a call."""
    shapes: tuple[Shapes, ...] = ()
    """Kinds of dynamic shapes, instead of `dynamic`."""


def guard_filter_options(config: Config) -> ModesOptions:
    """Return the rows that compare all guard filters in one configuration."""
    return ModesOptions(
        modes=(config.mode,), backends=(config.backend,), dynamic=(config.dynamic,), regions=("whole",),
        nested_breaks=(False,), numerics=("default",), guard_filters=("none", *GUARD_FILTERS),
    )  # fmt: skip


def add_variant_options(group: Any) -> None:
    """Add the options of the variants."""
    group.add_argument(
        "--regions", type=several(one_of(REGIONS)), metavar="A,B",
        help=f"what is compiled: any of {', '.join(REGIONS)} (default: all, if the model has repeated blocks)",
    )  # fmt: skip
    group.add_argument(
        "--nested-graph-breaks", type=several(_true_or_false), metavar="A,B", dest="nested_breaks",
        help="Dynamo's nested_graph_breaks: any of true, false (default: both, if the model has graph breaks)",
    )  # fmt: skip
    group.add_argument(
        "--numerics", type=several(one_of(ALL_NUMERICS)), metavar="A,B",
        help=f"Inductor's numerics (torch 2.15): any of {', '.join(ALL_NUMERICS)} "
        "(default: strict is tried if the results are less accurate than eager's)",
    )  # fmt: skip
    group.add_argument(
        "--guard-filters", type=several(name), metavar="A,B",
        help="guard filters: none, skip_guard_eval_unsafe, or a function of torch.compiler such as "
        "skip_guard_on_all_nn_modules_unsafe (default: tried if guards take a visible share of a call)",
    )  # fmt: skip
    group.add_argument(
        "--shapes", type=several(one_of(SHAPES)), default=(), metavar="A,B",
        help=f"instead of --dynamic, kinds of dynamic shapes: any of {', '.join(SHAPES)}",
    )  # fmt: skip
    group.add_argument(
        "--vary", action="append", default=[], metavar="SPEC",
        help="make each call with several sizes, 'x.0=8,16,32'; repeat to combine",
    )  # fmt: skip


def _true_or_false(text: str) -> bool:
    return one_of(("true", "false"))(text) == "true"


# ---- requested variants


def with_regions(config: Config, options: ModesOptions) -> Iterator[Config]:
    yield from (replace(config, regions=regions) for regions in options.regions or ("whole",))


def with_nested_breaks(config: Config, options: ModesOptions) -> Iterator[Config]:
    for nested in options.nested_breaks or (False,):
        yield replace(config, settings=(*config.settings, f"{NESTED_BREAKS}=True")) if nested else config


def with_numerics(config: Config, options: ModesOptions) -> Iterator[Config]:
    for numerics in options.numerics or ("default",):
        plain = numerics == "default" or config.backend != INDUCTOR
        yield config if plain else replace(config, settings=(*config.settings, f"{NUMERICS}={numerics}"))


def with_guard_filters(config: Config, options: ModesOptions) -> Iterator[Config]:
    for guard_filter in options.guard_filters or ("none",):
        yield replace(config, guard_filter="" if guard_filter == "none" else guard_filter)


def with_shapes(config: Config, options: ModesOptions) -> Iterator[Config]:
    if not options.shapes:
        yield config
    dims = tuple(dict.fromkeys(text.partition("=")[0] for text in config.vary if "." in text.partition("=")[0]))
    for shapes in options.shapes:
        if shapes == "unbacked":
            yield replace(config, dynamic=None, mark_unbacked=dims)
        elif shapes == "oblivious":
            yield replace(config, dynamic=True, settings=(*config.settings, f"{OBLIVIOUS}=True"))
        else:
            yield replace(config, dynamic={"static": False, "automatic": None, "backed": True}[shapes])


def shapes_of(config: Config) -> Shapes:
    """Return the kind of dynamic shapes of a row."""
    if config.mark_unbacked:
        return "unbacked"
    if f"{OBLIVIOUS}=True" in config.settings:
        return "oblivious"
    return "automatic" if config.dynamic is None else "backed" if config.dynamic else "static"


def shape_fields(results: Sequence[RunFigures], options: ModesOptions) -> list[dict[str, Any]]:
    """Return the figures of each kind of dynamic shapes as JSON; nothing if none was requested."""
    return [
        {
            "shapes": shapes_of(result.run.config),
            "error": result.failure or None,
            "graphs": (summary := result.summary).graphs,
            "recompiles": summary.recompiles,
            "kernels": summary.kernels,
            "compile_s": result.compile_s,
            "compiled_us": result.run.timing.compiled_us if result.run.timing else None,
            "speedup": result.run.timing.speedup if result.run.timing else None,
            "accuracy": result.run.accuracy.verdict if result.run.accuracy else None,
        }
        for result in (results if options.shapes else ())
    ]


# ---- variants that may help the model


def add_variants(state: StudyState[ModesOptions, RunFigures]) -> None:
    """Plan the variants that may help according to the runs so far, after the row that they vary."""
    base = next((job for job in state.planned if _is_base(job.config)), None)
    if base is None or state.options.shapes:
        return
    known = {job.config for job in state.planned}
    new = [config for config in _useful_variants(base.config, state) if config not in known]
    index = state.planned.index(base) + 1
    while index < len(state.planned) and is_variant_of(state.planned[index].config, base.config):
        index += 1
    state.planned[index:index] = [replace(base, config=config) for config in new]


def _useful_variants(base: Config, state: StudyState[ModesOptions, RunFigures]) -> Iterator[Config]:
    options, features = state.options, state.machine.features if state.machine else ()
    runs = [result.run for result in state.results]
    if options.regions is None and any(run.repeated_blocks for run in runs):
        yield replace(base, regions="blocks")
        if "nested_compile_region" in features:
            yield replace(base, regions="nested")
    if options.nested_breaks is None and "nested_graph_breaks" in features and any(run.breaks for run in runs):
        yield replace(base, settings=(*base.settings, f"{NESTED_BREAKS}=True"))
    own = next((run for run in runs if run.config == base), None)
    inaccurate = own is not None and own.accuracy is not None and own.accuracy.verdict in INACCURATE
    if options.numerics is None and "numerics" in features and inaccurate:
        yield replace(base, settings=(*base.settings, f"{NUMERICS}=strict"))
    if options.guard_filters is None and "guard_filter_fn" in features and own is not None and needs_guard_filter(own):
        yield from (replace(base, guard_filter=guard_filter) for guard_filter in GUARD_FILTERS)


def _is_base(config: Config) -> bool:
    plain = config.regions == "whole" and not (config.guard_filter or config.settings or config.mark_unbacked)
    return plain and (config.backend, config.mode) == (INDUCTOR, "default")


def is_variant_of(config: Config, base: Config) -> bool:
    """Return whether a configuration differs from `base` in its variant only."""
    variant = {"regions": base.regions, "guard_filter": base.guard_filter, "settings": base.settings}
    return config != base and replace(config, **variant) == base  # type: ignore[arg-type]


def compiles_alone(config: Config, planned: Iterable[Job]) -> bool:
    """Return whether nothing else may compile at the same time, because compile times of regions are compared."""
    regional = {replace(job.config, regions="whole") for job in planned if job.config.regions != "whole"}
    return replace(config, regions="whole") in regional


# ---- comparison with the row that a variant varies


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
    def runs_same_code(self) -> bool:
        """Return whether both rows run the same kernels in the same way: on a device, modes may use CUDA graphs."""
        timing = self.variant.run.timing
        return timing is not None and timing.device == "cpu" and has_same_code(self.variant, self.base)

    @property
    def timed(self) -> bool:
        """Return whether both rows have enough pairs."""
        return all(verdict not in ("", "measuring") for verdict in self._verdicts)

    @property
    def decided(self) -> bool:
        """Return whether both rows have a verdict."""
        return all(verdict in DECIDED for verdict in self._verdicts)

    def within_noise(self, steady: Range) -> Range:
        """Return a ratio whose interval has the noise of both rows in it."""
        timings = (row.run.timing for row in (self.base, self.variant))
        noise = 1 + max((timing.noise_floor for timing in timings if timing is not None), default=0.0)
        return Range(steady.value, steady.low / noise, steady.high * noise)

    @property
    def _verdicts(self) -> list[str]:
        """The verdicts of both rows; empty for one that was not timed."""
        timings = (row.run.timing for row in (self.base, self.variant))
        return [timing.verdict if timing is not None else "" for timing in timings]


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


# ---- sentences on comparisons


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
    parts = [configurations.REGIONS[variant.run.config.regions]]
    if (cold := comparison.cold_ratio) is not None and variant.cold_s and comparison.base.cold_s:
        seconds = f"{duration(variant.cold_s)} instead of {duration(comparison.base.cold_s)}"
        parts.append(f"first call in a new process {seconds} ({cold:.2f}×)")
    steady = comparison.steady_ratio
    if steady is not None and not comparison.decided:
        parts.append("then undecided because of noise")
    elif steady is not None:
        parts.append(f"then {steady.value:.2f}× its speed {factor_range(steady.low, steady.high)}")
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


def tried_modes(results: Sequence[RunFigures], own: Config) -> tuple[StepTried, ...]:
    """Return each mode of Inductor that failed, or was timed against the model file's own mode, as a next step."""
    if own.backend != INDUCTOR:
        return ()
    rows = [result for result in results if _differs_in_mode(result.run.config, own)]
    tried: dict[str, StepTried] = {}
    for result in rows:
        step = f"mode {result.run.config.mode}"
        if problem := result.failure or ("its result differs from eager's" if result.summary.wrong else ""):
            tried[step] = StepTried(step=step, problem=problem)
    for comparison in _compare(results, lambda config: replace(config, mode=own.mode)):
        steady = comparison.steady_ratio
        step = f"mode {comparison.variant.run.config.mode}"
        if comparison.variant not in rows or step in tried:
            continue
        if comparison.runs_same_code:
            tried[step] = StepTried(step=step, same_code=True)
            continue
        if steady is None or not comparison.timed:
            continue
        tried[step] = step_tried(step, comparison, steady if comparison.decided else comparison.within_noise(steady))
    return tuple(tried.values())


def _differs_in_mode(config: Config, own: Config) -> bool:
    """Return whether a row differs from the model file's own configuration in the mode of Inductor only."""
    fixed = config.backend == INDUCTOR and bool(config.dynamic) == bool(own.dynamic) and _is_plain(config)
    return fixed and config.mode != own.mode


def step_tried(step: str, comparison: Comparison, steady: Range) -> StepTried:
    """Return the result of a step from the speedups of two processes, both timed."""
    before, after = comparison.base.run.timing, comparison.variant.run.timing
    assert before is not None
    assert after is not None
    return StepTried(
        step=step, speedup=steady.value, low=steady.low, high=steady.high, verdict=steady.verdict,
        before_us=before.compiled_us, after_us=after.compiled_us, speedups=(before.speedup, after.speedup),
    )  # fmt: skip


def _is_plain(config: Config) -> bool:
    return not configurations.describe_variant(config)


# ---- JSON of comparisons


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
