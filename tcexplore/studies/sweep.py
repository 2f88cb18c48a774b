"""The sweep study: one dimension of the inputs at several sizes."""

from __future__ import annotations

import argparse
import re
from collections.abc import AsyncGenerator, Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, islice
from typing import Any, Final, Literal, NamedTuple

from tcexplore.argument_types import at_least_one, count, several
from tcexplore.documents.document import Document, Row, Span, StaticDocument
from tcexplore.documents.prose import BLANK, Column, heading, row, table, wrapped
from tcexplore.documents.timing.accuracy_rows import describe_accuracy
from tcexplore.documents.verdicts import (
    LEGEND,
    VERDICT_STYLES,
    format_outcome,
    format_speedup,
    interval_text,
    speedup_span,
)
from tcexplore.events import Job, SizesSeen, TimingEstimate
from tcexplore.quantities import duration, rounded
from tcexplore.session import Snapshot
from tcexplore.session.economics import DECIDED, UNDECIDED, RunFigures, economics, is_faster, may_be_faster
from tcexplore.session.time_ratio import EVEN_RATIO
from tcexplore.studies.runs import Runs, has_ended
from tcexplore.studies.study import Announce, Prompt, PromptField, Study, StudyState
from tcexplore.studies.study_json import Fields, run_fields
from tcexplore.studies.study_text import ERROR_MARK, load_warning, uneven_eager, varied_times
from tcexplore.studies.timed_cells import (
    BUDGET_SPENT,
    STOPPED,
    Cell,
    TimedCells,
    may_become_certain,
    plan_cells,
    settled,
)

Form = Literal["static", "dynamic", "auto"]
STATIC: Final = "static"
DYNAMIC: Final = "dynamic"
AUTO: Final = "auto"

ALL_SIZES: dict[Form, bool | None] = {AUTO: None, DYNAMIC: True}
"""The runs that call all sizes one after another, with the `dynamic` argument of torch.compile."""


@dataclass(frozen=True, slots=True)
class SweepStep:
    """One run of a sweep."""

    form: Form
    size: int
    """The size that is compiled by itself; 0 for a run over all sizes."""
    figures: RunFigures

    @property
    def run(self) -> Snapshot:
        return self.figures.run


@dataclass(frozen=True, slots=True)
class Sweep:
    """All finished runs of dimension `dim` at `sizes`."""

    dim: int
    sizes: tuple[int, ...]
    steps: tuple[SweepStep, ...]

    def at(self, form: Form, size: int) -> RunFigures | None:
        """Return the run of a size; None before it is finished."""
        return next((step.figures for step in self.steps if (step.form, step.size) == (form, size)), None)

    def all_sizes(self, form: Form) -> RunFigures | None:
        """Return the run that calls all sizes one after another."""
        return self.at(form, 0)

    def compiled_at(self, form: Form) -> tuple[int, ...]:
        """Return the sizes that compiled in the run over all sizes, in its order; the first one always does."""
        return tuple(dict.fromkeys(size for size, compiles in self._calls(form) if compiles))

    def not_called(self, form: Form) -> tuple[int, ...]:
        """Return the sizes that the run over all sizes did not call, since they fail or it ended before them."""
        called = {size for size, _ in self._calls(form)}
        return tuple(size for size in self.sizes if size not in called)

    @property
    def failing_sizes(self) -> tuple[int, ...]:
        """Return the sizes whose call fails without a compiler."""
        return self.sizes_where(STATIC, fails_in_eager)

    def _calls(self, form: Form) -> Iterator[tuple[int, int]]:
        """Yield the size and the number of compiles of each compiled call in the run over all sizes."""
        figures = self.all_sizes(form)
        if figures is None:
            return
        # The model file may make several calls; each is made at every size.
        sizes = figures.run.config.sizes
        for call in figures.run.calls:
            if call.variant == "compiled":
                yield sizes[call.index % len(sizes)], call.compiles

    def limit_hit(self, form: Form) -> bool:
        """Return whether the run over all sizes hit the recompile limit, and ran eagerly afterwards."""
        figures = self.all_sizes(form)
        return figures is not None and any(recompile.limit_hit for recompile in figures.run.recompiles)

    def helps_from(self, form: Form, faster: Callable[[RunFigures], bool] = is_faster) -> int | None:
        """Return the smallest size such that compiling is `faster` and correct from there up; None without one.

        Sizes that also fail without a compiler do not count; while a larger one is not measured, it is not known.
        """
        smallest = None
        for size in sorted(self.sizes, reverse=True):
            figures = self.at(form, size)
            if figures is not None and fails_in_eager(figures):
                continue
            if figures is None or not is_measured(figures) or not faster(figures):
                break
            smallest = size
        return smallest

    def sizes_where(self, form: Form, holds: Callable[[RunFigures], bool]) -> tuple[int, ...]:
        """Return the sizes for whose run `holds` is true."""
        return tuple(size for size in self.sizes if (figures := self.at(form, size)) is not None and holds(figures))

    def measured(self, form: Form) -> tuple[int, ...]:
        """Return the sizes that are measured in this form."""
        return self.sizes_where(form, is_measured)


