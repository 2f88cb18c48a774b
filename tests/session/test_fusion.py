"""Fused and unfused kernels, from fake scheduler decisions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tcexplore.documents.code.fusion_view import first_reason, fusion_reasons_document
from tcexplore.events import Config, FusionDecision, Kernel, KernelCall, KernelLine, ScheduleMade, SchedulerNode
from tcexplore.session import Snapshot
from tcexplore.session.code import Code
from tcexplore.session.fused_kernels import Fusions, not_fused
from tcexplore.targets.target_names import NATIVE
from tests.documents.golden import text as shown
from tests.snapshots.codes import with_code


def kernel(name: str, *nodes: str, **more: Any) -> Kernel:
    fields: dict[str, Any] = {"graph": "0/0", "phase": "forward", "language": "cpp", "source": "", **more}
    return Kernel(name=name, scheduler_nodes=nodes, **fields)


def decision(a: str, b: str, reason: str = "", graph: str = "0/0") -> FusionDecision:
    """Return a decision; `op0_op1` is the scheduler's name of a node fused from two."""
    return FusionDecision(graph=graph, phase="forward", a=a, b=b, fused=not reason, reason=reason,
                          a_nodes=tuple(a.split("_")), b_nodes=tuple(b.split("_")))  # fmt: skip


FIRST = kernel("k0", "op0", "op1", "op2", "op7", fusion="outer loop", ops=("aten.native_layer_norm", "aten.add"))
SECOND = kernel("k1", "op4", "op5", fusion="pointwise")
GEMM = kernel("addmm", "op3", language="extern")
RUN = Snapshot(
    run=1,
    file="/m.py",
    source="",
    config=Config(),
    codes=(
        Code(
            target=NATIVE,
            kernels=(FIRST, GEMM, SECOND),
            fusion=(
                decision("op1", "op2"),
                decision("op0", "op1_op2"),
                decision("op0_op1_op2", "op4", "intermediate nodes between node1 & node2"),
                decision("op7", "op5", "no shared data"),
                decision("op0", "op4", "of another graph", graph="1/0"),
            ),
        ),
    ),
)


def test_nodes_that_only_share_a_function_are_not_fused():
    answer = Fusions(RUN).fused(FIRST)
    assert answer.groups == (("op0", "op1", "op2"), ("op7",))
    assert [step.b for step in answer.steps] == ["op2", "op1_op2"]
    assert answer.kinds == ("outer loop", "normalization")
    assert Fusions(RUN).fused(SECOND).kinds == (), "two nodes in one function without a fusion"
    assert Fusions(RUN).fused(SECOND).groups == (("op4",), ("op5",))


def test_an_extern_kernel_has_the_kind_extern():
    assert Fusions(RUN).fused(GEMM).kinds == ("extern",)


def test_a_template_needs_no_fusion_step():
    assert Fusions(RUN).fused(kernel("t", "op9", fusion="template")).kinds == ("template",)


def test_two_kernels_can_be_compared_in_either_order():
    for answer in (not_fused(RUN, FIRST, SECOND), not_fused(RUN, SECOND, FIRST)):
        assert [d.reason for d in answer.refusals] == ["intermediate nodes between node1 & node2"]
        assert answer.unrelated == 1
        assert answer.separated_by == ""


def test_kernels_that_the_scheduler_never_compares_are_separated():
    assert not_fused(RUN, FIRST, GEMM).separated_by == "extern"
    elsewhere = replace(SECOND, graph="1/0")
    assert not_fused(RUN, FIRST, elsewhere).separated_by == "graph"
    assert not_fused(RUN, FIRST, elsewhere).refusals == ()
    assert not_fused(RUN, FIRST, replace(SECOND, phase="backward")).separated_by == "phase"


def test_neighbors_are_generated_kernels_of_one_graph():
    assert [(answer.a.name, answer.b.name) for answer in Fusions(RUN).neighbors()] == [("k0", "k1")]
    apart = with_code(RUN, kernels=(FIRST, replace(SECOND, graph="1/0")))
    assert Fusions(apart).neighbors() == ()


def test_more_ops_than_scheduler_nodes_were_inlined():
    one = kernel("k", "op0", lines=(KernelLine(n=1, nodes=("mul",)), KernelLine(n=2, nodes=("mul", "add"))))
    assert Fusions(RUN).fused(one).inlined
    assert not Fusions(RUN).fused(kernel("k", "op0", lines=(KernelLine(n=1, nodes=("mul",)),))).inlined
    assert not Fusions(RUN).fused(FIRST).inlined, "unknown without statements"


def schedule(**nodes: tuple[str, str]) -> ScheduleMade:
    """Return a schedule from the buffers and dependencies of each node by name."""
    made = (
        SchedulerNode(name=n, buffers=tuple(b.split()), dependencies=tuple(d.split())) for n, (b, d) in nodes.items()
    )
    return ScheduleMade(graph="0/0", phase="forward", nodes=tuple(made), pairwise_attempts=64)


THIRD = kernel("k2", "op6")
WITH_SCHEDULE = with_code(RUN, kernels=(FIRST, GEMM, SECOND, THIRD), schedules=(
        schedule(
            op0=("x b0", ""), op1=("b0 b1", "op0"), op2=("b1 b2", "op1"), op7=("x b7", ""), op3=("b2 b3", "op2"),
            op4=("b3 b4", "op3"), op5=("b4 b5", "op4"), op6=("b7 b6", "op7"),
        ),
    ))  # fmt: skip


