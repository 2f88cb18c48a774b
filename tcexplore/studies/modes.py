"""The modes study: each mode, backend and kind of shapes in a separate run."""

from __future__ import annotations

import argparse
import math
import os
import re
import tempfile
from collections.abc import AsyncGenerator, Callable, Hashable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from tcexplore.argument_types import dynamic, name, several
from tcexplore.documents.configurations import DYNAMIC, describe_configuration, describe_variant, format_compile_call
from tcexplore.documents.document import Document, Row, Span, StaticDocument
from tcexplore.documents.prose import BLANK, FAILED, Column, row, table, wrapped
from tcexplore.documents.timing.accuracy_rows import ACCURACY_STYLES, format_error
from tcexplore.documents.verdicts import LEGEND, format_outcome, interval_text, speedup_span, suggest_less_noise
from tcexplore.events import TIMEOUT, Config, Event, Job, Standby
from tcexplore.events.config import INDUCTOR
from tcexplore.keymap import hint
from tcexplore.model_python import ModelPython
from tcexplore.quantities import count, duration, factor, factor_range, first_of, rounded, size
from tcexplore.report.json_report import configuration
from tcexplore.session import Snapshot
from tcexplore.session.economics import UNDECIDED, RunFigures, economics, may_be_faster, script_steps
from tcexplore.session.links import Link
from tcexplore.studies.environments import ENVIRONMENTS, EnvironmentsOptions
from tcexplore.studies.mode_choice import (
    SPEEDUP_TOLERANCE,
    ModeChoice,
    choose_mode,
    has_same_code,
    may_be_best,
    may_be_decided,
    wrong_runs,
)
from tcexplore.studies.mode_variants import (
    ModesOptions,
    add_variant_options,
    add_variants,
    compare_guard_filters,
    compiles_alone,
    guard_filter_fields,
    next_cold,
    regional_fields,
    shape_fields,
    tried_filter,
    tried_modes,
    variant_sentences,
    with_guard_filters,
    with_nested_breaks,
    with_numerics,
    with_regions,
    with_shapes,
)
from tcexplore.studies.runs import Runs, has_ended
from tcexplore.studies.study import Announce, Study, StudyState
from tcexplore.studies.study_json import run_fields
from tcexplore.studies.study_text import ERROR_MARK, NAMED, load_warning, uneven_eager, varied_times
from tcexplore.studies.timed_cells import Cell, Matters, TimedCells, plan_cells, settled

State = StudyState[ModesOptions, RunFigures]


class Order(NamedTuple):
    """A sort order of the finished runs."""

    name: str
    key: Callable[[RunFigures], float | None]
    """Lower values come first; runs without a value come last."""


ORDERS = (
    Order("run", lambda _: None),
    Order("speedup", lambda result: -result.run.timing.speedup if result.run.timing else None),
    Order("time of a compiled call", lambda result: result.run.timing.compiled_us if result.run.timing else None),
    Order("compile time", lambda result: result.compile_s),
    Order("peak memory", lambda result: result.peak_bytes),
    Order("difference from eager", lambda result: result.max_abs),
)


class _ModeRow(NamedTuple):
    config: Config
    active: bool
    """Whether it is under way."""
    result: RunFigures | None
    """None before it has one."""
    link: Link


def _figure(value: Callable[[RunFigures], Any]) -> Callable[[_ModeRow], Any]:
    """Return a function of a row that applies `value` to its result."""
    return lambda row: value(row.result) if row.result is not None else None


def _unless_planned(style: str) -> Callable[[_ModeRow], str]:
    return lambda row: style if row.result is not None else "muted"


