"""Links between lines, nodes and kernels, in both directions."""

from __future__ import annotations

from tcexplore import events as ev
from tcexplore.session import Snapshot
from tcexplore.session.code import Code
from tcexplore.session.links import aten_link, break_link, closure, guard_link, kernel_link, line_link, node_link
from tcexplore.targets.target_names import NATIVE
from tests.work import calls_in


def at(line: int) -> ev.Location:
    return ev.Location("/m.py", line)


def node(name: str, line: int | None = None, origins: tuple[str, ...] = (), caller: int | None = None) -> ev.FxNode:
    place = at(line) if line else None
    stack = tuple(at(n) for n in (caller, line) if n)
    return ev.FxNode(name=name, op="call_function", target=name, location=place, stack=stack, origins=origins)


FUSED = ev.Kernel(graph="0/0", phase="forward", name="cpp_fused", language="cpp", source="", nodes=("a1", "a2"))
GEMM = ev.Kernel(graph="0/0", phase="forward", name="addmm", language="extern", source="", nodes=("a0",))
BREAK = ev.GraphBreak(graph="0/0", registry_id=None, kind="print", reason="", location=at(3))
GUARD = ev.Guard(kind="EQUALS_MATCH", source="self.eps", location=at(2))
RUN = Snapshot(
    run=1,
    file="/m.py",
    source="",
    config=ev.Config(),
    graphs=(
        ev.GraphCaptured(graph="0/0", ops=3, code="", nodes=(node("n0", 1), node("n1", 2, caller=9), node("n2", 3))),
    ),
    breaks=(BREAK,),
    guards=(ev.GuardsInstalled(graph="0/0", guards=(GUARD,)),),
    codes=(
        Code(
            target=NATIVE,
            aten_graphs=(
                ev.AtenGraph(
                    graph="0/0",
                    stage="post_grad",
                    phase="forward",
                    nodes=(node("a0", origins=("n0",)), node("a1", origins=("n1",)), node("a2", origins=("n2",))),
                ),
            ),
            kernels=(GEMM, FUSED),
        ),
    ),
)


def test_a_line_links_to_its_kernel_but_not_to_the_other_ops_of_the_kernel():
    chain = closure(RUN, [line_link(at(2))])
    assert {node_link("0/0", "n1"), aten_link("0/0", "forward", "a1"), kernel_link(FUSED)} <= chain
    assert guard_link("0/0", GUARD) in chain
    assert not {node_link("0/0", "n2"), line_link(at(3)), kernel_link(GEMM)} & chain


def test_a_kernel_links_to_all_its_lines_but_not_to_other_kernels():
    chain = closure(RUN, [kernel_link(FUSED)])
    assert {line_link(at(2)), line_link(at(3)), node_link("0/0", "n2")} <= chain
    assert not {line_link(at(1)), kernel_link(GEMM), break_link(BREAK)} & chain


def test_a_statement_links_only_to_its_own_line():
    chain = closure(RUN, [aten_link("0/0", "forward", "a1"), line_link(at(2)), kernel_link(FUSED)])
    assert line_link(at(2)) in chain
    assert kernel_link(FUSED) in chain
    assert line_link(at(3)) not in chain


def test_a_calling_line_links_to_the_nodes_of_the_callee_but_not_back():
    assert node_link("0/0", "n1") in closure(RUN, [line_link(at(9))])
    assert line_link(at(9)) not in closure(RUN, [node_link("0/0", "n1")])


def test_a_break_links_to_its_line_and_the_nodes_of_the_line():
    chain = closure(RUN, [break_link(BREAK)])
    assert {line_link(at(3)), node_link("0/0", "n2"), kernel_link(FUSED)} <= chain


def test_an_empty_selection_highlights_nothing():
    assert closure(RUN, []) == frozenset()


def test_links_of_ten_thousand_nodes_are_indexed_once():
    nodes = tuple(node(f"n{i}", i // 10 + 1) for i in range(10_000))
    aten = tuple(node(f"a{i}", origins=(f"n{i}",)) for i in range(10_000))
    kernels = tuple(
        ev.Kernel(graph="0/0", phase="forward", name=f"k{k}", language="cpp", source="",
                  nodes=tuple(f"a{i}" for i in range(k * 33, k * 33 + 33)))
        for k in range(300)
    )  # fmt: skip
    graph = ev.GraphCaptured(graph="0/0", ops=10_000, code="", nodes=nodes)
    post = ev.AtenGraph(graph="0/0", stage="post_grad", phase="forward", nodes=aten)
    run = Snapshot(
        run=1,
        file="/m.py",
        source="",
        config=ev.Config(),
        graphs=(graph,),
        codes=(Code(target=NATIVE, aten_graphs=(post,), kernels=kernels),),
    )
    closure(run, [line_link(at(1))])
    chain = closure(run, [kernel_link(kernels[7])])
    assert len(chain) > 60
    assert calls_in(lambda: closure(run, [kernel_link(kernels[8])])) < 10 * len(chain)
