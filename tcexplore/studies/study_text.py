"""Text that studies share: the title line, and a warning about an unevenly loaded machine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tcexplore.documents.configurations import format_torch
from tcexplore.documents.document import Row
from tcexplore.documents.empty_states import describe_work
from tcexplore.documents.locations import display_path
from tcexplore.documents.prose import Piece, fitted, piece, row, wrapped
from tcexplore.documents.verdicts import of_medians
from tcexplore.events import Job, TimingEstimate
from tcexplore.quantities import count, duration, first_of
from tcexplore.session.economics import RunFigures
from tcexplore.session.time_ratio import EVEN_RATIO
from tcexplore.studies.study import StudyState

NAMED = 4
"""Runs that a sentence names."""

SHOWN_FROM_S = 1.0
"""Seconds from which the time of a step is shown."""

ERROR_MARK = "✖ "
"""Prefix of a sentence about an error."""


def study_title(
    name: str, job: Job, state: StudyState[Any, Any] | None, answer: str, newest: int, width: int, now: float = 0.0
) -> Row:
    """Return the title line of a study on the screen: file, progress, and that timing is paused.

    `newest` is the number of the newest run of the file, which may be another than that of the study; `now` is the time
    of the monotonic clock.
    """
    left = [piece(f" {name}", "title"), piece(display_path(job.file), "", 2), piece(f"run {job.run}", "muted", 3)]
    if newest != job.run:
        left.append(piece(f"the file was saved since: run {newest}", "warn", 1))
    if state is None:
        return fitted([*left, piece("begins once its question is answered", "warn")], width - 1)
    paused = [] if state.over else [piece("timing of your file is paused", "muted", 4)]
    return fitted([*left, *_progress(state, now), piece(answer, "strong")], width - 1, paused)


def study_status(state: StudyState[Any, Any]) -> str:
    """Return how far a study is, `3 of 12 · about 40 s left`, or how it ended."""
    if state.error or state.refused:
        return state.error or state.refused
    if state.skipped:
        return skipped_text(state)
    if state.stopped:
        return stopped_text(state)
    return "done" if state.over else state.steps or state.step


def _progress(state: StudyState[Any, Any], now: float) -> Iterator[Piece]:
    if state.error or state.refused:
        yield piece(f"✖ {study_status(state)}", "error")
    elif state.skipped or state.stopped:
        yield piece(study_status(state), "warn")
    elif state.over:
        yield piece(study_status(state), "ok")
    else:
        if state.steps:
            yield piece(state.steps, "strong")
        yield piece(f"◐ {state.step}", "running", 1)
        elapsed = now - state.step_began if state.step_began is not None else 0.0
        if elapsed >= SHOWN_FROM_S:
            yield piece(f"for {elapsed:.0f} s", "running", 1)
        if state.run is not None:
            yield piece(describe_work(state.run), "muted", 3)


def heading_rows(state: StudyState[Any, Any], width: int) -> Iterator[Row]:
    """Yield the first rows of a printed study: file, torch and device, whether it was stopped, what was left out."""
    machine = f" · {format_torch(state.machine)} · {state.machine.device}" if state.machine else ""
    yield row((f"{display_path(state.job.file)}{machine}", "title"))
    if state.stopped:
        yield row((stopped_text(state), "warn"))
    if state.skipped:
        yield from wrapped(skipped_text(state), width, "warn")


def stopped_text(state: StudyState[Any, Any]) -> str:
    """Return `stopped after 3 steps`; `stopped after 3 results` if steps are unknown, or of several kinds."""
    steps = state.steps_done
    return f"stopped after {count(len(state.results), 'result') if steps is None else count(steps, 'step')}"


def skipped_text(state: StudyState[Any, Any]) -> str:
    """Return `The budget of 60 s was spent before: inductor, lite (timing)`."""
    budget = f" of {state.budget_s:g} s" if state.budget_s is not None else ""
    return f"The budget{budget} was spent before: {'; '.join(state.skipped)}."


def load_warning(timings: Mapping[str, TimingEstimate]) -> str:
    """Return which of the named timings were taken beside other programs, empty if none was."""
    busy = {name: timing for name, timing in timings.items() if timing.load}
    if not busy:
        return ""
    cores = max(min(timing.busy_cores or 0.0, timing.cores) for timing in busy.values())
    which = "All were" if len(busy) == len(timings) > 1 else f"{'; '.join(busy)} {'was' if len(busy) == 1 else 'were'}"
    total = next(iter(busy.values())).cores
    return (
        f"{which} timed while other programs used up to {cores:.1f} of {count(total, 'core')}: without them, the "
        "speedups may be others."
    )


def uneven_eager(results: Iterable[RunFigures], where: str = "") -> str:
    """Return a warning if eager's times of the same calls differ between runs; `where` names the calls."""
    times = sorted(result.run.timing.eager_us / 1e6 for result in results if result.run.timing)
    if not times or times[-1] <= EVEN_RATIO * times[0]:
        return ""
    return (
        f"Eager took {duration(times[0])} to {duration(times[-1])}{where}: the load of the machine changed between "
        "runs. Compare speedups, which are interleaved, rather than times."
    )


def varied_times(timings: Mapping[str, TimingEstimate]) -> str:
    """Return the named timings whose median times give another ratio than their speedup; empty without one."""
    known = {name: timing for name, timing in timings.items() if timing.verdict != "measuring"}
    ratios = [f"{name} {ratio:.2f}×" for name, timing in known.items() if (ratio := of_medians(timing)) is not None]
    if not ratios:
        return ""
    return (
        "Speedups are those of calls next to each other, times are medians of all calls. They give another ratio where "
        f"times varied: {first_of(ratios, NAMED, '; ', '; ')}."
    )
