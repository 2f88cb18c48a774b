"""Variants of a row of the modes study: regions, nested graph breaks, numerics, guard filters, dynamic shapes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from tcexplore.argument_types import name, one_of, several
from tcexplore.events import ACCURACY_VERDICTS, Config, Job
from tcexplore.events.config import REGIONS, Regions
from tcexplore.session.economics import GUARD_FILTERS, RunFigures, needs_guard_filter
from tcexplore.studies.study import StudyState

BACKEND_WITH_MODES = "inductor"
"""The only backend for which the modes of torch.compile make a difference."""

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
    """Rows to compare. Empty: all modes that this torch has, the default backends, static and dynamic shapes."""

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
        plain = numerics == "default" or config.backend != BACKEND_WITH_MODES
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


def may_have_variants(state: StudyState[ModesOptions, RunFigures]) -> bool:
    """Return whether a run may show that further variants could help."""
    options, features = state.options, state.machine.features if state.machine else ()
    open_kinds = None in (options.regions, options.nested_breaks, options.numerics, options.guard_filters)
    return bool(features) and open_kinds and not options.shapes and any(_is_base(job.config) for job in state.planned)


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
    return plain and (config.backend, config.mode) == (BACKEND_WITH_MODES, "default")


def is_variant_of(config: Config, base: Config) -> bool:
    """Return whether a configuration differs from `base` in its variant only."""
    variant = {"regions": base.regions, "guard_filter": base.guard_filter, "settings": base.settings}
    return config != base and replace(config, **variant) == base  # type: ignore[arg-type]


def compiles_alone(config: Config, planned: Iterable[Job]) -> bool:
    """Return whether nothing else may compile at the same time, because compile times of regions are compared."""
    regional = {replace(job.config, regions="whole") for job in planned if job.config.regions != "whole"}
    return replace(config, regions="whole") in regional
