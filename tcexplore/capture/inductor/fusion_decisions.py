"""Which scheduler nodes Inductor fused, and why it did not fuse others, from its own decision objects."""

from __future__ import annotations

from typing import Any, NamedTuple

from tcexplore.capture.hooks import Hooks
from tcexplore.capture.inductor import scheduler_nodes as schedule
from tcexplore.capture.inductor.kernel_schedule import bytes_moved
from tcexplore.capture.inductor.lowering_graph import Compilation, compilation
from tcexplore.capture.inductor.unexplained_fusions import UnsaidRefusals
from tcexplore.capture.structured_trace import StructuredTrace
from tcexplore.capture.user_files import UserFiles
from tcexplore.events import FusionDecision


class FusedNodes(NamedTuple):
    """Two scheduler nodes that became one."""

    kind: str
    bytes_saved: int | None


class Refused(NamedTuple):
    """Why two scheduler nodes stayed apart; `by` is empty where the reason is torch's own."""

    reason: str
    by: str = ""


class FusionDecisions:
    """Gathers the decisions of one scheduler; a pair is tried in several rounds, and the last word counts."""

    def __init__(self, hooks: Hooks) -> None:
        self._hooks = hooks
        self._nodes: dict[str, tuple[str, ...]] = {}
        self._refused: dict[tuple[str, str], Refused] = {}
        self._fused: dict[tuple[str, str], FusedNodes] = {}
        self._unsaid = UnsaidRefusals(hooks, self._silently)

    def install(self) -> None:
        """Watch reasons being given and pairs being fused; say it all when fusion is over."""
        scheduler = "torch._inductor.scheduler"
        watch = self._hooks.watch
        watch("fusion refused", f"{scheduler}:WhyNoFuse.__init__", after=self._considered)
        watch("fusion refused", f"{scheduler}:WhyNoFuse.__call__", after=self._refusing)
        self._unsaid.install()
        watch("fusion", f"{scheduler}:Scheduler.fuse_two_nodes", after=self._fusing)
        watch("fusion", f"{scheduler}:Scheduler.codegen", before=self._over)

    def _considered(self, _result: None, _why: Any, *nodes: Any) -> None:
        for node in nodes:
            self._note(node)

    def _note(self, node: Any) -> None:
        name = node.get_name()
        if name not in self._nodes:
            self._nodes[name] = tuple(part.get_name() for part in node.get_nodes())

    def _refusing(self, _result: None, why: Any, *_: Any) -> None:
        self._unsaid.said()
        self._last((why.name1, why.name2), Refused(why.reason % why.args if why.args else why.reason))

    def _silently(self, a: Any, b: Any, reason: str, by: str) -> None:
        self._note(a)
        self._note(b)
        self._last((a.get_name(), b.get_name()), Refused(reason, by))

    def _last(self, pair: tuple[str, str], refused: Refused) -> None:
        self._refused.pop(pair, None)
        self._refused[pair] = refused

    def _fusing(self, fused: Any, _scheduler: Any, a: Any, b: Any, *_: Any) -> None:
        self._note(a)
        self._note(b)
        before, after = (bytes_moved(a), bytes_moved(b)), bytes_moved(fused)
        saved = None if after is None or None in before else sum(n for n in before if n is not None) - after
        reads = {dep.name for dep in b.read_writes.reads}
        produced = bool(reads & {dep.name for dep in a.read_writes.writes})
        self._fused[a.get_name(), b.get_name()] = FusedNodes(
            "producer and consumer" if produced else "side by side", saved
        )

    def _over(self, scheduler: Any) -> None:
        from torch._inductor.virtualized import V

        of = compilation(V.graph)
        for (a, b), fused in self._fused.items():
            self._emit(of, a, b, fused=fused)
        for (a, b), refused in self._standing(scheduler).items():
            self._emit(of, a, b, refused=refused)
        for gathered in (self._nodes, self._refused, self._fused):
            gathered.clear()

    def _standing(self, scheduler: Any) -> dict[tuple[str, str], Refused]:
        """The last refusal for each two nodes that stayed apart: not those of pairs that came together another way."""
        final = {part.get_name(): node.get_name() for node in scheduler.nodes for part in node.get_nodes()}
        last: dict[frozenset[str], tuple[str, str]] = {}
        for a, b in self._refused:
            ends = {final.get(self._nodes[name][0], name) for name in (a, b)}
            if len(ends) == 2:
                last[frozenset(ends)] = (a, b)
        return {pair: self._refused[pair] for pair in last.values()}

    def _emit(
        self, of: Compilation, a: str, b: str, *, fused: FusedNodes | None = None, refused: Refused | None = None
    ) -> None:
        self._hooks.emit(
            FusionDecision(
                graph=of.graph,
                phase=of.phase,
                a=a,
                b=b,
                fused=fused is not None,
                reason=refused.reason if refused else "",
                a_nodes=self._nodes[a],
                b_nodes=self._nodes[b],
                kind=fused.kind if fused else "",
                bytes_saved=fused.bytes_saved if fused else None,
                refused_by=refused.by if refused else "",
            )
        )


def install(hooks: Hooks, trace: StructuredTrace, project: UserFiles) -> None:  # noqa: ARG001
    """Emit a `FusionDecision` for each pair that Inductor fused, and for each that it considered and left apart."""
    FusionDecisions(hooks).install()
    schedule.install(hooks)