COLUMNS: tuple[Column[_ModeRow], ...] = (
    Column("backend", lambda row: row.config.backend, style=_unless_planned("strong"), left=True, always=True),
    Column("mode", lambda row: row.config.mode, style=_unless_planned(""), left=True, always=True),
    Column("dynamic", lambda row: DYNAMIC[row.config.dynamic], style=_unless_planned(""), left=True, always=True),
    Column("speedup", lambda row: _speedup(row.result, row.active) if row.result else None),
    Column("95% interval", _figure(lambda result: result.run.timing), interval_text, "interval"),
    Column("variant", lambda row: describe_variant(row.config), style=_unless_planned(""),
           left=True, always=True),
    Column("compiled", _figure(lambda result: result.run.timing), lambda it: duration(it.compiled_us / 1e6)),
    Column("compile", _figure(lambda result: result.compile_s), duration),
    Column("eager", _figure(lambda result: result.run.timing), lambda it: duration(it.eager_us / 1e6)),
    Column("first call", _figure(lambda result: result.first_call_s), duration),
    Column("peak", _figure(lambda result: result.peak_bytes), size),
    Column("max diff", _figure(lambda result: result.max_abs), format_error, lambda row: _accuracy_style(row.result)),
    Column("breaks", _figure(lambda result: result.summary.breaks),
           style=lambda row: "break" if row.result and row.result.summary.breaks else ""),
    Column("recompiles", _figure(lambda result: result.summary.recompiles or None)),
    Column("graphs", _figure(lambda result: result.summary.graphs)),
    Column("kernels", _figure(lambda result: f"{result.summary.kernels}+{result.summary.extern}".removesuffix("+0"))),
)  # fmt: skip


def modes_document(state: State, order: Order, width: int) -> StaticDocument:
    """Return the document."""
    active = frozenset() if state.over else state.active
    known = {result.run.config for result in state.results}
    finished = sorted(enumerate(state.results), key=lambda item: _rank(order, item[1]))
    rows = [
        _ModeRow(result.run.config, result.run.config in active, result, Link("run", "", str(index)))
        for index, result in finished
    ]
    rows += [
        _ModeRow(job.config, job.config in active, None, Link("waiting", "", ""))
        for job in state.planned
        if job.config not in known
    ]
    return StaticDocument("", (
        *table(COLUMNS, rows, [(row.link,) for row in rows], _instead),
        *_conclusions(state, len(rows) > len(finished), width),
        *_failures(state.results, width),
        *_left_out(state, width),
        *_other_backends(state, width),
        *_legend(state.results, order, width),
    ))  # fmt: skip


def _instead(row: _ModeRow) -> Span | None:
    """Return what stands instead of the figures of a run that failed, or is not over."""
    if row.result is None:
        return Span("◐ running", "running") if row.active else Span("·", "dim")
    return FAILED if row.result.failure else None


def _rank(order: Order, result: RunFigures) -> float:
    key = order.key(result)
    return math.inf if key is None and order is not ORDERS[0] else key or 0.0


def _accuracy_style(result: RunFigures | None) -> str:
    accuracy = result.run.accuracy if result else None
    return ACCURACY_STYLES.get(accuracy.verdict, "warn") if accuracy else ""


def _speedup(result: RunFigures, timing_now: bool) -> tuple[Span, ...]:
    timing = result.run.timing
    if timing is not None:
        return (Span("◐ " if timing_now else "", "running"), speedup_span(timing))
    if timing_now:
        return (Span("◐ timing", "running"),)
    return (Span("not timed" if has_ended(result.run) else "·", "muted"),)


def _conclusions(state: State, more: bool, width: int) -> Iterator[Row]:
    for index, line in enumerate(conclusions(state.results, more=more)):
        if not index:
            yield BLANK
        yield from wrapped(line, width, "error" if line.startswith(ERROR_MARK) else "strong" if not index else "")
    if text := _own_verdict(state):
        yield from wrapped(text, width, "muted")


