"""Fusions inside each kernel, the dependencies between kernels, and reasons why two were not fused."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise, product

from tcexplore import events as ev
from tcexplore.session.snapshot import Snapshot

NO_SHARED_DATA = "no shared data"
"""Start of torch's reason for unrelated nodes, which applies to most pairs and is never of interest."""

INTERMEDIATE = "intermediate nodes between node1 & node2"
"""torch's reason for two nodes of which the second one needs the first one's result through another node."""

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
        first, second = paired_calls(a, b)[0]
        both = set(first), set(second)
        indices = sorted(self._of(a) & self._of(b)) if _same_graph_and_phase(a, b) else []
        refused = [d for d in map(self._decisions.__getitem__, indices) if not d.fused and between(d, both)]
        related = tuple(d for d in refused if not unrelated(d) or self._schedules.shared(d))
        schedules = self._schedules
        return NotFused(
            a,
            b,
            related,
            len(refused) - len(related),
            _separation(a, b),
            schedules.relation(a, b, first, second, through_others=any(d.reason == INTERMEDIATE for d in related)),
            schedules.pairwise_attempts(a),
        )

    def neighbors(self) -> tuple[NotFused, ...]:
        """Return each pair of consecutive generated kernels of one graph and phase."""
        pairs = pairwise(kernel for kernel in self._kernels if kernel.generated)
        return tuple(self.not_fused(a, b) for a, b in pairs if _same_graph_and_phase(a, b))

    def _of(self, kernel: ev.Kernel) -> set[int]:
        """Return the indices of the decisions about any node of the kernel."""
        names = ((kernel.graph, kernel.phase, name) for name in kernel.scheduler_nodes)
        return set().union(*(self._about.get(name, set()) for name in names))


NodePair = tuple[tuple[str, ...], tuple[str, ...]]
"""Scheduler nodes of a call of one kernel, and of a call of another one."""


def paired_calls(a: ev.Kernel, b: ev.Kernel) -> tuple[NodePair, ...]:
    """Return the calls of two kernels that belong together, the nearest ones first: of equal layers, the same layer.

    Each call of the kernel with fewer calls is in one pair at most, all in the order of the nearest one: the last call
    in one layer and the first one in the next layer are neighbors too.
    """
    if not a.calls or not b.calls:
        first, second = ((kernel.calls or (kernel,))[0] for kernel in (a, b))
        return ((first.scheduler_nodes, second.scheduler_nodes),)
    pairs = sorted(product(a.calls, b.calls), key=lambda pair: abs(pair[0].order - pair[1].order))
    forward = pairs[0][0].order < pairs[0][1].order
    kept: dict[int, NodePair] = {}
    for first, second in pairs:
        one = first if len(a.calls) <= len(b.calls) else second
        if (first.order < second.order) == forward:
            kept.setdefault(one.order, (first.scheduler_nodes, second.scheduler_nodes))
    return tuple(kept.values())


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


def between(decision: ev.FusionDecision, both: tuple[set[str], set[str]]) -> bool:
    """Return whether a decision is about nodes of one set and nodes of the other."""
    first, second = both
    forward = not first.isdisjoint(decision.a_nodes) and not second.isdisjoint(decision.b_nodes)
    return forward or (not second.isdisjoint(decision.a_nodes) and not first.isdisjoint(decision.b_nodes))


def _same_graph_and_phase(a: ev.Kernel, b: ev.Kernel) -> bool:
    return (a.graph, a.phase) == (b.graph, b.phase)


def _separation(a: ev.Kernel, b: ev.Kernel) -> str:
    if a.graph != b.graph:
        return "graph"
    if a.phase != b.phase:
        return "phase"
    return "extern" if "extern" in (a.language, b.language) else ""


Key = tuple[str, str, str]
"""Graph, phase, scheduler node."""


@dataclass(frozen=True, slots=True)
class KernelRelation:
    """Dependencies between two kernels."""

    buffers: tuple[str, ...]
    """Used by both."""
    depends: bool = False
    """The second kernel reads a result of the first, directly or not."""
    reversed: bool = False
    """The first kernel reads a result of the second."""
    nodes: tuple[str, ...] = ()
    """Scheduler nodes on the shortest path between them; of two that torch did not fuse for these, on the shortest one
    that has any."""
    between: tuple[ev.Kernel, ...] = ()
    """Kernels of these nodes."""
    directly: bool = False
    """Whether one reads a result of the other itself."""


