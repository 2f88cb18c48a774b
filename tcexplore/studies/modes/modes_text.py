"""What follows from a matrix, in sentences: which mode to use, and how sure that is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tcexplore.documents.configurations import describe_configuration, format_compile_call
from tcexplore.documents.timing.recommendation import suggest_less_noise
from tcexplore.documents.verdict_marks import format_outcome
from tcexplore.quantities import count, duration, rounded, size
from tcexplore.session.economics import economics
from tcexplore.session.run_figures import RunFigures, may_be_faster
from tcexplore.studies.load_text import uneven
from tcexplore.studies.modes.modes_result import ALIKE, ModeChoice, choice, wrong

FAILED = "✖ "
"""What a sentence about something wrong begins with."""


def conclusions(cells: Sequence[RunFigures], *, more: bool = False) -> Iterator[str]:
    """The answer first; `more` tells that cells are still to come."""
    good = [cell for cell in cells if not cell.failure]
    found = choice(good)
    if found is not None:
        yield _take(found, more=more)
        yield from _beside(found)
    elif good and not more:
        yield _leave(good)
    if bad := wrong(good):
        yield f"{FAILED}another result than eager, however fast: {_named(bad)}"
    if warning := uneven(good):
        yield warning


def result(cell: RunFigures) -> str:
    """What one run came to, in a line."""
    return f"{describe_configuration(cell.run.config)}: {format_outcome(cell)}"


def eager_peak(cells: Sequence[RunFigures]) -> str:
    """`peak: eager's is 1.0 MiB`; empty where it was not measured."""
    peaks = [cell.run.memory.eager_peak for cell in cells if cell.run.memory]
    known = [peak for peak in peaks if peak is not None]
    return f"peak: eager's is {size(max(known))}" if known else ""


def _take(found: ModeChoice, *, more: bool) -> str:
    timing, costs = found.take.run.timing, economics(found.take.run)
    assert timing is not None
    so_far = "So far: use" if more else "Use"
    figures = f"{timing.speedup:.2f}× eager's speed [{timing.low:.2f}, {timing.high:.2f}]"
    after = costs.break_even_calls
    pays = "" if after is None else f"; its compile pays for itself after about {rounded(after)} calls"
    return f"{so_far} {format_compile_call(found.take.run.config)}: {figures}{pays}."


def _beside(found: ModeChoice) -> Iterator[str]:
    if found.level:
        seconds = found.take.compile_s
        why = "" if seconds is None or not found.soonest else f" It compiles soonest of them, in {duration(seconds)}."
        yield f"Within {100 * (ALIKE - 1):.0f} % of it, as far as can be told: {_named(found.level)}.{why}"
    if found.varying is not None and found.varying.run.timing is not None:
        faster = f"{found.varying.run.timing.speedup:.2f}×"
        config = describe_configuration(found.varying.run.config)
        yield f"It compiles again for each new size; one program for many: {config}, {faster}."


def _leave(good: Sequence[RunFigures]) -> str:
    timed = [cell.run.timing for cell in good if cell.run.timing]
    unknown = [cell for cell in good if may_be_faster(cell)]
    if not timed:
        return "Nothing was timed, so none can be recommended."
    if not unknown:
        return "Leave it eager: none is faster beyond the noise."
    rest = len(timed) - len(unknown)
    others = f"; {'none of the others is' if rest > 1 else 'the other is not'} faster" if rest else ""
    return (
        f"None can be recommended: of {count(len(timed), 'run')} {len(unknown)} could not be told from the noise"
        f"{others}. {suggest_less_noise(timed[0])}"
    )


def _named(cells: Sequence[RunFigures]) -> str:
    return "; ".join(describe_configuration(cell.run.config) for cell in cells)