def _own_verdict(state: State) -> str:
    """Return what the timing of the file says of a configuration that no run here decides; empty without that."""
    own = state.own.timing if state.own is not None else None
    if own is None or own.verdict not in ("faster", "slower") or choose_mode(state.results) is not None:
        return ""
    rows = (result.run for result in state.results if state.own and result.run.config.mode == state.own.config.mode)
    if not any(run.timing is not None and run.timing.verdict in UNDECIDED for run in rows):
        return ""
    interval = factor_range(own.low, own.high, slower=own.verdict == "slower")
    pairs = count(own.pairs, "pair")
    return f"The timing of the file decides, with {pairs}: {factor(own.speedup)} {own.verdict} {interval}."


def _failures(results: Sequence[RunFigures], width: int) -> Iterator[Row]:
    for result in results:
        if result.failure:
            yield from wrapped(
                f"{describe_configuration(result.run.config)}: {result.failure}", width, "error", lead=ERROR_MARK
            )


def _left_out(state: State, width: int) -> Iterator[Row]:
    """Yield which modes are not run, and why."""
    if state.machine is not None and (modes := modes_left_out(state.machine, state.options)):
        yield BLANK
        text = f"Not run: {', '.join(modes)}. On a CPU, which has no CUDA graphs, they are default and max-autotune."
        yield from wrapped(text, width, "muted")


def _other_backends(state: State, width: int) -> Iterator[Row]:
    planned = {job.config.backend for job in state.planned}
    others = [name for name in (state.machine.backends if state.machine else ()) if name not in planned]
    if others:
        yield BLANK
        text = f"{count(len(others), 'other backend')} of this torch: {hint('open')} adds one"
        yield from wrapped(text, width, "muted", keys_only=True)
        for name in others:
            yield row(("   + ", "key"), name, links=(Link("backend", "", name),), keys_only=True)


def _legend(results: Sequence[RunFigures], order: Order, width: int) -> Iterator[Row]:
    yield BLANK
    legend = [LEGEND, "kernels: generated+extern", _eager_peak(results)]
    yield from wrapped(" · ".join(filter(None, legend)), width, "muted")
    text = f"sorted by {order.name} · {hint('open')} on a row: use it for your file"
    yield from wrapped(text, width, "muted", keys_only=True)


def _eager_peak(results: Sequence[RunFigures]) -> str:
    peaks = [result.run.memory.eager_peak for result in results if result.run.memory]
    known = [peak for peak in peaks if peak is not None]
    return f"peak: eager's is {size(max(known))}" if known else ""


# ---- conclusions


def conclusions(results: Sequence[RunFigures], *, more: bool = False) -> Iterator[str]:
    """Yield sentences, the recommendation first; `more` is whether runs are still planned."""
    good = [result for result in results if not result.failure]
    choice = choose_mode(good)
    if advice := _advice(good, choice, more=more):
        yield advice
    if choice is not None:
        yield from _alternatives(choice)
    yield from variant_sentences(good)
    yield from _tuned_algorithms(good)
    if wrong := wrong_runs(good):
        yield f"{ERROR_MARK}result differs from eager's: {_names(wrong)}"
    if warning := uneven_eager(good):
        yield warning
    timings = {describe_configuration(result.run.config): timing for result in good if (timing := result.run.timing)}
    yield from filter(None, (load_warning(timings), varied_times(timings)))


def recommendation(results: Sequence[RunFigures], *, more: bool) -> str:
    """Return which mode to use, as a sentence; as long as this is open and runs are planned, the fastest so far."""
    good = [result for result in results if not result.failure]
    return _advice(good, choose_mode(good), more=more)


def _advice(good: Sequence[RunFigures], choice: ModeChoice | None, *, more: bool) -> str:
    if choice is not None:
        return _use(choice, more=more)
    return "" if not good else _best_so_far(good) if more else _stay_eager(good)


def _best_so_far(good: Sequence[RunFigures]) -> str:
    """Return the fastest run while others are planned and none is certainly faster than eager; empty without a time."""
    timed = [(timing.speedup, result) for result in good if (timing := result.run.timing) is not None]
    if not timed:
        return ""
    _, best = max(timed, key=lambda pair: pair[0])
    fastest = f"{describe_configuration(best.run.config)}, {format_outcome(best)}"
    return f"So far no run is certainly faster than eager; the fastest is {fastest}."


