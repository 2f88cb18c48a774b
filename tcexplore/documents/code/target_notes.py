"""Rows above code for a device: what it is, what could not be lowered, what was assumed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tcexplore import events as ev
from tcexplore.documents.document import Row
from tcexplore.documents.locations import places
from tcexplore.documents.prose import BLANK, fold, wrapped
from tcexplore.quantities import count, duration, size
from tcexplore.session import Snapshot
from tcexplore.session.code import NATIVE
from tcexplore.session.links import line_link

ASSUMED = "target assumptions"
"""The fold of what was assumed."""


def target_rows(snapshot: Snapshot, toggled: frozenset[str], width: int) -> Iterator[Row]:
    """Nothing for the device in the machine."""
    text = describe_target(snapshot)
    if not text:
        return
    yield from wrapped(text, width, "muted")
    for skipped in snapshot.code.not_lowered:
        yield from wrapped(describe_not_lowered(skipped), width, "warn", lead="! ")
    where = places(snapshot.file).describe
    for query in snapshot.device_queries:
        place = query.location
        own = (line_link(place),) if place else ()
        before = f"{where(place)}: " if place else ""
        yield from wrapped(before + describe_device_query(query), width, "warn", lead="! ", location=place, links=own)
    notes = list(list_assumptions(snapshot))
    if notes:
        opened = ASSUMED in toggled
        yield fold(ASSUMED, opened, (f"{count(len(notes), 'assumption')} where the device would be asked", "muted"))
        for note in notes if opened else ():
            yield from wrapped(note, width, "muted", indent=3)
    yield BLANK


def format_resources(taken: ev.KernelResources) -> str:
    """`32 registers · 2 warps · 1.0 KiB shared · occupancy 100 %`, spills only where there are some."""
    shared = taken.shared_static + taken.shared_dynamic
    parts = [f"{taken.registers} registers", count(taken.num_warps, "warp")]
    parts += [f"{size(shared)} shared"] if shared else []
    parts += [f"spills {size(taken.spills)} a thread"] if taken.spills else []
    limit = f", limited by {taken.limited_by}" if taken.limited_by else ""
    return " · ".join([*parts, f"occupancy {taken.occupancy:.0%}{limit}"])


def format_estimate(point: ev.RooflinePoint) -> str:
    """`at least 1.20 µs (estimate: memory bound)`."""
    least = "under 0.01 µs" if point.implied_us < 0.01 else f"at least {duration(point.implied_us / 1e6)}"
    return f"{least} (estimate: {point.bound} bound)"


def describe_vectors(vectors: ev.Vectors) -> str:
    """What of a C++ kernel's arithmetic is vectorized."""
    if vectors.vectorized is None:
        return "no floating-point arithmetic"
    share = vectors.packed / (vectors.packed + vectors.scalar)
    word = "vectorized" if vectors.vectorized else "mostly scalar"
    wide = f", {vectors.width}-bit registers" if vectors.width else ""
    # What the compiler itself calls, to throw and to tidy up, has a name with an underscore.
    named = [name for name in vectors.calls if not name.startswith("_")]
    calls = f", calls {', '.join(named)}" if named else ""
    return f"{word}: {share:.0%} of the arithmetic instructions are packed{wide}{calls}"


def describe_loops(loops: Sequence[ev.LoopVectorized]) -> str:
    """How Inductor wrote the loop nests of a C++ kernel: `avx512 vectors of 16`, or scalar and why; empty for none."""
    texts = dict.fromkeys(_written(loop) for loop in loops)
    return "; ".join(texts)


def _written(loop: ev.LoopVectorized) -> str:
    if loop.form == "scalar":
        return f"scalar: {loop.reason or 'torch does not say why'}"
    tiles = ", in transposed tiles" if loop.form == "tiles" else ""
    return f"vectors of {loop.lanes} ({loop.isa}, {loop.width} bits){tiles}"


def format_progress(snapshot: Snapshot) -> str:
    """How far the code for the target in view is: `h100: 2 of 5 graphs`, then `h100: 3 of 14 kernels assembled`."""
    done = len(snapshot.code.lowered) + len(snapshot.code.not_lowered)
    if done < len(snapshot.graphs):
        return f"{snapshot.target}: lowering, {done} of {count(len(snapshot.graphs), 'graph')}"
    made = {(e.graph, e.phase, e.kernel) for e in snapshot.code.assembled}
    made |= {(e.graph, e.phase, e.kernel) for e in snapshot.code.not_assembled}
    wanted = sum(kernel.language == "triton" for kernel in snapshot.code.kernels)
    return f"{snapshot.target}: {len(made)} of {count(wanted, 'kernel')} assembled"


def describe_not_lowered(skipped: ev.TargetSkipped) -> str:
    """Which graph has no code for the target, and why."""
    where = f" at {skipped.op}" if skipped.op else ""
    return f"Graph {skipped.graph} could not be lowered for {skipped.target}{where}: {skipped.reason}"


def describe_device_query(query: ev.DeviceQueried) -> str:
    """That the program looked at its device, without the place."""
    return (
        f"The program looks at {query.attribute} while it is traced: it sees the device it runs on, "
        "and may take another path on the target."
    )


def list_assumptions(snapshot: Snapshot) -> Iterator[str]:
    """What was assumed where the device itself would have been asked, each once."""
    yield from dict.fromkeys(note for lowered in snapshot.code.lowered for note in lowered.notes)


def describe_target(snapshot: Snapshot) -> str:
    """What the code in view is; empty for the device in the machine."""
    if snapshot.target == NATIVE:
        return ""
    return f"Code that {snapshot.target} would run, made without it; the program itself ran on this machine."
