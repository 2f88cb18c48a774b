"""The user's own kernels and ops are recognized in graph and code, live and for an absent GPU."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tcexplore.events import (
    CallsRestarted,
    CustomOpChecked,
    DeviceQueried,
    Event,
    FactMissing,
    Failed,
    Finished,
    FxNode,
    GraphCaptured,
    Kernel,
    KernelAssembled,
    KernelNotAssembled,
    TargetLowered,
    TimingSkipped,
    UserOp,
)
from tests.supervisor.runs import Runs, only
from tests.user_kernel_programs import CUSTOM, FLEX, STALE, TRITON

pytestmark = [pytest.mark.torch, pytest.mark.asyncio(loop_scope="session")]


def nodes_of_the_user(events: list[Event]) -> dict[str, FxNode]:
    nodes = (node for graph in only(events, GraphCaptured) for node in graph.all_nodes)
    return {node.user_op.name: node for node in nodes if node.user_op}


def since_restart(events: list[Event]) -> list[Event]:
    """Return the events of the calls that see the target's GPU; the ones before do not count."""
    (restarted,) = only(events, CallsRestarted)
    return events[events.index(restarted) :]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def triton_run(shared_runs: Runs) -> AsyncIterator[list[Event]]:
    yield await shared_runs.run(TRITON, backend="inductor", target="h100")


async def test_a_triton_kernel_is_interpreted_and_lowered_for_the_target(triton_run: list[Event]) -> None:
    assert isinstance(triton_run[-1], Finished), triton_run[-1]
    assert len(only(triton_run, GraphCaptured)) == 1
    assert [event.target for event in only(triton_run, TargetLowered)] == ["h100"]
    assert {k.target for k in only(triton_run, Kernel)} == {"h100"}
    missing = {event.fact: event.reason for event in only(triton_run, FactMissing)}
    assert "double_kernel" in missing["code of graph 0/0 for this machine"]
    assert not [fact for fact in missing if fact.startswith("results of")]
    assert [query.as_target for query in only(since_restart(triton_run), DeviceQueried)] == [True]
    (skipped,) = only(triton_run, TimingSkipped)
    assert "runs uncompiled" in skipped.reason


async def test_a_node_names_the_triton_kernel_or_op_with_its_definition(triton_run: list[Event]) -> None:
    nodes = nodes_of_the_user(triton_run)
    kinds = {name: node.user_op.kind for name, node in nodes.items() if node.user_op}
    assert kinds == {"double_kernel": "Triton kernel", "user_kernels.sine": "Triton op"}
    kernel, op = nodes["double_kernel"].user_op, nodes["user_kernels.sine"].user_op
    assert isinstance(kernel, UserOp)
    assert isinstance(op, UserOp)
    assert kernel.location is not None
    assert op.location is not None
    lines = TRITON.splitlines()
    assert lines[kernel.location.line - 1].startswith("@triton.autotune")
    assert lines[op.location.line - 1].startswith("@torch.library.triton_op")
    assert kernel.source.rstrip().splitlines()[-1] in TRITON
    args = nodes["double_kernel"].args
    assert "grid=" in args
    assert "x_ptr=" in args


async def test_statements_of_a_user_kernel_lead_to_its_lines_in_the_file(triton_run: list[Event]) -> None:
    kernels = {k.user_op.name: k for k in only(triton_run, Kernel) if k.user_op}
    assert kernels.keys() == {"double_kernel", "sine_kernel"}
    file = TRITON.splitlines()
    for kernel in kernels.values():
        source = kernel.source.splitlines()
        pairs = [(source[line.n - 1].strip(), file[line.source[0].line - 1].strip()) for line in kernel.lines]
        assert len(pairs) >= 3
        assert all(written == own for written, own in pairs[1:])
        assert any("tl.store" in own for _, own in pairs)
    (call,) = kernels["double_kernel"].source_lines
    assert file[call.line - 1].strip().startswith("double_kernel[")
    assert not only(triton_run, KernelNotAssembled)
    assembled = {event.kernel: event for event in only(triton_run, KernelAssembled)}
    assert {stage.name for stage in assembled[kernels["double_kernel"].name].stages} >= {"ptx", "sass"}


async def test_without_a_target_the_failure_names_the_option_that_helps(runs: Runs) -> None:
    failed = await runs.failure(TRITON.replace("    assert x.is_cuda\n", ""), backend="inductor")
    assert isinstance(failed, Failed)
    assert "--target h100" in failed.hint


async def test_a_custom_op_is_recognized_in_graph_and_code(runs: Runs) -> None:
    events = await runs.run(CUSTOM, backend="inductor", threads=1)
    assert isinstance(events[-1], Finished), events[-1]
    op = nodes_of_the_user(events)["user_kernels.halve"].user_op
    assert op is not None
    assert (op.kind, op.location and op.location.line) == ("custom op", 3)
    (kernel,) = (k for k in only(events, Kernel) if k.user_op)
    assert kernel.user_op == op
    assert kernel.language == "extern"


async def test_flex_attention_that_the_cpu_cannot_compile_is_lowered_for_the_target(runs: Runs) -> None:
    events = await runs.run(FLEX, backend="inductor", target="h100")
    assert isinstance(events[-1], Finished), events[-1]
    assert nodes_of_the_user(events).keys() == {"flex_attention"}
    (kernel,) = (k for k in only(events, Kernel) if k.user_op and k.target == "h100")
    assert kernel.user_op is not None
    assert (kernel.language, kernel.user_op.kind) == ("triton", "FlexAttention")


async def test_a_stale_fake_implementation_is_named_with_its_line(runs: Runs) -> None:
    events = await runs.run(STALE, backend="inductor", opcheck=True, threads=1)
    assert nodes_of_the_user(events).keys() == {"user_kernels.pooled"}, "the graph breaks at the other op"
    checks = {(check.op, check.test): check for check in only(events, CustomOpChecked)}
    stale = checks["user_kernels.pooled", "fake implementation"]
    assert not stale.passed
    assert "f64[8]" in stale.reason
    assert "f32[8]" in stale.reason
    assert stale.location is not None
    assert stale.location.line == 1 + STALE.splitlines().index("@pooled.register_fake")
    assert checks["user_kernels.kept", "fake implementation"].passed, "its size depends on data"
    assert checks["user_kernels.pooled", "test_schema"].passed
    assert not checks["user_kernels.pooled", "test_faketensor"].passed
