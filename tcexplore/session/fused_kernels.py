"""Fusions inside each kernel, and reasons why two kernels were not fused, from the scheduler's decisions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from tcexplore import events as ev
from tcexplore.session.kernel_dependencies import KernelRelation, Schedules
from tcexplore.session.snapshot import Snapshot

NO_SHARED_DATA = "no shared data"
"""Start of torch's reason for unrelated nodes, which applies to most pairs and is never of interest."""

NORMALISATIONS = frozenset({
    "aten.native_layer_norm", "aten.native_layer_norm_backward", "aten.native_group_norm",
    "aten.native_group_norm_backward", "aten.native_batch_norm", "aten.native_batch_norm_backward",
    "aten._native_batch_norm_legit", "aten._native_batch_norm_legit_functional",
    "aten._native_batch_norm_legit_no_training", "aten.cudnn_batch_norm", "aten.miopen_batch_norm",
    "aten.var_mean", "aten._fused_rms_norm", "aten._fused_rms_norm_backward", "aten.rms_norm",
})  # fmt: skip
SOFTMAXES = frozenset({
    "aten._softmax", "aten._log_softmax", "aten._softmax_backward_data", "aten._log_softmax_backward_data",
    "aten._safe_softmax", "aten.logsumexp", "prims.prepare_softmax_online", "inductor.prepare_softmax_online",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class FusedKernel:
    """Fusions inside a kernel."""

    groups: tuple[tuple[str, ...], ...]
    """Scheduler nodes, one tuple per group of fused nodes; several groups are loop nests of one function."""
    steps: tuple[ev.FusionDecision, ...]
    """The scheduler's fusions in their order."""
    kinds: tuple[str, ...]
    """`extern`, or any of `outer loop`, `template`, `template epilogue`, `foreach`, `reduction`, `pointwise`, and by
    its ops `normalization`, `softmax`; empty if no node was fused."""
    inlined: bool = False
    """There are more ops than scheduler nodes: lowering inlined some into the loops of others."""


@dataclass(frozen=True, slots=True)
class NotFused:
    """Why two kernels were not fused. Without refusals and a separation, the scheduler never compared them."""

    a: ev.Kernel
    b: ev.Kernel
    refusals: tuple[ev.FusionDecision, ...]
    """Includes nodes that use a buffer in a different order, for which torch also reports `no shared data`."""
    unrelated: int
    """Further pairs of nodes that share no data."""
    separated_by: str = ""
    """Obstacle to a comparison: `graph`, `phase` or `extern`; empty for none."""
    relation: KernelRelation | None = None
    """None if unknown."""
    pairwise_attempts: int | None = None
    """Number of following users of a buffer that each user is compared with; None if unknown."""


class Fusions:
    """Fusion of the kernels of one run, with an index of the decisions by scheduler node."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._kernels = () if snapshot.trace else snapshot.code.kernels  # a trace holds no decision
        self._decisions = snapshot.code.fusion
        self._schedules = Schedules(snapshot.code.schedules, snapshot.code.kernels)
        self._about: dict[tuple[str, str, str], set[int]] = {}
        for index, decision in enumerate(snapshot.code.fusion):
            for name in (*decision.a_nodes, *decision.b_nodes):
                self._about.setdefault((decision.graph, decision.phase, name), set()).add(index)

    def fused(self, kernel: ev.Kernel) -> FusedKernel:
        """Return the fusions inside a kernel."""
        if not kernel.generated:
            return FusedKernel(tuple((name,) for name in kernel.scheduler_nodes), (), ("extern",))
        own = set(kernel.scheduler_nodes)
        decisions = (self._decisions[index] for index in sorted(self._of(kernel)))
        steps = tuple(d for d in decisions if d.fused and own.issuperset((*d.a_nodes, *d.b_nodes)))
        groups = _groups(kernel.scheduler_nodes, steps)
        inlined = any(len(_computed(call)) > len(call.scheduler_nodes) for call in kernel.calls or (kernel,))
        return FusedKernel(groups, steps, tuple(_kinds(kernel, groups)), inlined)

    def not_fused(self, a: ev.Kernel, b: ev.Kernel) -> NotFused:
        """Return why two kernels were not fused, from the decisions about each pair of their nodes."""
        both = set(a.scheduler_nodes), set(b.scheduler_nodes)
        indices = sorted(self._of(a) & self._of(b)) if _together(a, b) else []
        refused = [d for d in map(self._decisions.__getitem__, indices) if not d.fused and _between(d, both)]
        related = tuple(d for d in refused if not unrelated(d) or self._schedules.shared(d))
        schedules = self._schedules
        return NotFused(
            a,
            b,
            related,
            len(refused) - len(related),
            _separation(a, b),
            schedules.relation(a, b),
            schedules.pairwise_attempts(a),
        )

    def neighbors(self) -> tuple[NotFused, ...]:
        """Return each pair of consecutive generated kernels of one graph and phase."""
        pairs = pairwise(kernel for kernel in self._kernels if kernel.generated)
        return tuple(self.not_fused(a, b) for a, b in pairs if _together(a, b))

    def _of(self, kernel: ev.Kernel) -> set[int]:
        """Return the indices of the decisions about any node of the kernel."""
        names = ((kernel.graph, kernel.phase, name) for name in kernel.scheduler_nodes)
        return set().union(*(self._about.get(name, set()) for name in names))


def not_fused(snapshot: Snapshot, a: ev.Kernel, b: ev.Kernel) -> NotFused:
    """Return why two kernels of a run were not fused."""
    return Fusions(snapshot).not_fused(a, b)


def _computed(call: ev.Kernel | ev.KernelCall) -> set[str]:
    """Return the post-grad nodes with statements; views have none."""
    return {name for line in call.lines for name in line.nodes}


def _groups(names: Sequence[str], steps: Iterable[ev.FusionDecision]) -> tuple[tuple[str, ...], ...]:
    """Return the nodes in groups that fusions join, in the order of their first nodes."""
    group: dict[str, list[str]] = {name: [name] for name in names}
    for step in steps:
        first, *others = (*step.a_nodes, *step.b_nodes)
        for other in others:
            joined, left = group[first], group[other]
            if left is not joined:
                joined += left
                group |= dict.fromkeys(left, joined)
    order = {name: index for index, name in enumerate(names)}
    distinct = {id(members): members for members in group.values()}
    return tuple(tuple(sorted(members, key=order.__getitem__)) for members in distinct.values())


def _kinds(kernel: ev.Kernel, groups: Sequence[Sequence[str]]) -> Iterable[str]:
    """Yield the kinds of fusion; separate loop nests are not fused."""
    if kernel.fusion.startswith("template"):
        yield kernel.fusion
    elif any(len(group) > 1 for group in groups):
        yield kernel.fusion
        ops = frozenset(kernel.ops)
        if ops & NORMALISATIONS:
            yield "normalization"
        if ops & SOFTMAXES:
            yield "softmax"


def unrelated(decision: ev.FusionDecision) -> bool:
    """Return whether torch refused a fusion because the nodes share no data."""
    return decision.reason == NO_SHARED_DATA


def _between(decision: ev.FusionDecision, both: tuple[set[str], set[str]]) -> bool:
    first, second = both
    forward = not first.isdisjoint(decision.a_nodes) and not second.isdisjoint(decision.b_nodes)
    return forward or (not second.isdisjoint(decision.a_nodes) and not first.isdisjoint(decision.b_nodes))


def _together(a: ev.Kernel, b: ev.Kernel) -> bool:
    return (a.graph, a.phase) == (b.graph, b.phase)


def _separation(a: ev.Kernel, b: ev.Kernel) -> str:
    if a.graph != b.graph:
        return "graph"
    if a.phase != b.phase:
        return "phase"
    return "extern" if "extern" in (a.language, b.language) else ""
