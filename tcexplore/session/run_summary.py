"""A run in one cell of the history, and what changed from the one before."""

from __future__ import annotations

from dataclasses import dataclass

from tcexplore.session.economics import economics
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


@dataclass(frozen=True, slots=True)
class RunFigures:
    """A finished run; its figures come from the run itself. `why` says why it failed, empty where it did not."""

    run: Snapshot

    @property
    def failure(self) -> str:
        failed = self.run.failure
        return "" if failed is None else f"{failed.type}: {failed.message.strip().partition(chr(10))[0]}"

    @property
    def summary(self) -> RunSummary:
        return summarize(self.run)

    @property
    def compile_s(self) -> float | None:
        """Seconds that torch's own log gives for compiling."""
        return economics(self.run).compile_s

    @property
    def first_call_s(self) -> float | None:
        """Seconds of the first compiled call."""
        return economics(self.run).first_call_s

    @property
    def max_abs(self) -> float | None:
        """The largest difference to eager."""
        return self.run.accuracy.max_abs if self.run.accuracy else None

    @property
    def peak_bytes(self) -> int | None:
        """Bytes that compiled takes at the peak of a call."""
        return self.run.memory.compiled_peak if self.run.memory else None


def is_faster(cell: RunFigures) -> bool:
    """Whether compiled is faster than eager, and gives its result."""
    return cell.run.timing is not None and cell.run.timing.verdict == "faster" and not cell.summary.wrong


def may_be_faster(cell: RunFigures) -> bool:
    """Whether it may be that compiled is faster, and is not known."""
    timing = cell.run.timing
    return timing is not None and timing.verdict in ("undecided", "measuring") and timing.high > 1