def is_measured(figures: RunFigures) -> bool:
    """Return whether a run has failed, has a verdict, or cannot be timed; the others are not timed, or not yet."""
    run = figures.run
    timed = run.timing is not None and run.timing.verdict != "measuring"
    return timed or run.failure is not None or run.timing_skipped not in ("", STOPPED, BUDGET_SPENT)


def fails_in_eager(figures: RunFigures) -> bool:
    """Return whether the calls of a run fail without a compiler."""
    return figures.run.failure is not None and figures.run.failure.stage == "eager"


WIDTH_WITH_INTERVALS = 100
"""Minimum width of a table with the intervals."""

BAR_WIDTH = 40
"""Columns of the longest bar."""

UNDECIDED_SPEEDUP = 2.0
"""Largest speedup for which the chart makes room if it is undecided."""


class _SizeRow(NamedTuple):
    sweep: Sweep
    size: int
    active: frozenset[tuple[Form, int]]
    """The form and size of the runs under way."""

    def run(self, form: Form) -> RunFigures | None:
        return self.sweep.at(form, self.size)

    def timing(self, form: Form) -> TimingEstimate | None:
        figures = self.run(form)
        return figures.run.timing if figures else None


def _form_columns(form: Form, *, intervals: bool) -> Iterator[Column[_SizeRow]]:
    """Yield the times of both sides as they were measured in turn: eager's own differ from run to run."""
    yield Column("eager", lambda row: row.timing(form), lambda timing: duration(timing.eager_us / 1e6))
    yield Column(form, lambda row: _time(row.run(form), running=(form, row.size) in row.active))
    yield Column("speedup", lambda row: speedup_span(timing) if (timing := row.timing(form)) else None)
    if intervals:
        yield Column("95% interval", lambda row: row.timing(form), interval_text, "interval")


def _columns(width: int) -> tuple[Column[_SizeRow], ...]:
    intervals = width >= WIDTH_WITH_INTERVALS
    return (
        Column("size", lambda row: row.size, style="strong"),
        *_form_columns(STATIC, intervals=intervals),
        *_form_columns(DYNAMIC, intervals=intervals),
        Column(
            "compiles in a run over all sizes" if intervals else "compiles",
            _forms_compiled_at,
            style="recompile",
            left=True,
        ),
    )


def _forms_compiled_at(row: _SizeRow) -> str:
    return ", ".join(form for form in ALL_SIZES if row.size in row.sweep.compiled_at(form))


