"""Runs of the perceptron, each a snapshot built from events."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tcexplore.events import (
    Config,
    EntryFound,
    Event,
    FactMissing,
    Failed,
    Finished,
    Location,
    ModulesImported,
    Output,
    PhaseStarted,
    TimingSkipped,
)
from tcexplore.session import Snapshot
from tests.snapshots import mlp_dynamo, mlp_graphs, mlp_kernels, mlp_timing
from tests.snapshots.mlp_source import FILE, FOLDER, SOURCE, at, without_break

ENTRY = EntryFound(
    name="model",
    kind="module",
    rule="module-level `model` and `inputs`",
    calls=(("f32[64, 512]",),),
    location=at("model = MLP()", ""),
)


def grow(run: int, events: Iterable[Event], source: str = SOURCE, config: Config | None = None) -> Snapshot:
    """Return the snapshot of a run with these events, which get the number of the run."""
    snapshot = Snapshot(run=run, file=FILE, source=source, config=config or Config())
    for event in events:
        snapshot = snapshot.apply(_stamped(event, run))
    return snapshot


def _stamped(event: Event, run: int) -> Event:
    object.__setattr__(event, "run", run)
    return event


def complete(run: int = 7, *, timed: bool = True, lines: bool = True, triton: bool = False) -> Snapshot:
    """Return a run with two graphs, a break, four kernels, guards, output, and continuing timing."""
    measured = (mlp_timing.ACCURACY, mlp_timing.MEMORY, mlp_timing.control(), mlp_timing.pairs(), mlp_timing.estimate())
    timing = (*mlp_timing.CALLS, *measured) if timed else ()
    return grow(run, (*_compiled(lines=lines, triton=triton), PhaseStarted(phase="timing", at=2.4), *timing))


def _compiled(*, lines: bool = True, triton: bool = False) -> tuple[Event, ...]:
    return (
        PhaseStarted(phase="importing", at=0.0), ModulesImported(files=(f"{FOLDER}/samples/layers.py",)), ENTRY,
        PhaseStarted(phase="dynamo", graph="0/0", at=0.3), mlp_dynamo.BREAK, mlp_graphs.first_graph(),
        PhaseStarted(phase="inductor", graph="0/0", at=0.5), mlp_graphs.post_grad()[0],
        *mlp_kernels.kernels(lines=lines, triton=triton)[:2], mlp_kernels.wrappers()[0], mlp_dynamo.guards(),
        Output(stream="stdout", text="mean tensor(0.3383)\n"), mlp_dynamo.SKIPPED,
        mlp_graphs.second_graph(), mlp_graphs.post_grad()[1], *mlp_kernels.kernels(lines=lines, triton=triton)[2:],
        mlp_kernels.wrappers()[1], mlp_dynamo.guards("1/0"), *mlp_timing.PHASES, mlp_dynamo.PROFILE,
        Output(stream="stderr", text="UserWarning: lr_scheduler[0] was [/b] not stepped\n"),
    )  # fmt: skip


def two_files(run: int = 3) -> Snapshot:
    """Return a run with two nodes and a guard from another local module, and a non-contiguous tensor."""
    layers = f"{FOLDER}/samples/layers.py"
    graph = mlp_graphs.first_graph()
    moved = {"layer_norm": Location(layers, 12, "forward"), "h_1": Location(layers, 14, "forward")}
    nodes = (
        replace(node, location=moved[node.name], stack=(*node.stack, moved[node.name])) if node.name in moved else node
        for node in graph.nodes
    )
    turned = (replace(node, contiguous=False, stride=("1", "64")) if node.name == "h_2" else node for node in nodes)
    guard = replace(mlp_dynamo.guards().guards[1], location=moved["layer_norm"], user_code="return self.norm(x)")
    guards = replace(mlp_dynamo.guards(), guards=(guard,))
    return grow(run, (ENTRY, replace(graph, nodes=tuple(turned)), guards, Finished()))


def one_graph(run: int = 8) -> Snapshot:
    """Return a run without a break: one graph, with a higher speedup."""
    first, gemm = mlp_graphs.first_graph(), mlp_kernels.kernels()[:2]
    timing = (*mlp_timing.CALLS, mlp_timing.pairs(compiled=254), mlp_timing.estimate(speedup=1.62))
    events = (ENTRY, first, mlp_graphs.post_grad()[0], *gemm, mlp_kernels.wrappers()[0], mlp_dynamo.guards(),
              PhaseStarted(phase="timing", at=1.1), *timing, Finished())  # fmt: skip
    return grow(run, events, without_break())


def recompiled(run: int = 9) -> Snapshot:
    """Return a run that recompiles for half the batch, with a dynamic batch size."""
    again = (mlp_dynamo.RECOMPILE, mlp_graphs.first_graph("0/1"), mlp_dynamo.guards("0/1", batch="s77"))
    return grow(run, (*_compiled(), *again, TimingSkipped(reason="--json without timing"), Finished()))


def running(run: int = 8) -> Snapshot:
    """Return a run that has just started: Dynamo is running, and there is no result yet."""
    return grow(run, (PhaseStarted(phase="importing", at=0.0), PhaseStarted(phase="dynamo", graph="0/0", at=0.4)))


def failed(run: int = 4) -> Snapshot:
    """Return a run that failed with an exception of user code."""
    error = Failed(
        stage="eager", blame="user", type="RuntimeError", location=at("self.fc1(x)"),
        message="mat1 and mat2 shapes cannot be multiplied (64x500 and 512x1024)",
        hint="the module takes 512 features: check `inputs` on line 30",
        traceback='Traceback (most recent call last):\n  File "samples/mlp.py", line 22, in forward\n'
        "    h = self.fc1(x)\n"
        "RuntimeError: mat1 and mat2 shapes cannot be multiplied (64x500 and 512x1024)\n",
    )  # fmt: skip
    return grow(run, (ENTRY, PhaseStarted(phase="eager", at=0.2), Output(stream="stdout", text="before\n"), error))


def nothing_compiled(run: int = 5) -> Snapshot:
    """Return a run in which every frame was skipped and nothing was compiled."""
    return grow(run, (ENTRY, mlp_dynamo.SKIPPED, TimingSkipped(reason="nothing was compiled"), Finished()))


def facts_missing(run: int = 6) -> Snapshot:
    """Return a run with a torch that lacks two of the hooked functions."""
    missing = (
        FactMissing(fact="kernel lines", symbol="torch._inductor.codegen.common.CSE.generate", reason="no such name"),
        FactMissing(
            fact="guard latency", symbol="torch._C._dynamo.guards.profile_guard_manager", reason="no such name"
        ),
    )
    return grow(run, (*_compiled(lines=False), *missing, PhaseStarted(phase="timing", at=2.0)))