def _use(choice: ModeChoice, *, more: bool) -> str:
    timing, costs = choice.best.run.timing, economics(choice.best.run)
    assert timing is not None
    so_far = "So far: use" if more else "Use"
    figures = f"{timing.speedup:.2f}× eager's speed {factor_range(timing.low, timing.high)}"
    pays = ""
    if costs.break_even_calls is not None:
        needed = f"{rounded(costs.break_even_calls)} {timing.unit}s"
        steps = script_steps(choice.best.run)
        few = f", and the script has {steps:,}" if steps is not None and steps < costs.break_even_calls else ""
        pays = f"; break-even after about {needed} without cached kernels{few}"
    return f"{so_far} {format_compile_call(choice.best.run.config)}: {figures}{pays}."


def _alternatives(choice: ModeChoice) -> Iterator[str]:
    if same := [result for result in choice.equal if has_same_code(result, choice.best)]:
        yield f"Same kernels: {_names(same)}."
    if others := [result for result in choice.equal if not has_same_code(result, choice.best)]:
        seconds = choice.best.compile_s
        fastest = seconds is not None and choice.compiles_fastest
        yield f"May be within {100 * (SPEEDUP_TOLERANCE - 1):.0f}% of it, or faster: {_names(others)}."
        if fastest and seconds is not None:
            yield f"The recommended one compiles fastest of these: {duration(seconds)}."
    if choice.unclear is not None:
        yield f"The default mode may be as fast: {format_outcome(choice.unclear)}."
    if choice.dynamic is not None and choice.dynamic.run.timing is not None:
        speedup = f"{choice.dynamic.run.timing.speedup:.2f}×"
        config = describe_configuration(choice.dynamic.run.config)
        when = "at the first new size" if choice.best.run.config.dynamic is None else "for each new size"
        yield f"It recompiles {when}; with dynamic shapes: {config}, {speedup}."


def _tuned_algorithms(good: Sequence[RunFigures]) -> Iterator[str]:
    """Yield how often `max-autotune` took the call of the library: then it has the kernels of the default mode."""
    groups: dict[tuple[int, int], list[RunFigures]] = {}
    for result in good:
        if result.run.config.backend == INDUCTOR and result.run.config.mode.startswith("max-autotune"):
            tuned = [each for each in result.run.autotuned if each.method == "algorithms"]
            chosen = [choice for each in tuned for choice in each.choices if choice.chosen]
            library = sum(choice.kind == "extern" for choice in chosen)
            groups.setdefault((library, len(chosen)), []).append(result)
    usual = [result for result in good if not result.run.config.mode.startswith("max-autotune")]
    for (library, ops), results in groups.items():
        if ops:
            measured = f"{library} of {count(ops, 'op')} that were measured"
            yield f"{_names(results)}: a library call was the fastest for {measured}."
        elif same := [result for result in results if any(has_same_code(result, other) for other in usual)]:
            why = "torch had no template to measure against the library, so the kernels are the usual ones"
            yield f"{_names(same)}: {why}."


def _stay_eager(good: Sequence[RunFigures]) -> str:
    timed = [result.run.timing for result in good if result.run.timing]
    unknown = [result for result in good if may_be_faster(result)]
    if not timed:
        return "No recommendation: nothing was timed."
    if not unknown:
        return "Stay with eager: no run is faster beyond the noise."
    rest = len(timed) - len(unknown)
    others = f"; {'none of the others is' if rest > 1 else 'the other is not'} faster" if rest else ""
    best = max(unknown, key=lambda result: result.run.timing.speedup if result.run.timing else 0.0)
    guess = f"{describe_configuration(best.run.config)}, {format_outcome(best)}"
    return (
        f"No certain recommendation: {len(unknown)} of {count(len(timed), 'run')} may be faster, most likely {guess}"
        f"{others}. "
        f"{suggest_less_noise(timed[0])}"
    )