def _time(figures: RunFigures | None, *, running: bool) -> Span:
    """Return the time of a compiled call, or why there is none."""
    if figures is None:
        return Span("◐", "running") if running else Span("·", "dim")
    if figures.run.timing is not None:
        return Span(duration(figures.run.timing.compiled_us / 1e6))
    if not has_ended(figures.run):
        return Span("◐ timing", "running") if running else Span("compiled", "muted")
    return Span("✖ failed", "error") if figures.failure else Span("not timed", "muted")


def step_name(form: Form, size: int) -> str:
    """Return `static, size 64` or `auto, all sizes`."""
    return f"{form}, {f'size {size}' if size else 'all sizes'}"


def _conclusions(sweep: Sweep, width: int) -> Iterator[Row]:
    for index, line in enumerate(conclusions(sweep)):
        if not index:
            yield BLANK
        yield from wrapped(line, width, "error" if line.startswith(ERROR_MARK) else "strong")


def conclusions(sweep: Sweep) -> Iterator[str]:
    """Yield sentences: the sizes at which compiling helps, those that recompiled, failures."""
    yield from helps(sweep)
    for form in (STATIC, DYNAMIC):
        yield from _break_evens(sweep, form)
    for form in ALL_SIZES:
        if sweep.all_sizes(form) is not None:
            yield f"all sizes, dynamic={'auto' if form == 'auto' else 'True'}: {_recompiles(sweep, form)}"
    for step in sweep.steps:
        name = step_name(step.form, step.size)
        if step.figures.failure:
            yield f"{ERROR_MARK}{name}: {step.figures.failure}"
        elif step.figures.run.accuracy is not None and step.figures.summary.wrong:
            yield f"{ERROR_MARK}{name}: {describe_accuracy(step.figures.run.accuracy)}"
    for size in sweep.sizes:
        if warning := uneven_eager(filter(None, (sweep.at(STATIC, size), sweep.at(DYNAMIC, size))), f" at size {size}"):
            yield warning
            break
    timings = {
        step_name(step.form, step.size): timing
        for step in sweep.steps
        if (timing := step.figures.run.timing) is not None
    }
    yield from filter(None, (load_warning(timings), varied_times(timings)))
    yield from islice(_faster_when_larger(sweep), 1)


def _break_evens(sweep: Sweep, form: Form) -> Iterator[str]:
    """Yield after how many calls the compile of each size has paid off, where compiling helps."""
    parts = []
    for size in sweep.sizes_where(form, is_faster):
        figures = sweep.at(form, size)
        costs = economics(figures.run) if figures is not None else None
        if costs is not None and costs.break_even_calls is not None and costs.cost_s is not None:
            needed = rounded(costs.break_even_calls)
            parts.append(f"at size {size} after about {needed} calls ({duration(costs.cost_s)} to compile)")
    if parts:
        yield f"{form}: break-even {', '.join(parts)}, as compiled here, with what is cached"


def _faster_when_larger(sweep: Sweep) -> Iterator[str]:
    """Yield a warning for sizes whose eager calls took longer than those of a larger size."""
    runs = [(size, sweep.at(STATIC, size) or sweep.at(DYNAMIC, size)) for size in sweep.sizes]
    eager = [(size, run.run.timing.eager_us / 1e6) for size, run in runs if run is not None and run.run.timing]
    for (size, seconds), (larger, others) in combinations(eager, 2):
        if seconds > EVEN_RATIO * others and size < larger:
            yield (
                f"Eager took {duration(seconds)} at size {size} and {duration(others)} at size {larger}: the load of "
                "the machine changed between runs. Compare speedups, which are interleaved, rather than times."
            )


def helps(sweep: Sweep) -> Iterator[str]:
    """Yield for which sizes compiling helps, with static and with dynamic shapes, as far as they are timed."""
    for form in (STATIC, DYNAMIC):
        if sweep.sizes_where(form, lambda figures: figures.run.timing is not None and is_measured(figures)):
            yield f"{form}: {_helps(sweep, form)}"


