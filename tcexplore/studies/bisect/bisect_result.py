"""Compiler stages, each adding to the one before it, and the result of running the model file with each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tcexplore.events import Failed
from tcexplore.events.run_events import BEFORE_COMPILE
from tcexplore.session.snapshot import Snapshot

SCRIPT_NOT_COMPARED = "a script has no eager form to compare with"
NO_COMPARISON = "the run ended before eager and compiled were compared"

GOOD_VERDICTS = ("not judged", "identical", "as accurate as eager", "close to eager")


@dataclass(frozen=True, slots=True)
class BisectStage:
    """A compiler stage, and how to run a program with it as the last one."""

    name: str
    backend: str | None
    """The backend of torch.compile; None without a compiler."""
    fuse: bool = True
    """As in `Config`."""
    mode: str = "default"
    adds: str = ""
    """What it adds to the stage before it."""


OWN_CALL = BisectStage("the script's own arguments", None, adds="the arguments of its calls of torch.compile")
"""The last stage of a script: nothing is replaced."""

EAGER = BisectStage("your own code", None, adds="no compiler")

STAGES = (
    EAGER,
    BisectStage("Dynamo", "eager", adds="Dynamo's graphs, guards and bytecode, run op by op"),
    BisectStage("AOTAutograd", "aot_eager", adds="functionalization and the joint graph, run op by op"),
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
    """A stage that was tried."""

    stage: BisectStage
    run: Snapshot

    @property
    def failed(self) -> Failed | None:
        """Return the failure of the run; for eager, only one that does not involve the compiler."""
        failed = self.run.failure
        if failed is None or self.run.is_script:
            return failed
        if self.stage is EAGER and failed.stage not in BEFORE_COMPILE:
            return None
        return failed

    @property
    def wrong(self) -> str:
        """Return the verdict on the result if it is not a good one; empty otherwise."""
        if self.stage is EAGER or self.run.accuracy is None or self.run.accuracy.verdict in GOOD_VERDICTS:
            return ""
        return self.run.accuracy.verdict

    @property
    def fails(self) -> bool:
        """Return whether the run crashes or has a wrong result."""
        return bool(self.failed or self.wrong)

    @property
    def not_compared(self) -> str:
        """Return why the results of a run that ended were not compared with eager's; empty if they were."""
        if self.stage is EAGER or self.failed:
            return ""
        if self.run.is_script:
            return SCRIPT_NOT_COMPARED
        accuracy = self.run.accuracy
        if accuracy is None:
            return NO_COMPARISON
        return accuracy.reason or NO_COMPARISON if accuracy.verdict == "not judged" else ""


def unexercised(steps: Sequence[BisectStep]) -> dict[BisectStage, str]:
    """Return the stages that had nothing to do with this program, each with the reason: they prove nothing."""
    reasons: dict[BisectStage, str] = {}
    unfused: int | None = None
    for step in steps:
        kernels = len(step.run.code.kernels)
        if step.stage is EAGER or step.fails:
            continue
        if not step.run.graphs:
            reasons[step.stage] = "no graph was captured"
        elif step.stage.backend == "inductor" and not kernels:
            reasons[step.stage] = "no kernel was generated"
        elif step.stage.backend == "inductor" and not step.stage.fuse:
            unfused = kernels
        elif step.stage.backend == "inductor" and kernels == unfused:
            reasons[step.stage] = "nothing was fused"
    return reasons


def first_failure(steps: Sequence[BisectStep]) -> BisectStep | None:
    """Return the first stage that fails; None without one."""
    return next((step for step in steps if step.fails), None)
