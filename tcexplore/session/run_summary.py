"""Figures of a run for the history and for studies, and changes from the previous run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tcexplore.session.economics import economics
from tcexplore.session.snapshot import Snapshot

if TYPE_CHECKING:
    from tcexplore.events.timing_events import FreshHeap


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


@dataclass(frozen=True, slots=True)
class RunFigures:
    """Figures of a finished run."""

    run: Snapshot
    cold: Snapshot | None = None
    """Its first call alone, in a new process with empty caches; None if that was not tried."""

    @property
    def failure(self) -> str:
        """Why the run failed; empty if it did not."""
        failed = self.run.failure
        return "" if failed is None else f"{failed.type}: {failed.message.strip().partition(chr(10))[0]}"

    @property
    def summary(self) -> RunSummary:
        return summarize(self.run)

    @property
    def compile_s(self) -> float | None:
        """Compile time from torch's log."""
        return economics(self.run).compile_s

    @property
    def first_call_s(self) -> float | None:
        """Duration of the first compiled call."""
        return economics(self.run).first_call_s

    @property
    def cold_s(self) -> float | None:
        """Duration of the first compiled call in a new process."""
        return economics(self.cold).first_call_s if self.cold and not self.cold.failure else None

    @property
    def differing_fresh_heap(self) -> FreshHeap | None:
        """The timing with a fresh heap, if it differs."""
        return self.run.timing.differing_fresh_heap if self.run.timing is not None else None

    @property
    def max_abs(self) -> float | None:
        """The largest difference to eager."""
        return self.run.accuracy.max_abs if self.run.accuracy else None

    @property
    def peak_bytes(self) -> int | None:
        """Peak memory of a compiled call."""
        return self.run.memory.compiled_peak if self.run.memory else None


def is_faster(figures: RunFigures) -> bool:
    """Return whether compiled is faster than eager, with a correct result."""
    return figures.run.timing is not None and figures.run.timing.verdict == "faster" and not figures.summary.wrong


def is_faster_fresh(figures: RunFigures) -> bool:
    """Return whether compiled is faster than eager in a script, whose heap is fresh, with a correct result."""
    fresh = figures.differing_fresh_heap
    return is_faster(figures) if fresh is None else fresh.verdict == "faster" and not figures.summary.wrong


def may_be_faster(figures: RunFigures) -> bool:
    """Return whether compiled may be faster, but the verdict is open."""
    timing = figures.run.timing
    return timing is not None and timing.verdict in ("undecided", "measuring") and timing.high > 1


def may_be_faster_fresh(figures: RunFigures) -> bool:
    """Return whether compiled may be faster in a script, whose heap is fresh, but the verdict is open."""
    fresh = figures.differing_fresh_heap
    return may_be_faster(figures) if fresh is None else fresh.verdict == "undecided" and fresh.high > 1