def _helps(
    sweep: Sweep,
    form: Form,
    faster: Callable[[RunFigures], bool] = is_faster,
    may_be: Callable[[RunFigures], bool] = may_be_faster,
) -> str:
    """Return for which sizes compiling helps, and at how many this is known."""
    size, some, unknown = (
        sweep.helps_from(form, faster),
        sweep.sizes_where(form, faster),
        sweep.sizes_where(form, may_be),
    )
    undecided = f"{'size' if len(unknown) == 1 else 'sizes'} {_listed(unknown)} undecided" if unknown else ""
    done, of = len(sweep.measured(form)), len(sweep.sizes)
    failed = len(sweep.sizes_where(form, lambda figures: figures.run.failure is not None))
    lost = f", {failed} failed" if failed else ""
    measured = f"{done - failed} of {of} sizes measured{lost}" if done < of or failed else ""
    so_far = " so far" if done < of else ""
    if size is not None:
        working = sweep.sizes_where(form, lambda figures: is_measured(figures) and not fails_in_eager(figures))
        below = max((one for one in working if one < size), default=None)
        where = f"from size {size} up" if of > 1 else f"at size {size}"
        not_at = "" if below is None or undecided else f", not at {below}{_untried(sweep, below, size)}"
        clauses = [f"compiling helps {where}{not_at}", undecided]
    elif some:
        known = {*some, *unknown, *sweep.sizes_where(form, fails_in_eager)}
        worse = tuple(size for size in sweep.measured(form) if size > min(some) and size not in known)
        but = f", but not at {_listed(worse)}" if worse else ""
        smaller = [size for size in sweep.sizes if size <= max(some)]
        where = f"up to size {max(some)}" if len(some) > 1 and set(smaller) == set(some) else f"at size {_listed(some)}"
        clauses = [f"compiling helps {where}{but}{so_far}", undecided]
    elif unknown:
        timed = sweep.sizes_where(form, lambda figures: figures.run.timing is not None)
        clauses = [undecided, f"compiling helps at no other size{so_far}" if len(timed) > len(unknown) else ""]
    else:
        clauses = [f"compiling helps at no size{so_far}"]
    return "; ".join(filter(None, (*clauses, measured)))


def _untried(sweep: Sweep, below: int, above: int) -> str:
    """Return that the sizes between two of them are not measured; empty if there are none, or some are in the study."""
    if above - below < 2 or any(below < size < above for size in sweep.sizes):
        return ""
    between = str(above - 1) if above - below == 2 else f"{below + 1} to {above - 1}"
    return f" ({between} not measured)"


def _listed(sizes: tuple[int, ...]) -> str:
    return ", ".join(map(str, sizes))


def _recompiles(sweep: Sweep, form: Form) -> str:
    recompiled, missing = sweep.compiled_at(form)[1:], sweep.not_called(form)
    if len(missing) == len(sweep.sizes):
        return "no size was called"
    limit = "; hit the recompile limit, the rest ran eagerly" if sweep.limit_hit(form) else ""
    if form == "dynamic" and sweep.compiled_at(form)[:1] == (1,) and recompiled:
        limit = f", since torch compiles size 1 on its own{limit}"
    left_out = f"; not called: {_listed(missing)}" if missing else ""
    figures = sweep.all_sizes(form)
    until = " until it failed" if figures is not None and figures.failure else ""
    return (f"recompiled at size {_listed(recompiled)}" if recompiled else f"no recompiles{until}") + limit + left_out


# ---- the chart


def _chart(sweep: Sweep, width: int) -> Iterator[Row]:
    timings: dict[tuple[int, Form], TimingEstimate] = {
        (size, form): figures.run.timing
        for size in sweep.sizes
        for form in (STATIC, DYNAMIC)
        if (figures := sweep.at(form, size)) and figures.run.timing
    }
    if not timings:
        return
    scale = longest(timings.values())
    name_width = max(len(str(size)) for size in sweep.sizes)
    room = max(10, min(BAR_WIDTH, width - name_width - 24))
    yield BLANK
    yield heading("Speedup over eager", "the line is 1×")
    yield from wrapped(LEGEND, width, "muted")
    for (size, form), timing in timings.items():
        name = str(size) if form == STATIC or (size, STATIC) not in timings else ""
        style = VERDICT_STYLES.get(timing.verdict, "muted")
        drawn, figure = (bar(timing, scale, room), style), (f"  {format_speedup(timing)}", style)
        yield row((f" {name:>{name_width}}", "strong"), (f"  {form:<7}  ", "muted"), drawn, figure)