def _names(results: Sequence[RunFigures]) -> str:
    """Return the names of the first runs, and how many more there are."""
    return first_of([describe_configuration(result.run.config) for result in results], NAMED, "; ", "; ")


CPU_BACKENDS = ("eager", "aot_eager", "inductor")
GPU_BACKENDS = (*CPU_BACKENDS, "cudagraphs")
"""Default backends, as far as this torch has them."""

CUDA_GRAPH_MODES = ("reduce-overhead", "max-autotune-no-cudagraphs")
"""Modes that differ from `default` and `max-autotune` only in CUDA graphs."""

FIRST_CALL = "first call"
"""Steps of which each is a run in a new process."""

VARIED = ("backend", "mode", "dynamic")
"""`Config.override` of each run."""

UNKNOWN_MACHINE = Standby(torch="", python="", device="cpu", seconds=0.0, modes=("default",), backends=(INDUCTOR,))
"""Stands in for a worker that did not become ready: one run is tried, and fails with the reason."""


class ModesStudy(Study[ModesOptions, RunFigures]):
    """Results are finished runs. `StudyState.planned` may grow while the study runs."""

    name = "modes"
    title = "modes"
    examples = (
        "model.py", "model.py --modes default,max-autotune --json", "model.py --python .venv --python .venv-nightly",
    )  # fmt: skip
    description = (
        "Compare all modes and backends, each run in a separate process; with several --python, compare these "
        "environments. Ctrl-C keeps the results so far."
    )
    compile_options = frozenset()
    timed = True
    studies_scripts = True
    compares_environments = True
    default_options = ModesOptions()

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        group = parser.add_argument_group("what to compare")
        names = several(name)
        group.add_argument(
            "--modes", type=names, default=(), metavar="A,B", help="default: those of this torch that differ here"
        )
        group.add_argument(
            "--backends", type=names, default=(), metavar="A,B",
            help="default: eager, aot_eager, inductor, and cudagraphs on a GPU",
        )  # fmt: skip
        group.add_argument(
            "--dynamic", type=several(dynamic), default=(), metavar="A,B", dest="dynamics",
            help=f"any of {', '.join(DYNAMIC.values())} (default: as in your file, and true for the default mode)",
        )  # fmt: skip
        add_variant_options(group)

    def options(self, given: argparse.Namespace) -> ModesOptions:
        if "unbacked" in given.shapes and not given.vary:
            raise ValueError("--shapes unbacked needs the dimensions that vary: --vary 'x.0=8,16,32'")
        return ModesOptions(
            given.modes, given.backends, given.dynamics, given.regions, given.nested_breaks, given.numerics,
            given.guard_filters, given.shapes,
        )  # fmt: skip

    async def plan(self, state: State, runs: Runs, announce: Announce) -> AsyncGenerator[RunFigures, None]:
        """Compile what is planned and has no result yet, then time each; those that may be the fastest longer.

        Each run has an empty kernel cache: none benefits from a compile before it. The first run shows which
        variants may help the model.
        """
        if not state.planned:
            state.machine = await runs.machine(state.timeout)
            state.planned = list(planned_jobs(state.job, state.machine or UNKNOWN_MACHINE, state.options))
        async with runs.temporary_folder("modes") as folder:
            # More may be planned while these run.
            while True:
                if cells := _timed_cells(state, folder):
                    plan_cells(runs.steps, cells, state)
                    batch, in_turn, matters = self._next_batch(state, cells)
                    known: dict[Hashable, Snapshot] = {result.run.config: result.run for result in state.results}
                    # Alone, so that a short budget has an answer: eager against Inductor's default.
                    goes_on = None if state.results else _file_works
                    timed = TimedCells(
                        batch, state, runs, announce, matters, in_turn=in_turn, goes_on=goes_on, known=known
                    )
                    async for update in timed.results():
                        yield RunFigures(update.run)
                    if len(state.results) == 1 and not _file_works(state.results[0].run):
                        state.planned = [job for job in state.planned if job.config == state.results[0].run.config]
                        return
                    add_variants(state)
                elif row := next_cold(state.results):
                    yield await _first_call(row, state, runs, announce, folder)
                else:
                    break

    def _next_batch(self, state: State, cells: list[Cell]) -> tuple[list[Cell], bool, Matters]:
        """Return cells to run next, whether they compile one at a time, and which of them to time for longer."""
        first = set() if state.results else {cells[0].key}
        together = [cell for cell in cells if cell.key in first or not compiles_alone(cell.job.config, state.planned)]
        return (together, False, may_be_best) if together else (cells, True, may_be_decided)

    def result_key(self, result: RunFigures) -> Config:
        return result.run.config

    def add_result(self, state: State, result: RunFigures) -> None:
        """Add a run in the order of the plan, or replace what was known of it."""
        super().add_result(state, result)
        order = [job.config for job in state.planned]
        state.results.sort(key=lambda known: order.index(known.run.config))

    def settled(self, result: RunFigures, *, stopped: bool) -> RunFigures:
        return replace(result, run=settled(result.run, stopped=stopped))

    def document(self, state: State, width: int = 78) -> Document:
        return modes_document(state, ORDERS[0], width)

    def facts(self, state: State) -> tuple[Event, ...]:
        filters = map(tried_filter, compare_guard_filters(state.results))
        return (*filters, *tried_modes(state.results, state.job.config))

    def answer(self, state: State) -> str:
        more = not state.over or len(state.results) < len(state.planned)
        return recommendation(state.results, more=more)

    def fields(self, state: State) -> dict[str, Any]:
        """Return the rows; `use` is the configuration to use, null if none is faster than eager."""
        choice = choose_mode(state.results)
        return {
            "use": configuration(choice.best.run) if choice else None,
            "conclusions": list(conclusions(state.results)),
            "regional": regional_fields(state.results),
            "shapes": shape_fields(state.results, state.options),
            "guard_filters": guard_filter_fields(state.results),
            "runs": [run_fields(result) for result in state.results],
        }

    def result_line(self, result: RunFigures) -> str:
        if not has_ended(result.run):
            return ""
        name = describe_configuration(result.run.config)
        if result.cold is not None:
            return f"{name}: first call in a new process {duration(result.cold_s)}" if result.cold_s else ""
        return f"{name}: {format_outcome(result)}"

    def across_environments(
        self, options: ModesOptions, job: Job, pythons: Sequence[ModelPython]
    ) -> tuple[Study[Any, Any], Any]:
        """Return the study of one configuration, or of those that the options name, in each environment."""
        if options == ModesOptions():
            return ENVIRONMENTS, EnvironmentsOptions(tuple(pythons))
        named = replace(
            options, modes=options.modes or ("default",), backends=options.backends or (INDUCTOR,),
            dynamic=options.dynamic or (None,),
        )  # fmt: skip
        configs = tuple(planned.config for planned in planned_jobs(job, UNKNOWN_MACHINE, named))
        return ENVIRONMENTS, EnvironmentsOptions(tuple(pythons), configs)


