"""Captured calls of a script's regions: time, results and memory of each."""

from __future__ import annotations

from collections.abc import Iterator

from tcexplore.documents.document import Row
from tcexplore.documents.locations import places
from tcexplore.documents.prose import BLANK, row, wrapped
from tcexplore.documents.timing.accuracy_rows import ACCURACY_SENTENCES, FAITHFUL_VERDICTS
from tcexplore.documents.verdicts import MARKS, VERDICT_STYLES, describe_noise
from tcexplore.events import CallExamined
from tcexplore.quantities import count, duration, factor_range, first_of, size
from tcexplore.session import Snapshot
from tcexplore.session.links import line_links

MEANING = "Calls of the script that were kept, and made again after its end, eager and compiled."
OF_STEPS = "A call is a part of a step, so its speedup differs from that of the steps above."
FIRST = "Memory, the parts of a call and the times of lines are of the first one; of the results, the worst is shown."

INPUTS = 8
"""Inputs of a call that are named."""

FEWEST_FAULTS = 100
"""Difference in page faults between an eager and a compiled step from which on it is said: some tenths of a ms."""


def captured_rows(snapshot: Snapshot, width: int) -> Iterator[Row]:
    """Yield the rows about the captured calls of a script, if there are any."""
    calls = snapshot.captured_calls
    if not calls:
        return
    yield BLANK
    yield row((" CAPTURED CALLS", "heading"))
    of_steps = snapshot.timing is not None and snapshot.timing.unit == "step"
    steps = (OF_STEPS, _page_faults(snapshot)) if of_steps else ()
    sentences = (MEANING, *steps, FIRST if len(calls) > 1 else "")
    yield from wrapped(" ".join(filter(None, sentences)), width, "muted")
    for call in calls:
        yield from _call_rows(snapshot, call, width)


def _page_faults(snapshot: Snapshot) -> str:
    """Return the page faults of the steps if one side has more: captured calls have none."""
    process = next(iter(snapshot.timing.processes), None) if snapshot.timing is not None else None
    if process is None or process.eager_page_faults is None or process.compiled_page_faults is None:
        return ""
    eager, compiled = process.eager_page_faults, process.compiled_page_faults
    if abs(eager - compiled) < FEWEST_FAULTS:
        return ""
    return (
        f"An eager step takes {count(round(eager), 'page fault')}, a compiled one {compiled:,.0f}: in the script, "
        "freed memory goes back to the system, and for these calls it is kept."
    )


def call_title(snapshot: Snapshot, call: CallExamined) -> str:
    """Return `call 2 of Net`."""
    created = next((known for known in snapshot.regions if known.region == call.region), None)
    return f"call {call.call} of {created.name if created is not None else f'region {call.region}'}"


def passes_and_inputs(call: CallExamined) -> str:
    """Return `forward and backward with i64[8, 128]`."""
    passes = "forward and backward" if call.backward else "forward"
    return f"{passes} with {first_of(call.inputs, INPUTS)}"


def _call_rows(snapshot: Snapshot, call: CallExamined, width: int) -> Iterator[Row]:
    created = next((known for known in snapshot.regions if known.region == call.region), None)
    at = created.location if created is not None else None
    where = places(snapshot.file).describe(at)
    yield row((f" {call_title(snapshot, call)}", "title"), (f"  {where}", "muted"), links=line_links(at), location=at)
    such = count(call.calls, "such call")
    yield from wrapped(f"{passes_and_inputs(call)}; {such} in the script", width, "muted")
    if (timing := call.timing) is not None:
        times = f"{duration(timing.eager_us / 1e6)} → {duration(timing.compiled_us / 1e6)}"
        yield row((f"  {timing.speedup:.2f}× {MARKS.get(timing.verdict, ' ')}",
                   VERDICT_STYLES.get(timing.verdict, "muted")),
                  (f"  {factor_range(timing.low, timing.high)}", "interval"), (f"  {times}", ""))  # fmt: skip
        if noise := describe_noise(timing):
            yield from wrapped(noise, width, "muted")
    for text, style in describe_results(call):
        yield from wrapped(text, width, style)
    for note in call.notes:
        yield from wrapped(note, width, "muted")
    for reason in call.missing:
        yield from wrapped(reason, width, "warn", lead="! ")


def describe_results(call: CallExamined) -> Iterator[tuple[str, str]]:
    """Yield a sentence on the results of a captured call, and one on its memory, each with its style."""
    if (accuracy := call.accuracy) is not None:
        text = ACCURACY_SENTENCES.get(accuracy.verdict, accuracy.verdict)
        good = accuracy.verdict in FAITHFUL_VERDICTS
        yield text, "muted" if good or accuracy.verdict == "not judged" else "warn"
    memory = call.memory
    if memory is not None and memory.eager_peak is not None and memory.compiled_peak is not None:
        yield f"memory of a call: {size(memory.eager_peak)} eager, {size(memory.compiled_peak)} compiled", "muted"