def test_kernels_between_two_kernels_are_named():
    relation = not_fused(WITH_SCHEDULE, FIRST, SECOND).relation
    assert relation is not None
    assert (relation.buffers, relation.depends, relation.reversed) == ((), True, False)
    assert (relation.nodes, relation.between) == (("op3",), (GEMM,))
    turned = not_fused(WITH_SCHEDULE, SECOND, FIRST).relation
    assert turned is not None
    assert (turned.reversed, turned.between) == (True, (GEMM,))


def test_the_kernel_in_between_is_named_although_the_second_one_also_needs_the_first_directly():
    """As in a residual block: its sum reads what the block reads, and what the block computes."""
    made = schedule(op0=("x b0", ""), op1=("b0 b1", "op0"), op3=("b1 b3", "op1"), op4=("b1 b3 b4", "op1 op3"))
    first, second = kernel("k0", "op0", "op1"), kernel("k1", "op4")
    refused = (decision("op1", "op4", "intermediate nodes between node1 & node2"),)
    run = with_code(RUN, kernels=(first, GEMM, second), schedules=(made,), fusion=refused)
    relation = not_fused(run, first, second).relation
    assert relation is not None
    assert (relation.nodes, relation.between, relation.directly) == (("op3",), (GEMM,), True)
    assert first_reason(run, first, second) == "E1 runs in between"
    text = shown(fusion_reasons_document(run, first, second, 100))
    assert "The second one needs the result of the first one, directly and through" in text
    other = not_fused(replace(run, codes=(replace(run.code, fusion=()),)), first, second).relation
    assert other is not None
    assert (other.nodes, other.directly) == ((), True), "torch did not refuse them for what is in between"


def test_the_kernels_before_the_first_call_of_a_repeated_kernel_are_named():
    calls = (KernelCall(order=2, scheduler_nodes=("op4", "op5")), KernelCall(order=4, scheduler_nodes=("op8",)))
    repeated = replace(SECOND, scheduler_nodes=("op4", "op5", "op8"), calls=calls)
    made = schedule(
        op0=("x b0", ""), op1=("b0 b1", "op0"), op2=("b1 b2", "op1"), op3=("b2 b3", "op2"), op4=("b3 b4", "op3"),
        op5=("b4 b5", "op4"), op7=("x b7", ""), op8=("b2 b8", "op2"),
    )  # fmt: skip
    relation = not_fused(with_code(RUN, kernels=(FIRST, GEMM, repeated), schedules=(made,)), FIRST, repeated).relation
    assert relation is not None
    assert relation.between == (GEMM,)


def test_the_kernels_of_equal_layers_are_compared_within_a_layer():
    """The first kernel of the second layer needs the second kernel of the first one: that is no reason."""

    def layers(name: str, *nodes: str, order: int) -> Kernel:
        calls = tuple(KernelCall(order=order + 10 * n, scheduler_nodes=(node,)) for n, node in enumerate(nodes))
        return replace(kernel(name, *nodes), calls=calls)

    first, second = layers("q", "op0", "op3", order=0), layers("k", "op1", "op4", order=1)
    made = schedule(
        op0=("x b0", ""), op1=("x b1", ""), op2=("b0 b1 b2", "op0 op1"), op3=("b2 b3", "op2"), op4=("b2 b4", "op2")
    )
    decisions = (decision("op0", "op1", "in another order"), decision("op1", "op3", "intermediate nodes"))
    run = with_code(RUN, kernels=(first, second, kernel("sdpa", "op2")), schedules=(made,), fusion=decisions)
    answer = not_fused(run, first, second)
    assert [one.reason for one in answer.refusals] == ["in another order"]
    assert answer.relation is not None
    assert (answer.relation.buffers, answer.relation.depends, answer.relation.reversed) == (("x",), False, False)


def test_shared_buffers_are_named_with_the_pairwise_attempts():
    answer = not_fused(WITH_SCHEDULE, FIRST, THIRD)
    assert answer.relation is not None
    assert (answer.relation.buffers, answer.relation.depends, answer.relation.nodes) == (("b7",), True, ())
    assert answer.pairwise_attempts == 64
    alone = not_fused(WITH_SCHEDULE, SECOND, THIRD).relation
    assert alone is not None
    assert (alone.buffers, alone.depends) == ((), False)


def test_unknown_nodes_have_no_relation():
    assert not_fused(RUN, FIRST, SECOND).relation is None
    assert (
        not_fused(with_code(WITH_SCHEDULE, kernels=(FIRST, kernel("k9", "op99"))), FIRST, kernel("k9", "op99")).relation
        is None
    )


def test_no_shared_data_is_a_real_refusal_if_both_nodes_use_a_buffer():
    other = with_code(
        WITH_SCHEDULE, fusion=(decision("op7", "op6", "no shared data"), decision("op5", "op6", "no shared data"))
    )
    assert [d.a for d in not_fused(other, FIRST, THIRD).refusals] == ["op7"]
    assert not_fused(other, SECOND, THIRD).unrelated == 1


def test_the_kernels_that_run_in_between_are_named():
    assert first_reason(WITH_SCHEDULE, FIRST, SECOND) == "E1 runs in between"
    text = shown(fusion_reasons_document(WITH_SCHEDULE, FIRST, SECOND, 100))
    assert "The second one needs the result of the first one, through" in text
    no_kernel = with_code(WITH_SCHEDULE, kernels=(FIRST, SECOND, THIRD))
    assert first_reason(no_kernel, FIRST, SECOND) == "op3, without a kernel, is in between"
    assert first_reason(RUN, FIRST, SECOND).startswith("another node runs in between"), "nothing more is known"