def _file_works(run: Snapshot) -> bool:
    """Return false if a run failed in the user's code: no mode would change that."""
    return run.failure is None or run.failure.blame != "user" or run.failure.type == TIMEOUT


def _timed_cells(state: State, folder: str) -> list[Cell]:
    """Return what is planned and has no result, the most promising first."""
    done = {result.run.config for result in state.results}
    device = state.machine.device if state.machine else ""
    return [
        Cell(config, describe_configuration(config), replace(job, cache_dir=_kernels(folder, config), profile=False))
        for job in sorted(state.planned, key=lambda job: _promise(job.config, device))
        if (config := job.config) not in done
    ]


def _promise(config: Config, device: str) -> tuple[bool, bool, bool, int]:
    """Return a key that sorts configurations: Inductor's default, its modes that search for more, then variants.

    A CPU has no CUDA graphs, so the modes that differ in these only come last.
    """
    modes = ("default", "max-autotune", *(("lite", *CUDA_GRAPH_MODES) if device == "cpu" else CUDA_GRAPH_MODES))
    known = modes.index(config.mode) if config.mode in modes else len(modes)
    return config.backend != INDUCTOR, bool(describe_variant(config)), bool(config.dynamic) and known > 0, known


async def _first_call(row: RunFigures, state: State, runs: Runs, announce: Announce, folder: str) -> RunFigures:
    """Return a row with its first call in a new process, with empty caches of torch inside `folder`."""
    name = f"first call in a new process, {describe_configuration(row.run.config)}"
    runs.steps.plan([name], FIRST_CALL)
    runs.steps.begin(FIRST_CALL)
    announce(name)
    caches = tempfile.mkdtemp(prefix="first-call-", dir=folder)
    job = replace(
        state.job, config=row.run.config, cold=True, caches=caches, time_for=0.0, examine=False, profile=False
    )
    outcome = await runs.run(job, state.timeout)
    runs.steps.finish(name, FIRST_CALL)
    return replace(row, cold=outcome.snapshot)


