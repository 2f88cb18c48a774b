"""Figures of a run for the history and for studies, and changes from the previous run."""

from __future__ import annotations

from dataclasses import dataclass

from tcexplore.session.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class RunSummary:
    """Figures of a run in the history; None if unknown so far."""

    run: int
    status: str
    target: str
    """Target of the kernels."""
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
    past: str = ""
    """As in `Snapshot`."""


def wrong_result(snapshot: Snapshot) -> bool:
    """Return whether the compiled program gave a wrong result."""
    return snapshot.accuracy is not None and snapshot.accuracy.verdict == "wrong"


def summarize(snapshot: Snapshot) -> RunSummary:
    """Return the summary of a snapshot, complete or not."""
    timing = snapshot.timing
    return RunSummary(
        run=snapshot.run,
        status=snapshot.status,
        target=snapshot.target,
        breaks=len(snapshot.breaks),
        graphs=len(snapshot.graphs),
        ops=sum(graph.ops for graph in snapshot.graphs),
        kernels=sum(kernel.generated for kernel in snapshot.code.kernels),
        extern=sum(not kernel.generated for kernel in snapshot.code.kernels),
        guards=sum(len(installed.guards) for installed in snapshot.guards),
        recompiles=len({recompile.graph for recompile in snapshot.recompiles if not recompile.limit_hit}),
        speedup=timing.speedup if timing else None,
        verdict=timing.verdict if timing else "",
        error=snapshot.failure.type if snapshot.failure else "",
        wrong=wrong_result(snapshot),
        past=snapshot.past,
    )


def changes(before: RunSummary, after: RunSummary) -> tuple[str, ...]:
    """Return the differences as `breaks 3→1`, in the order breaks, graphs, kernels, speedup.

    Kernels for different targets are not compared.
    """
    texts = [
        f"{name} {old}→{new}"
        for name in ("breaks", "graphs", *(("kernels",) if before.target == after.target else ()))
        if (old := getattr(before, name)) != (new := getattr(after, name))
    ]
    decided = {before.verdict, after.verdict} <= {"faster", "slower", "no difference"}
    if decided and before.speedup and after.speedup and f"{before.speedup:.2f}" != f"{after.speedup:.2f}":
        texts.append(f"{before.speedup:.2f}×→{after.speedup:.2f}×")
    return tuple(texts)
