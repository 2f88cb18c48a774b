"""Content of a pane that has nothing to show yet: the reason, and what the pane is for."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from tcexplore import events as ev
from tcexplore.documents.document import Part, Row, fixed
from tcexplore.documents.locations import places
from tcexplore.documents.prose import BLANK, row, wrapped
from tcexplore.quantities import count, duration
from tcexplore.session.links import line_links

if TYPE_CHECKING:
    from tcexplore.session import Snapshot

PHASES = {
    "": "starting",
    "importing": "importing the file",
    "eager": "running eagerly",
    "dynamo": "Dynamo",
    "aot": "AOTAutograd",
    "inductor": "Inductor",
    "compiler": "C++ or Triton compiler",
    "backward": "backward pass",
    "lowering": "lowering for the target",
    "accuracy": "comparing results",
    "assembling": "assembling kernels",
    "timing": "timing",
    "answering": "finished, recompile checks available",
    "comparing": "comparing with the original",
    "switching": "lowering for another target",
    "trace": "reading the trace",
    "profile": "reading the profile",
}
"""Names of the phases of a run; the empty one comes before the first."""


def describe_phase(snapshot: Snapshot) -> str:
    """Return the phase of a run, with the graph it works on."""
    if snapshot.trace and not snapshot.phase:
        return "waiting for the next compile"
    words = PHASES.get(snapshot.phase, snapshot.phase)
    return f"{words} {snapshot.phase_graph}" if snapshot.phase_graph else words


def describe_work(snapshot: Snapshot) -> str:
    """Return the phase of a run; of a timing, also how many processes are still to be timed, each for seconds."""
    more = snapshot.timing.processes_to_come if snapshot.phase == "timing" and snapshot.timing is not None else 0
    to_come = f", {count(more, 'process', 'processes')} to come" if more else ""
    return describe_phase(snapshot) + to_come


def empty_part(snapshot: Snapshot, width: int, empty_text: str, fact: ev.RunFact | None = None) -> Part:
    """Return the rows of an empty pane; `empty_text` explains what the pane is for.

    `fact` is what a trace lacks to fill the pane.
    """
    if fact and snapshot.trace:
        return fixed(not_in_trace_rows(snapshot, fact, width))
    return fixed((*_why(snapshot, width), BLANK, *wrapped(empty_text, width, "muted")))


def not_in_trace_rows(snapshot: Snapshot, fact: ev.RunFact, width: int) -> Iterator[Row]:
    """Yield that a pane cannot be filled from a trace, with the reason."""
    yield row((" not in a trace", "strong"))
    reason = missing_reason(snapshot, fact)
    yield from wrapped(f"{reason[:1].upper()}{reason[1:]}." if reason else "", width, "muted")


def missing_reason(snapshot: Snapshot, fact: ev.RunFact) -> str:
    """Return why a run lacks a fact; empty if it does not."""
    return next((missing.reason for missing in snapshot.missing_facts if missing.fact == fact), "")


def _why(snapshot: Snapshot, width: int) -> Iterable[Row]:
    if snapshot.failure is not None:
        yield row((" no result", "strong"), ("  the run failed", "muted"))
    elif snapshot.status == "running" and not snapshot.complete:
        yield row((f" … {describe_phase(snapshot)}", "running"))
    elif snapshot.status == "superseded":
        yield row((" ended early", "strong"), ("  by the next run, or the end of the app", "muted"))
    elif snapshot.phase == "switching" and snapshot.compiled:
        yield row((f" … {describe_phase(snapshot)}: {snapshot.target}", "running"))
    elif not snapshot.compiled:
        yield from nothing_compiled_rows(snapshot, width)
    elif snapshot.profile_alone:
        yield from not_in_profile_rows(width)
    else:
        yield row((" none in this run", "muted"))


NOT_IN_PROFILE = "not in a profile"


def not_in_profile_rows(width: int) -> Iterator[Row]:
    """Yield that a pane cannot be filled from a profile alone, and from what it can."""
    yield row((f" {NOT_IN_PROFILE}", "strong"))
    yield from wrapped("The job's TORCH_TRACE has it: tcexplore open PROFILE --trace TRACE.", width)


PROCESSES_S = 0.5
"""CPU time of a script's processes from which on they may have compiled something: to import torch takes longer."""


def seconds_elsewhere(snapshot: Snapshot) -> float:
    """Return the CPU time of a script's processes that may have compiled something; 0 for none."""
    seconds = snapshot.script_end.processes_s if snapshot.script_end is not None else 0.0
    return seconds if seconds > PROCESSES_S else 0.0


AHEAD_OF_TIME = "compile_fx_aot"
"""torch's name of the compile time of AOTInductor."""


def compiled_ahead_of_time(snapshot: Snapshot) -> bool:
    """Return whether AOTInductor compiled something, without Dynamo."""
    return any(phase.name == AHEAD_OF_TIME for phase in snapshot.phase_times)


def what_ran(snapshot: Snapshot) -> str:
    """Return how a program ran of which torch.compile compiled nothing."""
    if compiled_ahead_of_time(snapshot):
        return "by torch.compile, but by AOTInductor"
    return "in this process" if seconds_elsewhere(snapshot) else "the whole program ran eagerly"


def nothing_compiled_rows(snapshot: Snapshot, width: int) -> Iterator[Row]:
    """Yield a badge for a program that ran without any graph, with torch's reasons."""
    yield row((" ✖ NOTHING WAS COMPILED ", "badge.break"))
    if compiled_ahead_of_time(snapshot):
        yield from wrapped(
            "torch.compile captured no graph. AOTInductor compiled ahead of time; the graph that torch.export made is "
            "not observed. To see what Inductor makes of the module, define `model` and `inputs` in the file.", width,
        )  # fmt: skip
    elif seconds := seconds_elsewhere(snapshot):
        command = f"tcexplore run -- python {os.path.basename(snapshot.file)}"
        yield from wrapped(
            "torch.compile captured no graph in this process. Those that it started worked for "
            f"{duration(seconds)} and may have compiled something: {command} shows it.", width,
        )  # fmt: skip
    else:
        yield from wrapped("torch.compile captured no graph: the whole program ran eagerly.", width)
    words = places(snapshot.file).describe
    for skipped in snapshot.skipped_frames:
        where = f"{skipped.frame.function or 'frame'}, {words(skipped.frame)}: "
        yield from wrapped(f"{where}{skipped.reason}", width, lead="· ", location=skipped.frame,
                           links=line_links(skipped.frame))  # fmt: skip


def missing_rows(snapshot: Snapshot, facts: Iterable[ev.RunFact], width: int) -> Iterator[Row]:
    """Yield the `facts` that this torch version does not report, with the reasons."""
    wanted = tuple(facts)
    for fact in snapshot.missing_facts:
        if fact.fact in wanted:
            where = "This trace has no" if snapshot.trace else "This torch version does not report"
            yield from wrapped(f"{where} {fact.fact}: {fact.reason}", width, "warn")