def _kernels(folder: str, config: Config) -> str:
    variant = describe_variant(replace(config, guard_filter=""))  # a filter changes no kernel
    name = f"{config.backend}-{config.mode}-{config.dynamic}-{variant}"
    return os.path.join(folder, re.sub(r"[^\w.-]+", "_", name))


def planned_jobs(job: Job, machine: Standby, options: ModesOptions) -> tuple[Job, ...]:
    """Return a job for each backend, mode and variant, and for each kind of shapes that the options name.

    Without names, one mode of Inductor has both kinds of shapes: the default one, or the first.
    """
    usual = CPU_BACKENDS if machine.device == "cpu" else GPU_BACKENDS
    known = tuple(backend for backend in usual if backend in machine.backends)
    backends = options.backends or ((INDUCTOR,) if options.shapes else known) or (INDUCTOR,)
    own = tuple(mode for mode in machine.modes if mode not in modes_left_out(machine, options))
    modes = options.modes or (("default",) if options.shapes else own) or ("default",)
    pairs = [pair for backend in backends for pair in _with_modes(backend, modes)]
    as_written = job.config.dynamic
    # Each mode with the file's own shapes, and one with the other kind: all pairs take twice the time, for little.
    of_inductor = [pair for pair in pairs if pair[0] == INDUCTOR]
    with_both = (INDUCTOR, "default") if (INDUCTOR, "default") in pairs else next(iter(of_inductor), None)
    both = (as_written, None if as_written else True)
    configs = [
        replace(job.config, backend=backend, mode=mode, dynamic=dynamic_shapes, override=VARIED)
        for backend, mode in pairs
        for dynamic_shapes in (
            (None,) if options.shapes else options.dynamic or (both if (backend, mode) == with_both else both[:1])
        )
    ]
    for vary in (with_shapes, with_regions, with_nested_breaks, with_numerics, with_guard_filters):
        configs = list(dict.fromkeys(varied for config in configs for varied in vary(config, options)))
    return tuple(replace(job, config=config) for config in configs)


def modes_left_out(machine: Standby, options: ModesOptions) -> tuple[str, ...]:
    """Return the modes that are not run unless they are named: on a CPU, those with the code of another mode."""
    if machine.device != "cpu" or options.modes or options.shapes or INDUCTOR not in (options.backends or (INDUCTOR,)):
        return ()
    return tuple(mode for mode in CUDA_GRAPH_MODES if mode in machine.modes)


def _with_modes(backend: str, modes: Sequence[str]) -> Iterator[tuple[str, str]]:
    yield from ((backend, mode) for mode in (modes if backend == INDUCTOR else ("default",)))


STUDY = ModesStudy()