def longest(timings: Iterable[TimingEstimate]) -> float:
    """Return the speedup of the longest bar; undecided ones are cut at `UNDECIDED_SPEEDUP`."""
    speedups = (timing.speedup if _decided(timing) else min(timing.high, UNDECIDED_SPEEDUP) for timing in timings)
    return max([1.0, *speedups])


def bar(timing: TimingEstimate, scale: float, width: int = BAR_WIDTH) -> str:
    """Return a speedup as a bar with a line at 1×, `width` columns for `scale`; undecided ones shade their interval."""
    decided = _decided(timing)
    first, last = (0.0, timing.speedup) if decided else (timing.low, timing.high)
    begin, end, one = (round(width * at / scale) for at in (first, last, 1.0))
    cells = [("█" if decided else "░") if begin <= column < end else " " for column in range(width)]
    return "".join([*cells[:one], "│", *cells[one:]])


def _decided(timing: TimingEstimate) -> bool:
    return timing.verdict in DECIDED


NOTE = (
    "Inputs whose size in this dimension equals the first one's are resized too. All sizes are also called one after "
    "another, in this order, to find those that recompile."
)

SUGGESTED_RATIOS = (1 / 16, 1 / 4, 1, 4)
"""Suggested sizes, relative to the size in the file."""

MOST_SUGGESTED = 6
"""Suggested sizes of a script: the most frequent ones."""

FREQUENT = 0.1
"""Calls of a size over those of the most frequent one from which it is suggested: a smaller last batch says little."""

_FIRST_SIZE = re.compile(r"\[(\d+)")


@dataclass(frozen=True, slots=True)
class SweepOptions:
    """Dimension of the inputs, and its sizes in the order of the calls."""

    dim: int = 0
    sizes: tuple[int, ...] = ()


class PlannedStep(NamedTuple):
    """One run of the sweep, as in `SweepStep`."""

    form: Form
    size: int
    job: Job


State = StudyState[SweepOptions, SweepStep]


