"""The ladder of layers: each rung has one layer of the compiler more than the one below it."""

from __future__ import annotations

from dataclasses import dataclass

from tcexplore.events import Failed
from tcexplore.session.snapshot import Snapshot

GOOD = ("not judged", "identical", "as accurate as eager", "close to eager")
"""Verdicts on a result that blame nothing."""

OWN_STAGES = ("file", "importing", "arguments", "eager")
"""Stages before the compiler is there."""


@dataclass(frozen=True, slots=True)
class BisectStage:
    """A layer, and how to run a program with it on top: `backend`, None without any compiler; `fuse` as in `Config`."""

    layer: str
    backend: str | None
    fuse: bool = True
    mode: str = "default"
    adds: str = ""
    """What this rung has that the one below has not."""


EAGER = BisectStage("your own code", None, adds="no compiler at all")

RUNGS = (
    EAGER,
    BisectStage("Dynamo", "eager", adds="Dynamo's graphs, guards and bytecode, run op by op"),
    BisectStage("AOTAutograd", "aot_eager", adds="functionalisation and the joint graph, run op by op"),
    BisectStage(
        "decompositions and partitioner", "aot_eager_decomp_partition", adds="Inductor's decompositions, run op by op"
    ),
    BisectStage(
        "Inductor's lowering and code generation", "inductor", fuse=False, adds="generated kernels, one for each node"
    ),
    BisectStage("Inductor's fusion", "inductor", adds="fused kernels"),
)


@dataclass(frozen=True, slots=True)
class BisectStep:
    """A rung that was tried."""

    rung: BisectStage
    run: Snapshot

    @property
    def failed(self) -> Failed | None:
        """What ended the run at this rung; on the lowest one, only what happens before the compiler is there."""
        failed = self.run.failure
        if failed is None or (self.rung is EAGER and failed.stage not in OWN_STAGES):
            return None
        return failed

    @property
    def wrong(self) -> str:
        """The verdict on the result where it is not good; empty where it is, or where there is none."""
        if self.rung is EAGER or self.run.accuracy is None or self.run.accuracy.verdict in GOOD:
            return ""
        return self.run.accuracy.verdict

    @property
    def fails(self) -> bool:
        return bool(self.failed or self.wrong)


def culprit(steps: tuple[BisectStep, ...]) -> BisectStep | None:
    """The first rung that fails; None where none does."""
    return next((step for step in steps if step.fails), None)
