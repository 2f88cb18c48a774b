"""Collectives of a run: their order, and the kernels that overlap with them in generated code."""

from __future__ import annotations

from tcexplore import events as ev
from tcexplore.documents.ranks_view import collective_rows
from tcexplore.session.communication import collective_calls, starts_of
from tcexplore.session.snapshot import start_snapshot

MODULE = """\
cpp_fused_add_0 = async_compile.cpp_pybinding(['const float*'], '''
    torch.ops._c10d_functional.all_reduce_.default(a)
''')

class Runner:
    def call(self, args):
        buf0 = empty_strided_cpu((4, ), (1, ), torch.float32)
        # Topologically Sorted Source Nodes: [t], Original ATen: [_c10d_functional.all_gather_into_tensor]
        buf1 = torch.ops._c10d_functional.all_gather_into_tensor.default(arg0_1, 2, '0')
        assert_size_stride(buf1, (8, ), (1, ), 'torch.ops._c10d_functional.all_gather_into_tensor.default')
        cpp_fused_add_0(arg0_1, buf0)
        torch.ops._c10d_functional.all_reduce_.default(buf0, 'sum', '0')
        extern_kernels.mm(arg1_1, arg2_1, out=buf5)
        buf2 = buf1; del buf1  # reuse
        torch.ops._c10d_functional.wait_tensor.default(buf2)
        torch.ops._c10d_functional.wait_tensor.default(buf0)
        triton_poi_fused_1.run(buf0, buf2, 8, stream=stream0)
        torch.ops._c10d_functional.reduce_scatter_tensor.default(buf2, 'sum', 2, '3')
        return (buf0, )

def benchmark_compiled_module(args):
    torch.ops._c10d_functional.all_reduce_.default(buf0, 'sum', '0')
"""


def test_kernels_between_a_start_and_its_wait_overlap():
    starts = starts_of(MODULE)
    assert [start.op for start in starts] == ["all_gather_into_tensor", "all_reduce_", "reduce_scatter_tensor"]
    assert [start.overlapping_kernels for start in starts] == [
        ("cpp_fused_add_0", "extern_kernels.mm"), ("extern_kernels.mm",), None,
    ]  # fmt: skip
    assert [start.wait for start in starts] == [0, 1, None]


def node(name: str, target: str, args: str) -> ev.FxNode:
    at = ev.Location("/me/train.py", 7, "step")
    return ev.FxNode(
        name=name, op="call_function", target=f"_c10d_functional.{target}.default", args=args, dtype="f32",
        shape=("4",), location=at,
    )  # fmt: skip


def test_collectives_have_torchs_estimates_if_there_are_any():
    nodes = (
        node("a", "all_gather_into_tensor", "x, 2, '0'"), node("b", "all_reduce", "y, 'sum', '0'"),
        node("w", "wait_tensor", "a"), node("c", "reduce_scatter_tensor", "a, 'sum', 2, '3'"),
    )  # fmt: skip
    run = start_snapshot(ev.Job(run=1, file="/me/train.py", source=""))
    run = run.apply(ev.AtenGraph(run=1, graph="0/0", stage="post_grad", phase="forward", nodes=nodes, code=""))
    run = run.apply(ev.Wrapper(run=1, graph="0/0", phase="forward", source=MODULE))
    calls = list(collective_calls(run))
    assert [(call.op, call.group, call.estimate_us) for call in calls] == [
        ("all_gather_into_tensor", "0", None), ("all_reduce", "0", None), ("reduce_scatter_tensor", "3", None),
    ]  # fmt: skip

    wait = "torch.ops._c10d_functional.wait_tensor.default"
    names = ["gather", "add", "reduce", "mm", wait, wait, "triton", "scatter"]
    times = [50.0, 10.0, 15.0, 20.0, 0.0, 0.0, 5.0, 8.0]
    ops = tuple(
        ev.OpEstimate(name, us, name in ("gather", "reduce", "scatter")) for name, us in zip(names, times, strict=True)
    )
    run = run.apply(ev.OpEstimates(run=1, graph="0/0", ops=ops))
    calls = list(collective_calls(run))
    assert [(call.estimate_us, call.exposed_us) for call in calls] == [(50.0, 20.0), (15.0, 0.0), (8.0, 8.0)]
    text = "\n".join(row.text for row in collective_rows(run))
    assert "torch's estimate: 73.0 µs, 28.0 µs of it exposed" in text
    assert "2 kernels, estimate 50.0 µs, 20.0 µs exposed" in text


def test_code_with_other_collectives_than_the_graph_is_not_matched():
    run = start_snapshot(ev.Job(run=1, file="/me/train.py", source=""))
    nodes = (node("a", "all_reduce", "x, 'sum', '0'"),)
    run = run.apply(ev.AtenGraph(run=1, graph="0/0", stage="post_grad", phase="forward", nodes=nodes, code=""))
    run = run.apply(ev.Wrapper(run=1, graph="0/0", phase="forward", source=MODULE))
    assert [call.overlapping_kernels for call in collective_calls(run)] == [None]
