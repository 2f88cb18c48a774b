"""The sweep study as a document: a row for each size, planned ones included, conclusions, and a bar chart."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from tcexplore.documents.document import Row, Span, StaticDocument
from tcexplore.documents.prose import BLANK, Cell, columns, heading, row, wrapped
from tcexplore.documents.timing.accuracy_rows import describe_accuracy
from tcexplore.documents.verdict_marks import (
    LEGEND,
    VERDICT_STYLES,
    format_speedup,
    speedup_span,
)
from tcexplore.events import TimingEstimate
from tcexplore.quantities import duration
from tcexplore.session.economics import DECIDED, RunFigures, is_faster, may_be_faster
from tcexplore.studies.study_runs import has_ended
from tcexplore.studies.study_text import ERROR_MARK, uneven_eager
from tcexplore.studies.sweep.sweep_result import ALL_SIZES, DYNAMIC, STATIC, Form, Sweep, fails_in_eager, is_measured

HEAD = (
    "size", "eager", "static", "speedup", "95% interval", "dynamic", "speedup", "95% interval", "compiled in",
)  # fmt: skip

INTERVALS = (4, 7)
WIDTH_WITH_INTERVALS = 100
"""Minimum width of a table with the intervals."""

BAR_WIDTH = 40
"""Columns of the longest bar."""

UNDECIDED_SPEEDUP = 2.0
"""Largest speedup for which the chart makes room if it is undecided."""


def sweep_document(sweep: Sweep, active: frozenset[tuple[Form, int]], width: int) -> StaticDocument:
    """Return the document; `active` are the form and size of the runs under way."""
    rows = [_cells(sweep, size, active) for size in sweep.sizes]
    title = row((f" dimension {sweep.dim}", "heading"), ("  compiled for each size, vs. eager", "muted"))
    left_out = () if width >= WIDTH_WITH_INTERVALS else INTERVALS
    shown = [index for index in range(len(HEAD)) if index not in left_out]
    fitted = [[cells[index] for index in shown] for cells in rows]
    table = columns([HEAD[index] for index in shown], fitted, [()] * len(rows), left=(len(shown) - 1,))
    return StaticDocument("", (title, *table, *_conclusions(sweep, width), *_chart(sweep, width)))


def step_name(form: Form, size: int) -> str:
    """Return `static, size 64` or `auto, all sizes`."""
    return f"{form}, {f'size {size}' if size else 'all sizes'}"


def _cells(sweep: Sweep, size: int, active: frozenset[tuple[Form, int]]) -> list[Cell]:
    static, dynamic = sweep.at(STATIC, size), sweep.at(DYNAMIC, size)
    timing = next((figures.run.timing for figures in (static, dynamic) if figures and figures.run.timing), None)
    compiled = ", ".join(form for form in ALL_SIZES if size in sweep.compiled_at(form))
    eager = duration(timing.eager_us / 1e6) if timing else ""
    return [
        (Span(str(size), "strong"),), (Span(eager),),
        *_figures(static, running=(STATIC, size) in active), *_figures(dynamic, running=(DYNAMIC, size) in active),
        (Span(compiled, "recompile"),),
    ]  # fmt: skip


def _figures(figures: RunFigures | None, *, running: bool) -> tuple[Cell, Cell, Cell]:
    if figures is None:
        return (Span("◐", "running") if running else Span("·", "dim"),), (), ()
    timing = figures.run.timing
    if timing is None and not has_ended(figures.run):
        return (Span("◐ timing", "running") if running else Span("compiled", "muted"),), (), ()
    if timing is None:
        return (Span("✖ failed", "error") if figures.failure else Span("not timed", "muted"),), (), ()
    interval = Span(f"[{timing.low:.2f}, {timing.high:.2f}]", "interval")
    return (Span(duration(timing.compiled_us / 1e6)),), (speedup_span(timing),), (interval,)


def _conclusions(sweep: Sweep, width: int) -> Iterator[Row]:
    for index, line in enumerate(conclusions(sweep)):
        if not index:
            yield BLANK
        yield from wrapped(line, width, "error" if line.startswith(ERROR_MARK) else "strong")


def conclusions(sweep: Sweep) -> Iterator[str]:
    """Yield sentences: the sizes at which compiling helps, those that recompiled, failures."""
    yield from helps(sweep)
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
            return


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
    measured = "" if done == of else f"{done} of {of} sizes measured"
    if size is not None:
        clauses = [f"compiling helps from size {size} up", undecided]
    elif some:
        known = {*some, *unknown, *sweep.sizes_where(form, fails_in_eager)}
        worse = tuple(size for size in sweep.measured(form) if size > min(some) and size not in known)
        but = f", but not at {_listed(worse)}" if worse else ""
        clauses = [f"compiling helps at size {_listed(some)}{but}", undecided]
    elif unknown:
        timed = sweep.sizes_where(form, lambda figures: figures.run.timing is not None)
        clauses = [undecided, "compiling helps at no other size" if len(timed) > len(unknown) else ""]
    else:
        clauses = ["compiling helps at no size"]
    return "; ".join(filter(None, (*clauses, measured)))


def _listed(sizes: tuple[int, ...]) -> str:
    return ", ".join(map(str, sizes))


def _recompiles(sweep: Sweep, form: Form) -> str:
    recompiled, missing = sweep.compiled_at(form)[1:], sweep.not_called(form)
    if len(missing) == len(sweep.sizes):
        return "no size was called"
    limit = "; hit the recompile limit, the rest ran eagerly" if sweep.limit_hit(form) else ""
    left_out = f"; not called: {_listed(missing)}" if missing else ""
    return (f"recompiled at size {_listed(recompiled)}" if recompiled else "no recompiles") + limit + left_out


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