class SweepStudy(Study[SweepOptions, SweepStep]):
    """Results are finished runs: first all sizes in one run, then each size compiled by itself."""

    name = "sweep"
    title = "sweep"
    examples = ("model.py --dim 0 --sizes 1,8,64",)
    description = "Time one dimension of the inputs at several sizes: eager, compiled for each size, and for all."
    compile_options = frozenset({"mode", "backend"})
    timed = True

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        group = parser.add_argument_group("what to run")
        group.add_argument("--dim", type=count, default=0, metavar="N", help="the dimension (default: 0)")
        group.add_argument(
            "--sizes", type=several(at_least_one), required=True, metavar="1,2,4",
            help="the sizes, in the order of the calls",
        )  # fmt: skip

    def options(self, given: argparse.Namespace) -> SweepOptions:
        return SweepOptions(given.dim, given.sizes)

    def prompt(self, job: Job, own: Snapshot | None, last: State | None) -> Prompt:  # noqa: ARG002
        dim, over = (last.options.dim, last.options.sizes) if last else suggested(own)
        fields = (
            PromptField("Dimension, counted from 0", str(dim), parse_dimension),
            PromptField("Sizes, in the order of the calls", ", ".join(map(str, over)), parse_sizes),
        )
        return Prompt("One dimension at several sizes", fields, NOTE)

    def options_from(self, answers: Sequence[str]) -> SweepOptions:
        return SweepOptions(parse_dimension(answers[0]), parse_sizes(answers[1]))

    async def plan(self, state: State, runs: Runs, announce: Announce) -> AsyncGenerator[SweepStep, None]:
        """Compile all, then time each size; a size that fails in eager is left out of the runs over all sizes."""
        steps = {(step.form, step.size): step for step in planned_steps(state.job, state.options)}
        state.planned = [step.job for step in steps.values()]
        cells = [Cell(key, step_name(*key), step.job) for key, step in steps.items()]
        plan_cells(runs.steps, cells, state)
        # First what answers the question within a short budget: each size, compiled with static shapes.
        first = [cell for cell in cells if cell.key[0] == STATIC]  # type: ignore[index]
        for batch in (first, [cell for cell in cells if cell not in first]):
            async for update in TimedCells(batch, state, runs, announce, _undecided).results():
                form, size = next(key for key in steps if key == update.cell.key)
                yield SweepStep(form, size, RunFigures(update.run))
        for job, form in _without_failing_sizes(_sweep(state), steps):
            announce(f"{form}, the sizes that work in eager")
            yield SweepStep(form, 0, RunFigures((await runs.run(job, state.timeout)).snapshot))

    def result_key(self, result: SweepStep) -> tuple[Form, int]:
        return result.form, result.size

    def settled(self, result: SweepStep, *, stopped: bool) -> SweepStep:
        return replace(result, figures=RunFigures(settled(result.run, stopped=stopped)))

    def document(self, state: State, width: int = 78) -> Document:
        sweep, active = _sweep(state), frozenset() if state.over else state.active
        title = row((f" dimension {sweep.dim}", "heading"), ("  compiled for each size, vs. eager", "muted"))
        sizes = table(_columns(width), [_SizeRow(sweep, size, active) for size in sweep.sizes])
        return StaticDocument("", (title, *sizes, *_conclusions(sweep, width), *_chart(sweep, width)))

    def answer(self, state: State) -> str:
        return next(helps(_sweep(state)), "")

    def fields(self, state: State) -> Fields:
        sweep = _sweep(state)
        return {
            "dim": sweep.dim,
            "sizes": [_size(sweep, size) for size in sweep.sizes],
            "all_sizes": {form: _all_sizes(sweep, form) for form in ALL_SIZES},
            "helps_from": {form: sweep.helps_from(form) for form in (STATIC, DYNAMIC)},
            "conclusions": list(conclusions(sweep)),
        }

    def result_line(self, result: SweepStep) -> str:
        if not has_ended(result.run):
            return ""
        return f"{step_name(result.form, result.size)}: {format_outcome(result.figures)}"


def planned_steps(job: Job, options: SweepOptions) -> tuple[PlannedStep, ...]:
    """Return the runs over all sizes, then each size compiled by itself with static and with dynamic shapes."""
    config = replace(job.config, dim=options.dim)

    def at(dynamic: bool | None, over: tuple[int, ...]) -> Job:
        return replace(job, config=replace(config, dynamic=dynamic, sizes=over, override=("dynamic",)))

    return (
        *(
            PlannedStep(form, 0, replace(at(dynamic, options.sizes), time_for=0.0, examine=False))
            for form, dynamic in ALL_SIZES.items()
        ),
        *(
            PlannedStep(form, size, at(form == DYNAMIC, (size,)))
            for size in options.sizes
            for form in (STATIC, DYNAMIC)
        ),
    )


def _undecided(known: dict[Hashable, Snapshot]) -> set[Hashable]:
    """Return the runs without a verdict that more timing may decide."""
    return {
        key
        for key, run in known.items()
        if run.timing is not None and run.timing.verdict in UNDECIDED and may_become_certain(run.timing)
    }