class Schedules:
    """Relations between the kernels of one run, from the scheduler's nodes."""

    def __init__(self, schedules: Iterable[ev.ScheduleMade], kernels: Iterable[ev.Kernel]) -> None:
        self._nodes: dict[Key, ev.SchedulerNode] = {}
        self._place: dict[Key, int] = {}
        self._attempts: dict[tuple[str, str], int | None] = {}
        for made in schedules:
            self._attempts[made.graph, made.phase] = made.pairwise_attempts
            keys = [(made.graph, made.phase, node.name) for node in made.nodes]
            self._nodes |= zip(keys, made.nodes, strict=True)
            self._place |= {key: place for place, key in enumerate(keys)}
        self._owner = {(k.graph, k.phase, name): k for k in kernels for name in k.scheduler_nodes}

    def pairwise_attempts(self, kernel: ev.Kernel) -> int | None:
        """Return the number of following users of a buffer that the scheduler compares with each user."""
        return self._attempts.get((kernel.graph, kernel.phase))

    def relation(
        self,
        a: ev.Kernel,
        b: ev.Kernel,
        a_nodes: Iterable[str],
        b_nodes: Iterable[str],
        *,
        through_others: bool = False,
    ) -> KernelRelation | None:
        """Return how these nodes of `b` depend on those of `a`; None for two schedules or with unknown nodes.

        With `through_others`, look for nodes in between also if one needs the other directly.
        """
        first, second = self._known(a, a_nodes), self._known(b, b_nodes)
        if (a.graph, a.phase) != (b.graph, b.phase) or not first or not second:
            return None
        shared = tuple(sorted(self._used(a, a_nodes) & self._used(b, b_nodes)))
        for start, goal, turned in ((second, first, False), (first, second, True)):
            way = self._way(start, goal)
            if way is not None:
                directly = not way
                if directly and through_others:
                    way = self._way(start, goal, through_others=True) or []
                owners = {self._owner[key].name: self._owner[key] for key in way if key in self._owner}
                between = tuple(kernel for kernel in owners.values() if kernel is not a and kernel is not b)
                names = tuple(name for _, _, name in way)
                return KernelRelation(shared, True, turned, names, between, directly)
        return KernelRelation(shared)

    def shared(self, decision: ev.FusionDecision) -> tuple[str, ...]:
        """Return the buffers that both compared nodes use."""
        first, second = (self._used(decision, names) for names in (decision.a_nodes, decision.b_nodes))
        return tuple(sorted(first & second))

    def _used(self, of: ev.FusionDecision | ev.Kernel, names: Iterable[str]) -> set[str]:
        nodes = (self._nodes.get((of.graph, of.phase, name)) for name in names)
        return {buffer for node in nodes if node for buffer in node.buffers}

    def _known(self, kernel: ev.Kernel, names: Iterable[str]) -> set[Key]:
        """Return these scheduler nodes of a kernel; empty if one of them is unknown."""
        keys: set[Key] = {(kernel.graph, kernel.phase, name) for name in names}
        return keys if keys <= self._nodes.keys() else set()

    def _way(self, start: set[Key], goal: set[Key], *, through_others: bool = False) -> list[Key] | None:
        """Return the shortest chain of nodes from one of `goal` to one of `start`, without the ends.

        With `through_others`, it has at least one node of neither. In the scheduler's order, each node follows those
        that it needs, so nodes before all of `goal` are skipped.
        """
        first = min(self._place[key] for key in goal)
        previous: dict[Key, Key | None] = dict.fromkeys(start)
        todo = list(start)
        for key in todo:
            node = self._nodes.get(key)
            for name in node.dependencies if node else ():
                needed = (*key[:2], name)
                if needed in goal:
                    if through_others and key in start:
                        continue
                    previous[needed] = key
                    return _inner(previous, needed)
                if needed not in previous and self._place.get(needed, -1) >= first:
                    previous[needed] = key
                    todo.append(needed)
        return None


def _inner(previous: dict[Key, Key | None], reached: Key) -> list[Key]:
    way: list[Key] = []
    step = previous[reached]
    while step is not None and previous[step] is not None:
        way.append(step)
        step = previous[step]
    return way
