"""Inductor's schedule, the fused scheduler nodes, and the reasons for refused fusions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from tcexplore.capture.hooks import Hooks
from tcexplore.capture.inductor.aten_graphs import Compilation, compilation
from tcexplore.capture.inductor.kernel_schedule import bytes_moved
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
    # Both observe the same call, the one installed last first: the schedule follows the decisions.
    _install_schedule(hooks)
    FusionDecisions(hooks).install()


_CPP = "torch._inductor.codegen.cpp:CppScheduling"

RefusalObserver = Callable[[Any, Any, str, str], None]
"""Called with the two nodes, the reason, and the method that refused them."""


@dataclass(slots=True)
class _Attempt:
    """One call of `Scheduler.can_fuse`."""

    explained: bool = False
    """Whether torch gave a reason."""
    by: str = ""
    """The backend's method that refused the pair."""
    reason: str = ""


class UnexplainedRefusals:
    """Observer of the scheduler that reports each pair refused without a reason."""

    def __init__(self, hooks: Hooks, refused: RefusalObserver) -> None:
        self._hooks = hooks
        self._refused = refused
        self._attempts: list[_Attempt] = []

    def install(self) -> None:
        """Watch the scheduler's calls and the backend's answers."""
        watch, fact = self._hooks.watch, RunFact.FUSION_REFUSED
        watch(fact, f"{_SCHEDULER}:Scheduler.can_fuse", before=self._begins, after=self._ends, failed=self._failed)
        watch(fact, f"{_SCHEDULER}:Scheduler.speedup_by_fusion", after=self._benchmarked)
        watch(fact, f"{_CPP}.can_fuse_vertical", after=self._vertical)
        watch(fact, f"{_CPP}.can_fuse_horizontal", after=self._horizontal)

    def reason_given(self) -> None:
        """Mark the innermost attempt as explained by torch."""
        if self._attempts:
            self._attempts[-1].explained = True

    def _begins(self, *_: Any, **__: Any) -> None:
        self._attempts.append(_Attempt())

    def _failed(self, *_: Any, **__: Any) -> None:
        self._attempts.pop()

    def _ends(self, fuse: bool, _scheduler: Any, a: Any, b: Any, *_: Any, **__: Any) -> None:
        attempt = self._attempts.pop()
        if not fuse and not attempt.explained and a is not b:
            classes = f"{type(a).__name__}, {type(b).__name__}"
            self._refused(a, b, attempt.reason or classes, attempt.by or "Scheduler.can_fuse")

    def _benchmarked(self, result: Any, _scheduler: Any, a: Any, b: Any) -> None:
        """Report a pair without speedup; a result with `callable_fn` is not decided yet."""
        if getattr(result, "callable_fn", None) is None and not getattr(result, "should_fuse", result):
            self._refused(a, b, "no speedup expected", "Scheduler.speedup_by_fusion")

    def _vertical(self, fuse: bool, _backend: Any, a: Any, b: Any) -> None:
        if not fuse:
            self._refuse(
                "CppScheduling.can_fuse_vertical", _template(a, b) or f"no loop in common: {_loops(a)}, {_loops(b)}"
            )

    def _horizontal(self, fuse: bool, _backend: Any, a: Any, b: Any) -> None:
        if not fuse:
            reason = _template(a, b) or _too_many(a, b) or _outer_loop(a, b)
            reason = reason or f"loops of different ranges: {_loops(a)}, {_loops(b)}"
            self._refuse("CppScheduling.can_fuse_horizontal", reason)

    def _refuse(self, by: str, reason: str) -> None:
        if self._attempts:
            self._attempts[-1].by, self._attempts[-1].reason = by, reason


def _loops(node: Any) -> str:
    """Return the ranges of a node's loops and reductions.

    An outer-loop fusion has those of its parts, and the number of loops that they share.
    """
    depth = getattr(node, "outer_loop_fusion_depth", None)
    if depth is not None:
        parts = dict.fromkeys(map(_loops, node.get_outer_nodes()))
        return f"{' then '.join(parts)} in {depth} common loop{'s' if depth != 1 else ''}"
    _, (ranges, reduced) = node.group
    over = f" reducing {_sizes(reduced)}" if reduced else ""
    return f"{_sizes(ranges)}{over}"


def _sizes(ranges: Any) -> str:
    return f"[{' × '.join(map(str, ranges))}]"


def _template(a: Any, b: Any) -> str:
    if a.is_template():
        return "the C++ template does not support this epilogue"
    return "no prologue fusion into C++ templates" if b.is_template() else ""


def _too_many(a: Any, b: Any) -> str:
    from torch._inductor import config

    together, most = len(a.get_nodes()) + len(b.get_nodes()), config.cpp.max_horizontal_fusion_size
    return f"{together} nodes, at most {most} per horizontal fusion" if together > most else ""


def _outer_loop(a: Any, b: Any) -> str:
    parts = [node for node in (a, b) if hasattr(node, "outer_loop_fusion_depth")]
    return "outer-loop fusions are not fused horizontally" if parts else ""