def _without_failing_sizes(sweep: Sweep, steps: Mapping[tuple[Form, int], PlannedStep]) -> Iterator[tuple[Job, Form]]:
    """Yield the runs over all sizes that failed in eager, with the sizes that work there."""
    working = tuple(size for size in sweep.sizes if size not in sweep.failing_sizes)
    for form in ALL_SIZES:
        figures = sweep.all_sizes(form)
        if working and working != sweep.sizes and figures is not None and figures.run.failure is not None:
            job = steps[form, 0].job
            yield replace(job, config=replace(job.config, sizes=working)), form


def _sweep(state: State) -> Sweep:
    return Sweep(state.options.dim, state.options.sizes, tuple(state.results))


def _size(sweep: Sweep, size: int) -> Fields:
    """Return a size in both forms; null without a run."""
    by_form: dict[str, RunFigures | None] = {form: sweep.at(form, size) for form in (STATIC, DYNAMIC)}
    return {"size": size, **{form: figures and run_fields(figures) for form, figures in by_form.items()}}


def _all_sizes(sweep: Sweep, form: Form) -> dict[str, Any] | None:
    figures = sweep.all_sizes(form)
    if figures is None:
        return None
    compiled, limit = list(sweep.compiled_at(form)), sweep.limit_hit(form)
    return {**run_fields(figures), "compiled_at": compiled, "recompiled_at": compiled[1:], "limit_hit": limit}


def parse_dimension(text: str) -> int:
    """Return the number of a dimension. Raises `ValueError` with a message."""
    if not text.strip().isdecimal():
        raise ValueError("A dimension is a whole number, 0 or more.")
    return int(text)


def parse_sizes(text: str) -> tuple[int, ...]:
    """Return the sizes in `1, 8, 64` without duplicates. Raises `ValueError` with a message."""
    parts = [part.strip() for part in text.replace(" ", ",").split(",") if part.strip()]
    if not parts or not all(part.isdecimal() and int(part) for part in parts):
        raise ValueError("Sizes are whole numbers above 0, separated by commas: 1, 8, 64.")
    return tuple(dict.fromkeys(int(part) for part in parts))


def suggested(own: Snapshot | None) -> tuple[int, tuple[int, ...]]:
    """Return a dimension and sizes of it: the frequent ones with which a script called its region, if several are.

    Otherwise they are around the most frequent one, or around the first size of the first tensor. 1 is one of them:
    torch always specializes for it.
    """
    seen = _sizes_of_calls(own) if own is not None else None
    tensors = seen.sizes[0].tensors if seen is not None and seen.sizes else ()
    for varying in seen.varying if seen is not None else ():
        by_count = sorted((value for value in varying.values if value[0]), key=lambda value: -value[1])
        frequent = [size for size, calls in by_count[:MOST_SUGGESTED] if calls >= FREQUENT * by_count[0][1]]
        for change in varying.dims:
            # The study resizes what is as large as the first tensor with the dimension.
            resized = next((tensor.argument for tensor in tensors if len(tensor.size) > (change.dim or 0)), None)
            if change.name == resized and by_count:
                sizes = frequent if len(frequent) > 1 else _around(by_count[0][0])
                return change.dim or 0, tuple(sorted({1, *sizes}))
    of_script = next((tensor.size[0] for tensor in tensors if tensor.size), 0)
    entry = own.entry if own is not None else None
    described = _FIRST_SIZE.search(" ".join(entry.calls[0]) if entry is not None and entry.calls else "")
    first = of_script or (int(described[1]) if described else 16)
    return 0, tuple(sorted({1, *_around(first)}))


def _around(size: int) -> tuple[int, ...]:
    return tuple(int(size * ratio) for ratio in SUGGESTED_RATIOS if size * ratio >= 1)


def _sizes_of_calls(run: Snapshot) -> SizesSeen | None:
    """Return the sizes of the calls of the region that stands for a script: that of the captured call, or the first."""
    regions = sorted(run.sizes_seen, key=lambda seen: seen.region)
    captured = run.captured_calls[0].region if run.captured_calls else None
    return next((seen for seen in regions if seen.region == captured), regions[0] if regions else None)


STUDY = SweepStudy()
