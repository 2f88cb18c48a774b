"""Numerics of kernels: each one judged alone, the first op that is wrong or differs from eager, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tcexplore.events.base import Event, Location
from tcexplore.events.inductor_events import GraphPhase

KernelVerdict = Literal["bitwise equal", "differs, not wrong", "wrong", "not judged"]
"""`wrong`: the error is larger than rounding in any order explains. `differs, not wrong`: other bits than eager."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelJudged(Event):
    """One call of a kernel, alone on the inputs that it really got, against its post-grad nodes op by op.

    The figures are those of its worst output. A unit in the last place (ulp) is that of the output's dtype there.
    """

    graph: str
    phase: GraphPhase
    kernel: str
    order: int
    """Position among the calls of the wrapper, from 0."""
    verdict: KernelVerdict
    reason: str = ""
    """Why it is not judged; for other verdicts, what the judgement leaves out."""
    output: str = ""
    """Post-grad node of the worst output."""
    dtype: str = ""
    ops: int = 0
    """Number of its nodes."""
    elements: int = 0
    differing: int = 0
    """Elements whose bits differ from eager's."""
    ulps: float | None = None
    """Largest difference from eager, in units in the last place of the output's largest value; None if it is not a
    floating-point output, as for the next fields."""
    error_ulps: float | None = None
    """Largest error against float64, in the same unit."""
    eager_error_ulps: float | None = None
    """The same of eager."""
    error: float | None = None
    """Largest error against float64, relative to the output's largest value."""
    eager_error: float | None = None
    bound_share: float | None = None
    """Largest error as a share of its bound; above 1 it is outside."""
    eager_share: float | None = None
    """The same of eager, with the intermediates in float32 as in generated code."""
    repeats: bool | None = None
    """Whether a second call gave the same bits from the same inputs; None if the inputs differed."""


@dataclass(frozen=True, slots=True)
class OperandValue:
    """The value of one input of an op at an element."""

    name: str
    value: str


FirstOpKind = Literal["wrong", "not finite", "differs"]

Side = Literal["eager", "compiled", "both"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstOp(Event):
    """The first op of the program whose value is wrong, is not finite, or differs from eager."""

    kind: FirstOpKind
    side: Side = "compiled"
    """Where its value is so; a value may be finite in eager alone, or in the compiled program alone."""
    graph: str
    phase: GraphPhase
    kernel: str
    order: int
    op: str
    """Such as `aten.exp`; `input` for a value that is not finite when it enters the graph."""
    node: str
    statement: str = ""
    """The line of the generated code that computes it; empty if it is not known."""
    statement_line: int | None = None
    """Its line in the kernel's source, from 1."""
    location: Location | None = None
    """Line of the user."""
    module: str = ""
    dtype: str = ""
    index: tuple[int, ...] = ()
    """The element with the largest share of its bound."""
    inputs: tuple[OperandValue, ...] = ()
    eager: str = ""
    float64: str = ""
    compiled: str = ""
    bound: str = ""
    """Largest error that rounding explains there."""
    exposed: bool = True
    """Whether it was found by compiling the kernel with every intermediate as an output. Otherwise it is the last op of
    the kernel, or, for a wrong decomposition or pass, an op of the graph."""
    stage: Literal["kernel", "decomposition", "pass"] = "kernel"
    """What is wrong: the generated code, or the nodes that it was generated from."""
    culprit: str = ""
    """The decomposed op, or the pass."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultError(Event):
    """The accumulated error of an output of a graph, or of a gradient, against float64.

    Errors are the norm of the difference, relative to that of the float64 value, and infinite if a value is not finite
    whose float64 value is.
    """

    graph: str
    phase: GraphPhase
    number: int
    """Index among the outputs of the graph; in the backward, among the inputs of the forward."""
    node: str
    compiled: float
    eager: float | None = None
    """The same for the nodes in eager; None if they do not run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelErrorGrowth(Event):
    """The error that one call of a kernel adds, and what it becomes at the outputs and gradients of its graph."""

    graph: str
    phase: GraphPhase
    kernel: str
    order: int
    local: float
    """Error of its largest output against float64 on its own inputs, relative to the value."""
    output: float | None = None
    """Largest relative error of an output of the graph from this error alone; None for a kernel of the backward."""
    gradient: float | None = None
    """Largest relative error of a gradient from this error alone; None without a backward."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleErrorGrowth(Event):
    """The relative errors of a module's inputs and outputs against float64; those of the module as it was called."""

    graph: str
    phase: GraphPhase
    module: str
    ops: int
    error_in: float
    error_out: float
    passed_on: float
    """Error of its outputs if it computed exactly from the inputs that it got: `passed_on / error_in` is its
    amplification."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchTried(Event):
    """A kernel that differs from eager, compiled again with one change or several."""

    graph: str
    phase: GraphPhase
    kernel: str
    name: str
    settings: tuple[str, ...] = ()
    """Settings such as `torch._inductor.config.emulate_precision_casts=True`."""
    ops: tuple[str, ...] = ()
    """Ops such as `aten.sum.dim_IntList` that call eager's kernel instead of generated code."""
    equal: bool = False
    """Whether its bits are then those of eager."""
    differing: int = 0
    """Elements that still differ."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelReproducer(Event):
    """A Python script that runs one kernel without tcexplore, and its inputs."""

    kernel: str
    source: str
    inputs: str
    """File written by `torch.save`, in a temporary folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepParameters(Event):
    """The parameters of a script's optimizers after a step."""

    step: int
    """From 1."""
    names: tuple[str, ...]
    sketches: tuple[tuple[float, ...], ...]
    """Sums of each parameter's values with random signs, the same signs in each run: the norm of a difference of two is
    about that of the parameters'."""
    losses: tuple[float, ...] = ()
    """Values from which the step's backwards began, in their order; those with one element only."""
    random: str = ""
    """Digest of the states of all random generators."""
    seconds: float = 0.0
    """Since the step before ended, or the script began."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NumericsJudged(Event):
    """All kernels were judged."""

    verdict: KernelVerdict
    """The worst."""
    calls: int = 0
    """Wrappers whose first call was judged."""
    seconds: float = 0.0
    reason: str = ""
    """Why some or all kernels are not judged."""
