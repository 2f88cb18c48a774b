"""A run in one cell of the history, and what changed from the one before."""

from __future__ import annotations

from dataclasses import dataclass

from tcexplore.session.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class RunSummary:
    """The figures that a save is remembered by; a figure not known (yet) is None."""

    run: int
    status: str
    breaks: int
    graphs: int
    ops: int
    kernels: int
    extern: int
    guards: int
    recompiles: int
    speedup: float | None
    verdict: str
    error: str
    wrong: bool


def wrong_result(snapshot: Snapshot) -> bool:
    """Whether the compiled program gave a wrong result."""
    return snapshot.accuracy is not None and snapshot.accuracy.verdict == "wrong"


def summarize(snapshot: Snapshot) -> RunSummary:
    """The summary of a snapshot, complete or not."""
    timing = snapshot.timing
    return RunSummary(
        run=snapshot.run,
        status=snapshot.status,
        breaks=len(snapshot.breaks),
        graphs=len(snapshot.graphs),
        ops=sum(graph.ops for graph in snapshot.graphs),
        kernels=sum(kernel.language != "extern" for kernel in snapshot.code.kernels),
        extern=sum(kernel.language == "extern" for kernel in snapshot.code.kernels),
        guards=sum(len(installed.guards) for installed in snapshot.guards),
        recompiles=len({found.graph for found in snapshot.recompiles if not found.limit_hit}),
        speedup=timing.speedup if timing else None,
        verdict=timing.verdict if timing else "",
        error=snapshot.failure.type if snapshot.failure else "",
        wrong=wrong_result(snapshot),
    )


def changes(before: RunSummary, after: RunSummary) -> tuple[str, ...]:
    """What differs, each as `breaks 3→1`, in the order breaks, graphs, kernels, speed-up; empty when nothing does."""
    said = [
        f"{name} {old}→{new}"
        for name in ("breaks", "graphs", "kernels")
        if (old := getattr(before, name)) != (new := getattr(after, name))
    ]
    decided = {before.verdict, after.verdict} <= {"faster", "slower", "no difference"}
    if decided and before.speedup and after.speedup and f"{before.speedup:.2f}" != f"{after.speedup:.2f}":
        said.append(f"{before.speedup:.2f}×→{after.speedup:.2f}×")
    return tuple(said)
