"""The modes study as a document: a row for each run, planned ones included, and which mode to use."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from tcexplore.documents.configurations import DYNAMIC, describe_configuration, describe_variant, format_compile_call
from tcexplore.documents.document import Row, Span, StaticDocument
from tcexplore.documents.prose import BLANK, Cell, columns, row, wrapped
from tcexplore.documents.timing.accuracy_rows import ACCURACY_STYLES, format_error
from tcexplore.documents.timing.recommendation import suggest_less_noise
from tcexplore.documents.verdict_marks import LEGEND, format_outcome, speedup_span
from tcexplore.events import Config
from tcexplore.keymap import hint
from tcexplore.quantities import count, duration, rounded, size
from tcexplore.session.economics import RunFigures, economics, may_be_faster
from tcexplore.session.links import Link
from tcexplore.studies.modes.variant_result import (
    SPEEDUP_TOLERANCE,
    ModeChoice,
    choose_mode,
    variant_sentences,
    wrong_runs,
)
from tcexplore.studies.study import StudyState
from tcexplore.studies.study_runs import has_ended
from tcexplore.studies.study_text import ERROR_MARK, uneven_eager

HEAD = (
    "backend", "mode", "dynamic", "speedup", "95% interval", "variant", "compiled", "compile",
    "first call", "peak", "max diff", "breaks", "recompiles", "graphs", "kernels",
)  # fmt: skip
OPTIONAL = ("variant", "recompiles")
"""Columns that are left out if they are empty."""

LEFT = (0, 1, 2, HEAD.index("variant"))


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


def modes_document(state: StudyState[Any, RunFigures], order: Order, width: int) -> StaticDocument:
    """Return the document."""
    active = frozenset() if state.over else state.active
    known = {result.run.config for result in state.results}
    waiting = [job.config for job in state.planned if job.config not in known]
    finished = sorted(enumerate(state.results), key=lambda item: _rank(order, item[1]))
    rows = [_cells(result, result.run.config in active) for _, result in finished]
    rows += [_planned(config, config in active) for config in waiting]
    links = [(Link("run", "", str(index)),) for index, _ in finished] + [(Link("waiting", "", ""),) for _ in waiting]
    table = _table(rows, links) if rows else ()
    return StaticDocument("", (
        *table,
        *_conclusions(state, bool(waiting), width),
        *_failures(state.results, width),
        *_other_backends(state, width),
        *_legend(state.results, order, width),
    ))  # fmt: skip


def _table(rows: Sequence[list[Cell]], links: Sequence[tuple[Link, ...]]) -> Iterator[Row]:
    empty = [name for name in OPTIONAL if not any(_text(row[HEAD.index(name)]) for row in rows)]
    kept = [index for index, name in enumerate(HEAD) if name not in empty]
    left = [place for place, index in enumerate(kept) if index in LEFT]
    return columns([HEAD[index] for index in kept], [[row[index] for index in kept] for row in rows], links, left)


def _text(cell: Cell) -> str:
    return "".join(span.text for span in cell)


def _rank(order: Order, result: RunFigures) -> float:
    key = order.key(result)
    return math.inf if key is None and order is not ORDERS[0] else key or 0.0


def _cells(result: RunFigures, timing_now: bool) -> list[Cell]:
    config, timing, summary = result.run.config, result.run.timing, result.summary
    if result.failure:
        return [*_config(config), (Span("✖ failed", "error"),), (), _variant(config), *[()] * (len(HEAD) - 6)]
    accuracy = result.run.accuracy
    difference = "" if result.max_abs is None else format_error(result.max_abs)
    return [
        *_config(config),
        _speedup(result, timing_now),
        (Span(f"[{timing.low:.2f}, {timing.high:.2f}]", "interval"),) if timing else (),
        _variant(config),
        _seconds(timing.compiled_us / 1e6 if timing else None),
        _seconds(result.compile_s),
        _seconds(result.first_call_s),
        (Span("" if result.peak_bytes is None else size(result.peak_bytes)),),
        (Span(difference, ACCURACY_STYLES.get(accuracy.verdict, "warn")),) if accuracy else (),
        (Span(str(summary.breaks), "break" if summary.breaks else ""),),
        (Span(str(summary.recompiles or "")),),
        (Span(str(summary.graphs)),),
        (Span(f"{summary.kernels}+{summary.extern}" if summary.extern else str(summary.kernels)),),
    ]


def _speedup(result: RunFigures, timing_now: bool) -> Cell:
    timing = result.run.timing
    if timing is not None:
        return (Span("◐ " if timing_now else "", "running"), speedup_span(timing))
    if timing_now:
        return (Span("◐ timing", "running"),)
    return (Span("not timed" if has_ended(result.run) else "·", "muted"),)


def _config(config: Config) -> list[Cell]:
    return [(Span(config.backend, "strong"),), (Span(config.mode),), (Span(DYNAMIC[config.dynamic]),)]


def _variant(config: Config, style: str = "") -> Cell:
    return (Span(describe_variant(config), style),)


def _seconds(seconds: float | None) -> Cell:
    return (Span("" if seconds is None else duration(seconds)),)


def _planned(config: Config, running: bool) -> list[Cell]:
    status = Span("◐ running", "running") if running else Span("·", "dim")
    names = [(Span(span.text, "muted"),) for (span,) in _config(config)]
    return [*names, (status,), (), (), _variant(config, "muted"), *[()] * (len(HEAD) - 7)]


def _conclusions(state: StudyState[Any, RunFigures], more: bool, width: int) -> Iterator[Row]:
    for index, line in enumerate(conclusions(state.results, more=more)):
        if not index:
            yield BLANK
        yield from wrapped(line, width, "error" if line.startswith(ERROR_MARK) else "strong" if not index else "")


def _failures(results: Sequence[RunFigures], width: int) -> Iterator[Row]:
    for result in results:
        if result.failure:
            yield from wrapped(
                f"{describe_configuration(result.run.config)}: {result.failure}", width, "error", lead=ERROR_MARK
            )


def _other_backends(state: StudyState[Any, RunFigures], width: int) -> Iterator[Row]:
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
    if wrong := wrong_runs(good):
        yield f"{ERROR_MARK}result differs from eager's: {_names(wrong)}"
    if warning := uneven_eager(good):
        yield warning


def recommendation(results: Sequence[RunFigures], *, more: bool) -> str:
    """Return which mode to use, as a sentence; empty as long as this is open and runs are planned."""
    good = [result for result in results if not result.failure]
    return _advice(good, choose_mode(good), more=more)


def _advice(good: Sequence[RunFigures], choice: ModeChoice | None, *, more: bool) -> str:
    return _use(choice, more=more) if choice is not None else _stay_eager(good) if good and not more else ""


def _use(choice: ModeChoice, *, more: bool) -> str:
    timing, costs = choice.best.run.timing, economics(choice.best.run)
    assert timing is not None
    so_far = "So far: use" if more else "Use"
    figures = f"{timing.speedup:.2f}× eager's speed [{timing.low:.2f}, {timing.high:.2f}]"
    calls = costs.break_even_calls
    pays = "" if calls is None else f"; break-even after about {rounded(calls)} calls"
    return f"{so_far} {format_compile_call(choice.best.run.config)}: {figures}{pays}."


def _alternatives(choice: ModeChoice) -> Iterator[str]:
    if choice.equal:
        seconds = choice.best.compile_s
        fastest = seconds is not None and choice.compiles_fastest
        why = f" Its compile is the shortest: {duration(seconds)}." if fastest and seconds is not None else ""
        yield f"Within {100 * (SPEEDUP_TOLERANCE - 1):.0f}% of it: {_names(choice.equal)}.{why}"
    if choice.dynamic is not None and choice.dynamic.run.timing is not None:
        speedup = f"{choice.dynamic.run.timing.speedup:.2f}×"
        config = describe_configuration(choice.dynamic.run.config)
        yield f"It recompiles for each new size; with dynamic shapes: {config}, {speedup}."


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
    return "; ".join(describe_configuration(result.run.config) for result in results)
