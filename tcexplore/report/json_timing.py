"""JSON of measurements: timing, accuracy, memory, compile time."""

from __future__ import annotations

from tcexplore import events as ev
from tcexplore.documents.locations import display_path
from tcexplore.documents.source.line_facts import times_of_lines
from tcexplore.documents.timing.device_rows import is_launch_bound
from tcexplore.documents.timing.recommendation import recommend
from tcexplore.report.json_records import Fields, fields
from tcexplore.session import Snapshot
from tcexplore.session.compile_time import compile_time, files_compiled
from tcexplore.session.economics import economics
from tcexplore.session.graph_stages import saved_for_backward


def timing(snapshot: Snapshot, calls: int | None = None) -> Fields | None:
    """Return the estimate with all its samples, and the recommendation for `calls` calls (None: any number)."""
    estimate = snapshot.timing
    if estimate is None:
        return None
    costs = economics(snapshot)
    payback = costs.payback
    return fields(
        "timing",
        estimate,
        ci95=(estimate.low, estimate.high),
        launch_bound=is_launch_bound(estimate),
        first_call_s=costs.first_call_s,
        compile_s=costs.compile_s,
        compile_overhead_s=costs.cost_s,
        saved_us_per_call=payback.saved_us if payback else None,
        break_even_calls=costs.break_even_calls,
        net_s=payback.net_seconds(calls) if payback and calls else None,
        recommendation=recommend(snapshot, calls),
        samples=_samples(snapshot.pairs),
    )


def line_time_fields(snapshot: Snapshot) -> Fields:
    """Return the time of each line of the user's files in one call, and of what is on no line."""
    times = times_of_lines(snapshot)
    if times is None:
        return {"line_times": [], "line_times_rest": []}
    lines = [fields("line_time", time, file=display_path(time.file), line=time.line) for time in times.lines]
    return {"line_times": lines, "line_times_rest": times.rest}


def _samples(pairs: tuple[ev.PairsMeasured, ...]) -> Fields:
    measured = [p for p in pairs if not p.control]
    control = [p for p in pairs if p.control]
    return {
        "eager_us": [us for p in measured for us in p.eager_us],
        "compiled_us": [us for p in measured for us in p.compiled_us],
        "control_a_us": [us for p in control for us in p.eager_us],
        "control_b_us": [us for p in control for us in p.compiled_us],
    }


def accuracy(accuracy: ev.Accuracy | None) -> Fields | None:
    """Return the comparison with eager and the figures of every value; None if nothing was compared."""
    if accuracy is None or (accuracy.verdict == "not judged" and not accuracy.calls):
        return None
    return fields("accuracy", accuracy)


def memory(snapshot: Snapshot) -> Fields | None:
    """Return the memory of one call in bytes; None if it was not measured."""
    memory = snapshot.memory
    if memory is None:
        return None
    compiled_saved = None if memory.saved_for_backward is None else saved_for_backward(snapshot)
    return fields("memory", memory, compiled_saved_for_backward_bytes=compiled_saved)


def compile_time_fields(snapshot: Snapshot) -> Fields:
    """Return the whole tree of compile spans."""
    time = compile_time(snapshot)
    kernels = sorted(snapshot.kernel_compiles, key=lambda kernel: -kernel.seconds)
    return fields("compile_time", time, kernels=kernels, file_compiles_s=files_compiled(time.roots))
