"""The comparison of environments as a document: a row for each, then what changes from version to version."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from tcexplore.documents.configurations import describe_configuration
from tcexplore.documents.document import Row, Span, StaticDocument
from tcexplore.documents.locations import display_path
from tcexplore.documents.prose import BLANK, Cell, columns, heading, wrapped
from tcexplore.documents.verdict_marks import LEGEND, format_speedup
from tcexplore.quantities import duration
from tcexplore.studies.modes.environments_result import (
    EnvironmentChange,
    EnvironmentRun,
    EnvironmentStep,
    Figure,
    labels,
    steps,
    time_ratio,
)

HEAD = (
    "torch", "Python", "environment", "breaks", "graphs", "unique kernels", "cold compile", "compiled call",
    "95% interval", "ratio", "95% interval", "over eager",
)  # fmt: skip
LEFT = (0, 1, 2)

MARKS = {"new": "+ ", "gone": "− ", "changed": "~ "}
STYLES = {"new": "added", "gone": "", "changed": ""}


def environments_document(results: Sequence[EnvironmentRun], width: int) -> StaticDocument:
    """Return the document."""
    rows: list[Row] = []
    configs = list(dict.fromkeys(result.run.config for result in results))
    for config in configs:
        group = [result for result in results if result.run.config == config]
        if len(configs) > 1:
            rows += [*([BLANK] if rows else []), heading(describe_configuration(config))]
        rows += [*columns(HEAD, [_cells(result, group[0]) for result in group], [()] * len(group), LEFT)]
        rows += [*_failures(group, width), *_changes(group, width)]
    note = f"ratio: of the times of a compiled call, over the first row · over eager: {LEGEND}"
    return StaticDocument("", (*rows, BLANK, *wrapped(note, width, "muted")))


def _cells(result: EnvironmentRun, base: EnvironmentRun) -> list[Cell]:
    python, summary, timing = result.python, result.figures.summary, result.run.timing
    name = [
        (Span(python.torch, "strong"),), (Span(python.version),),
        (Span(display_path(python.prefix or python.executable), "muted"),),
    ]  # fmt: skip
    if result.figures.failure:
        return [*name, (Span("✖ failed", "error"),), *[()] * (len(HEAD) - 4)]
    seconds = result.figures.compile_s
    ratio = time_ratio(result, base) if result is not base else None
    compiled = result.compiled_us
    return [
        *name,
        (Span(str(summary.breaks), "break" if summary.breaks else ""),),
        (Span(str(summary.graphs)),),
        (Span(str(result.unique_kernels)),),
        (Span("" if seconds is None else duration(seconds)),),
        (Span("" if compiled is None else duration(compiled.value / 1e6)),),
        (Span(_interval(compiled, lambda us: duration(us / 1e6)), "interval"),),
        (Span("" if ratio is None else f"{ratio.value:.2f}×", _style(ratio)),),
        (Span(_interval(ratio, lambda value: f"{value:.2f}"), "interval"),),
        (Span(format_speedup(timing) if timing else ""),),
    ]


def _interval(figure: Figure | None, text: Callable[[float], str]) -> str:
    if figure is None or figure.low is None or figure.high is None:
        return ""
    return f"[{text(figure.low)}, {text(figure.high)}]"


def _style(ratio: Figure | None) -> str:
    if ratio is None or not ratio.excludes(1.0):
        return ""
    return "slower" if ratio.value > 1 else "faster"


def _failures(group: Sequence[EnvironmentRun], width: int) -> Iterator[Row]:
    names = labels([result.python for result in group])
    for result in group:
        if result.figures.failure:
            text = f"{names[result.python.executable]}: {result.figures.failure}"
            yield from wrapped(text, width, "error", lead="✖ ")
        elif result.run.timing_skipped and not result.slices_us:
            yield from wrapped(
                f"{names[result.python.executable]}: not timed: {result.run.timing_skipped}", width, "muted"
            )


def _changes(group: Sequence[EnvironmentRun], width: int) -> Iterator[Row]:
    for step in steps(group):
        yield BLANK
        yield heading(step_title(step, group))
        if not step.changes:
            yield from wrapped("no difference in breaks, graphs, ops, kernels or time", width, "muted")
        for change in step.changes:
            text = describe_change(change)
            yield from wrapped(text, width, STYLES[change.verb], lead=MARKS[change.verb])


def step_title(step: EnvironmentStep, group: Sequence[EnvironmentRun]) -> str:
    """Return `since torch 2.13.0, compared with torch 2.11.0`."""
    names = labels([result.python for result in group])
    return f"since {names[step.after.python.executable]}, compared with {names[step.before.python.executable]}"


def describe_change(change: EnvironmentChange) -> str:
    """Return a change as a sentence: `break gone at line 12: …`."""
    place = f" at {display_path(change.location.file)}:{change.location.line}" if change.location else ""
    kind = {"run": "failure", "result": "wrong result"}.get(change.fact, change.fact)
    if change.fact in ("graph", "recompile", "time", "result"):
        return f"{change.text}{' no longer' if change.verb == 'gone' else ''}"
    plural = "s" if change.fact in ("op", "kernel") else ""
    return f"{kind}{plural} {change.verb}{place}: {change.text}"
