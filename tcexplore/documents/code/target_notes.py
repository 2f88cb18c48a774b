"""Rows and texts about the code for a target: what was not lowered, assumptions, resources."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tcexplore import events as ev
from tcexplore.documents.document import Row
from tcexplore.documents.empty_states import missing_reason
from tcexplore.documents.locations import places
from tcexplore.documents.prose import BLANK, fold, wrapped
from tcexplore.quantities import count, duration, size
from tcexplore.session.links import line_links
from tcexplore.targets.target_names import NATIVE

if TYPE_CHECKING:
    from tcexplore.session import Snapshot

ASSUMED = "target assumptions"
"""The fold of the assumptions."""


def target_rows(snapshot: Snapshot, toggled: frozenset[str], width: int) -> Iterator[Row]:
    """Yield the notes on the target, nothing for the device in this machine."""
    text = describe_target(snapshot)
    if not text:
        return
    yield from wrapped(text, width, "muted")
    for skipped in snapshot.code.not_lowered:
        yield from wrapped(describe_not_lowered(skipped), width, "warn", lead="! ")
    where = places(snapshot.file).describe
    for query in snapshot.device_queries:
        place = query.location
        own = line_links(place)
        before = f"{where(place)}: " if place else ""
        yield from wrapped(before + describe_device_query(query), width, "warn", lead="! ", location=place, links=own)
    notes = list(list_assumptions(snapshot))
    if notes:
        opened = ASSUMED in toggled
        yield fold(ASSUMED, opened, (f"{count(len(notes), 'assumption')} about the device", "muted"))
        for note in notes if opened else ():
            yield from wrapped(note, width, "muted", indent=3)
    yield BLANK


def count_kernels(snapshot: Snapshot) -> str:
    """Return `7 kernels + 5 extern for h100, 7 for this machine`; the last ones are of graphs that were not lowered."""
    kernels = snapshot.code.kernels
    lowered = [kernel for kernel in kernels if not is_of_this_machine(snapshot, kernel)]
    text = generated_and_extern(lowered)
    text += snapshot.for_target
    text += " so far" if _is_being_lowered(snapshot) else ""
    return text + (f", {len(kernels) - len(lowered)} for this machine" if len(lowered) < len(kernels) else "")


def generated_and_extern(kernels: Sequence[ev.Kernel]) -> str:
    """Return `7 kernels + 5 extern`: generated ones once each, library calls one by one."""
    extern = sum(not kernel.generated for kernel in kernels)
    return count(len(kernels) - extern, "kernel") + (f" + {extern} extern" if extern else "")


def is_of_this_machine(snapshot: Snapshot, kernel: ev.Kernel) -> bool:
    """Return whether a kernel is for this machine although another target is in view."""
    return snapshot.target != NATIVE and kernel.target == NATIVE


def format_resources(taken: ev.KernelResources) -> str:
    """Return `32 registers · 2 warps · 1.0 KiB shared · occupancy 100%`, with spills if there are some."""
    shared = taken.shared_static + taken.shared_dynamic
    parts = [f"{taken.registers} registers", count(taken.num_warps, "warp")]
    parts += [f"{size(shared)} shared"] if shared else []
    parts += [f"spills {size(taken.spills)} per thread"] if taken.spills else []
    limit = f", limited by {taken.limited_by}" if taken.limited_by else ""
    return " · ".join([*parts, f"occupancy {taken.occupancy:.0%}{limit}"])


def format_estimate(point: ev.RooflinePoint) -> str:
    """Return `at least 1.20 µs (estimate: memory bound)`."""
    least = "under 0.01 µs" if point.implied_us < 0.01 else f"at least {duration(point.implied_us / 1e6)}"
    return f"{least} (estimate: {point.bound} bound)"


def describe_vectors(vectors: ev.Vectors) -> str:
    """Return how much of the arithmetic of a C++ kernel is vectorized."""
    if vectors.vectorized is None:
        return "no floating-point arithmetic"
    share = vectors.packed / (vectors.packed + vectors.scalar)
    word = "vectorized" if vectors.vectorized else "mostly scalar"
    wide = f", {vectors.width}-bit registers" if vectors.width else ""
    # Calls that the compiler inserts, to throw and to clean up, begin with an underscore.
    named = [name for name in vectors.calls if not name.startswith("_")]
    calls = f", calls {', '.join(named)}" if named else ""
    return f"{word}: {share:.0%} of the arithmetic instructions are packed{wide}{calls}"


def describe_loops(loops: Sequence[ev.LoopVectorized]) -> str:
    """Return how the loops of a C++ kernel are vectorized: `vectorized: 16 lanes, AVX-512`, or `scalar` and why."""
    texts = dict.fromkeys(_describe_loop(loop) for loop in loops)
    return "; ".join(texts)


def _describe_loop(loop: ev.LoopVectorized) -> str:
    if loop.form == "scalar":
        return f"scalar: {loop.reason or 'torch gives no reason'}"
    tiles = ", in transposed tiles" if loop.form == "tiles" else ""
    isa = loop.isa.partition(" ")[0].upper().replace("AVX512", "AVX-512")
    return f"vectorized: {loop.lanes} lanes, {isa}{tiles}"


def format_progress(snapshot: Snapshot) -> str:
    """Return `h100: lowering, 2 of 5 graphs`, then `h100: 3 of 14 kernels assembled`."""
    if _is_being_lowered(snapshot):
        return f"{snapshot.target}: lowering, {_graphs_lowered(snapshot)} of {count(len(snapshot.graphs), 'graph')}"
    wanted = count(_kernels_wanted(snapshot), "kernel")
    return f"{snapshot.target}: {_kernels_made(snapshot)} of {wanted} assembled"


def is_assembled(snapshot: Snapshot) -> bool:
    """Return whether no more machine code will come for the target in view."""
    if awaits_local_code(snapshot):
        return False
    if snapshot.target == NATIVE:
        return snapshot.complete
    return not _is_being_lowered(snapshot) and _kernels_made(snapshot) >= _kernels_wanted(snapshot)


LOCAL_CODE_LATER = "The machine code of this GPU's kernels is read when the calls of the program have ended."


def awaits_local_code(snapshot: Snapshot) -> bool:
    """Return whether the machine code of the kernels that this machine's GPU runs is still to come.

    The phase alone does not tell: a script is timed before its kernels are assembled, and compared after it.
    """
    ended = {phase for phase, _ in snapshot.phase_seconds}
    return (
        snapshot.target == NATIVE
        and snapshot.status == "running"
        and not snapshot.trace
        and "assembling" not in ended
        and not missing_reason(snapshot, ev.RunFact.MACHINE_CODE)
        and _kernels_made(snapshot) < _kernels_wanted(snapshot)
    )


def _is_being_lowered(snapshot: Snapshot) -> bool:
    """Return whether graphs wait for their code for the target in view."""
    return snapshot.target != NATIVE and _graphs_lowered(snapshot) < len(snapshot.graphs)


def _graphs_lowered(snapshot: Snapshot) -> int:
    """Return how many graphs have code for the target in view, or cannot; a graph and its backward are two events."""
    done = {end.graph for end in snapshot.code.lowered} | {end.graph for end in snapshot.code.not_lowered}
    return sum(captured.graph in done for captured in snapshot.graphs)


def _kernels_made(snapshot: Snapshot) -> int:
    """Return how many kernels of the target in view are assembled, or can't be."""
    made = {(end.graph, end.phase, end.kernel) for end in snapshot.code.assembled}
    return len(made | {(end.graph, end.phase, end.kernel) for end in snapshot.code.not_assembled})


def _kernels_wanted(snapshot: Snapshot) -> int:
    return sum(kernel.language == "triton" for kernel in snapshot.code.kernels)


def describe_not_lowered(skipped: ev.TargetSkipped) -> str:
    """Return which graph has no code for the target, and why."""
    where = f" at {skipped.op}" if skipped.op else ""
    return f"Graph {skipped.graph} could not be lowered for {skipped.target}{where}: {skipped.reason}"


def describe_device_query(query: ev.DeviceQueried) -> str:
    """Return that the program queries its device, without the location."""
    if query.as_target:
        return f"The program requires a GPU. {query.attribute} is true for it, as on the target."
    return (
        f"The program reads {query.attribute} during tracing. It gets the value of this machine's device, and may take "
        "another path on the target."
    )


def list_assumptions(snapshot: Snapshot) -> Iterator[str]:
    """Yield the assumptions about the absent device, each once."""
    yield from dict.fromkeys(note for lowered in snapshot.code.lowered for note in lowered.notes)


def describe_target(snapshot: Snapshot) -> str:
    """Return how the code in view was made, empty for the device in this machine."""
    if snapshot.target == NATIVE:
        return ""
    return f"Cross-compiled for {snapshot.target.upper()}; timing and results are from this machine."
