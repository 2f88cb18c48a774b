"""Limits of a run, and the exit status."""

from __future__ import annotations

from collections.abc import Iterator

from tcexplore.cli.request import Limits, Request
from tcexplore.documents.timing.accuracy_rows import GOOD, describe_accuracy
from tcexplore.quantities import count, duration
from tcexplore.session import Snapshot
from tcexplore.session.economics import economics
from tcexplore.studies.study_runs import Outcome, failure_status

EXCEEDED, USER = 1, 2


def exceeded(request: Request, outcome: Outcome) -> tuple[str, ...]:
    """Return the limits that a run exceeded, each as a sentence; an unmeasured value exceeds its limit."""
    sentences = [f"not finished after {request.timeout:g} s (--timeout)"] if outcome.late else []
    breaks = len(outcome.snapshot.breaks)
    if request.config.fullgraph and breaks:
        sentences.append(f"{count(breaks, 'graph break')}, none allowed (--fullgraph)")
    if outcome.snapshot.failure is None:
        sentences += [*_speed(request.limits, outcome.snapshot), *_costs(request.limits, outcome.snapshot)]
        sentences += _accuracy(request.limits, outcome.snapshot)
    return (*_breaks(request.limits, breaks), *sentences)


def status(request: Request, outcome: Outcome) -> int:
    """Return 0 ok, 1 limit exceeded, 2 error in FILE or arguments, 3 error in the compiler or the worker."""
    if exceeded(request, outcome):
        return EXCEEDED
    return failure_status(outcome.snapshot)


def _breaks(limits: Limits, breaks: int) -> Iterator[str]:
    if limits.max_breaks is not None and breaks > limits.max_breaks:
        yield f"{count(breaks, 'graph break')}, {limits.max_breaks} allowed (--max-breaks)"


def _speed(limits: Limits, run: Snapshot) -> Iterator[str]:
    """Compare the measured speedup with its limit; if it is undecided, all of its interval has to be above it."""
    if limits.min_speedup is None:
        return
    required, timing = f"{limits.min_speedup:g}× required (--min-speedup)", run.timing
    if timing is None:
        yield f"no speedup was measured, {required}"
    elif timing.verdict in ("undecided", "measuring") and timing.low < limits.min_speedup:
        yield f"too noisy to tell: compiled is {timing.low:.2f}× to {timing.high:.2f}× as fast, {required}"
    elif timing.speedup < limits.min_speedup:
        yield f"compiled is {timing.speedup:.2f}× as fast, {required}"


def _costs(limits: Limits, run: Snapshot) -> Iterator[str]:
    seconds, most = economics(run).compile_s, limits.max_compile_seconds
    if most is not None and (seconds is None or seconds > most):
        taken = "compile time is unknown" if seconds is None else f"compiling took {duration(seconds)}"
        yield f"{taken}, {most:g} s allowed (--max-compile-seconds)"
    if limits.max_memory_ratio is None:
        return
    peaks = (run.memory.eager_peak, run.memory.compiled_peak) if run.memory else (None, None)
    if peaks[0] is None or peaks[1] is None:
        yield f"peak memory was not measured, {limits.max_memory_ratio:g}× allowed (--max-memory-ratio)"
    elif peaks[1] > limits.max_memory_ratio * peaks[0]:
        times = f"{peaks[1] / peaks[0]:.2f}×" if peaks[0] else "more than"
        yield f"compiled's peak is {times} eager's, {limits.max_memory_ratio:g}× allowed (--max-memory-ratio)"


def _accuracy(limits: Limits, run: Snapshot) -> Iterator[str]:
    if limits.accuracy and (run.accuracy is None or run.accuracy.verdict not in GOOD):
        result = describe_accuracy(run.accuracy) if run.accuracy else "results not compared"
        yield f"{result} (--accuracy)"
