"""Inductor's schedule, the fused scheduler nodes, and the reasons for refused fusions."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from tcexplore.capture.hooks import Hooks
from tcexplore.capture.inductor.kernel_schedule import bytes_moved
from tcexplore.capture.inductor.lowering_graph import Compilation, compilation
from tcexplore.capture.inductor.unexplained_fusions import UnexplainedRefusals
from tcexplore.capture.structured_trace import StructuredTrace
from tcexplore.capture.user_files import UserFiles
from tcexplore.events import FusionDecision, RunFact, ScheduleMade, SchedulerNode

_SCHEDULER = "torch._inductor.scheduler"


class Fusion(NamedTuple):
    """Two scheduler nodes that were fused."""

    kind: Literal["producer and consumer", "side by side"]
    bytes_saved: int | None


class Refusal(NamedTuple):
    """Two scheduler nodes that were not fused."""

    reason: str
    by: str = ""
    """The method that refused them, empty if the reason is torch's own."""


class FusionDecisions:
    """Decisions of one scheduler; it tries a pair in several rounds, and the last decision counts."""

    def __init__(self, hooks: Hooks) -> None:
        self._hooks = hooks
        self._nodes: dict[str, tuple[str, ...]] = {}
        self._refusals: dict[tuple[str, str], Refusal] = {}
        self._fusions: dict[tuple[str, str], Fusion] = {}
        self._unexplained = UnexplainedRefusals(hooks, self._refused_without_reason)

    def install(self) -> None:
        """Watch refusals and fusions, and emit the decisions when fusion is complete."""
        watch = self._hooks.watch
        watch(RunFact.FUSION_REFUSED, f"{_SCHEDULER}:WhyNoFuse.__init__", after=self._considered)
        watch(RunFact.FUSION_REFUSED, f"{_SCHEDULER}:WhyNoFuse.__call__", after=self._refused)
        self._unexplained.install()
        watch(RunFact.FUSION, f"{_SCHEDULER}:Scheduler.fuse_two_nodes", after=self._fused)
        watch(RunFact.FUSION, f"{_SCHEDULER}:Scheduler.codegen", before=self._fusion_ends)

    def _considered(self, _result: None, _why: Any, *nodes: Any) -> None:
        for node in nodes:
            self._record(node)

    def _record(self, node: Any) -> None:
        name = node.get_name()
        if name not in self._nodes:
            self._nodes[name] = tuple(part.get_name() for part in node.get_nodes())

    def _refused(self, _result: None, why: Any, *_: Any) -> None:
        self._unexplained.reason_given()
        self._add_refusal((why.name1, why.name2), Refusal(why.reason % why.args if why.args else why.reason))

    def _refused_without_reason(self, a: Any, b: Any, reason: str, by: str) -> None:
        self._record(a)
        self._record(b)
        self._add_refusal((a.get_name(), b.get_name()), Refusal(reason, by))

    def _add_refusal(self, pair: tuple[str, str], refusal: Refusal) -> None:
        self._refusals.pop(pair, None)
        self._refusals[pair] = refusal

    def _fused(self, fused: Any, _scheduler: Any, a: Any, b: Any, *_: Any) -> None:
        self._record(a)
        self._record(b)
        before, after = (bytes_moved(a), bytes_moved(b)), bytes_moved(fused)
        saved = None if after is None or None in before else sum(n for n in before if n is not None) - after
        reads = {dep.name for dep in b.read_writes.reads}
        produced = bool(reads & {dep.name for dep in a.read_writes.writes})
        self._fusions[a.get_name(), b.get_name()] = Fusion(
            "producer and consumer" if produced else "side by side", saved
        )

    def _fusion_ends(self, scheduler: Any) -> None:
        from torch._inductor.virtualized import V

        compiled = compilation(V.graph)
        for (a, b), fusion in self._fusions.items():
            self._emit(compiled, a, b, fusion=fusion)
        for (a, b), refusal in self._final_refusals(scheduler).items():
            self._emit(compiled, a, b, refusal=refusal)
        for decisions in (self._nodes, self._refusals, self._fusions):
            decisions.clear()

    def _final_refusals(self, scheduler: Any) -> dict[tuple[str, str], Refusal]:
        """Return the last refusal of each pair of final nodes, without pairs that ended up in one node."""
        final = {part.get_name(): node.get_name() for node in scheduler.nodes for part in node.get_nodes()}
        last: dict[frozenset[str], tuple[str, str]] = {}
        for a, b in self._refusals:
            ends = {final.get(self._nodes[name][0], name) for name in (a, b)}
            if len(ends) == 2:
                last[frozenset(ends)] = (a, b)
        return {pair: self._refusals[pair] for pair in last.values()}

    def _emit(
        self, compiled: Compilation, a: str, b: str, *, fusion: Fusion | None = None, refusal: Refusal | None = None
    ) -> None:
        self._hooks.emit(
            FusionDecision(
                graph=compiled.graph,
                phase=compiled.phase,
                a=a,
                b=b,
                fused=fusion is not None,
                reason=refusal.reason if refusal else "",
                a_nodes=self._nodes[a],
                b_nodes=self._nodes[b],
                kind=fusion.kind if fusion else "",
                bytes_saved=fusion.bytes_saved if fusion else None,
                refused_by=refusal.by if refusal else "",
            )
        )


def _scheduler_node(scheduler: Any, node: Any) -> SchedulerNode:
    name = node.get_name()
    # A weak dependency only orders nodes around a buffer that is overwritten later; nothing is read.
    reads = (dep for dep in node.read_writes.reads if type(dep).__name__ != "WeakDep")
    producers = (_producer(scheduler, dep.name) for dep in reads)
    return SchedulerNode(
        name=name,
        buffers=tuple(sorted(node.used_buffer_names())),
        dependencies=tuple(sorted({producer for producer in producers if producer not in ("", name)})),
    )


def _producer(scheduler: Any, buffer: str) -> str:
    """Return the scheduler node that computes a buffer, empty for an input of the graph."""
    known = scheduler.name_to_buf.get(buffer)
    return "" if known is None else str(known.defining_op_name())


def _install_schedule(hooks: Hooks) -> None:
    def fusion_ends(scheduler: Any) -> None:
        from torch._inductor import config
        from torch._inductor.virtualized import V

        graph, phase = compilation(V.graph)
        nodes = tuple(_scheduler_node(scheduler, part) for node in scheduler.nodes for part in node.get_nodes())
        attempts = getattr(config, "max_fusion_buffer_group_pairwise_attempts", None)
        hooks.emit(ScheduleMade(graph=graph, phase=phase, nodes=nodes, pairwise_attempts=attempts))

    hooks.watch("schedule", f"{_SCHEDULER}:Scheduler.codegen", before=fusion_ends)


def install(hooks: Hooks, trace: StructuredTrace, user_files: UserFiles) -> None:  # noqa: ARG001
    """Emit a `FusionDecision` for each pair that Inductor fused or refused to fuse, and the final `ScheduleMade`."""
    FusionDecisions(hooks).install()
    _install_schedule(hooks)
