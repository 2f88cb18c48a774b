"""Differences of two runs: kernels, breaks and guards."""

from __future__ import annotations

from dataclasses import replace

from tcexplore import events as ev
from tcexplore.documents.diff_view import guard_rows
from tcexplore.events import Location
from tcexplore.session.code import Code
from tcexplore.session.run_diff import RunDiff, align, run_diff
from tcexplore.session.snapshot import Snapshot
from tcexplore.targets.target_names import NATIVE
from tests.snapshots.codes import with_code

BODY = """extern "C" void NAME(const float* in, float* out)  // COMMENT
{
    out[0] = in[0] * static_cast<float>(2.0);
}
"""


def kernel(name: str, ops: tuple[str, ...] = ("aten.mul",), body: str = BODY, comment: str = "x") -> ev.Kernel:
    source = body.replace("NAME", name).replace("COMMENT", comment)
    return ev.Kernel(run=1, graph="0/0", phase="forward", name=name, language="cpp", source=source, ops=ops)


def run(source: str, *kernels: ev.Kernel) -> Snapshot:
    calls = "\n".join(f"{k.name}(x)  # {k.name}:1" for k in kernels)
    wrapper = ev.Wrapper(graph="0/0", phase="forward", source=calls)
    return Snapshot(
        run=1,
        file="/m.py",
        source=source,
        config=ev.Config(),
        codes=(Code(target=NATIVE, kernels=kernels, wrappers=(wrapper,)),),
    )


def test_renamed_kernels_and_moved_comments_are_the_same_program() -> None:
    diff = run_diff(run("a", kernel("cpp_mul_0")), run("b", kernel("cpp_mul_7", comment="y")))
    assert diff.same_program
    assert [c.kind for c in diff.kernels] == ["same"]
    assert [(c.kind, c.before, c.after) for c in diff.source] == [("removed", "a", None), ("added", None, "b")]


def test_another_constant_changes_the_kernel_and_the_program() -> None:
    diff = run_diff(run("a", kernel("k0")), run("a", kernel("k0", body=BODY.replace("2.0", "3.0"))))
    assert not diff.same_program
    assert [c.kind for c in diff.kernels] == ["changed"]
    assert [c.kind for c in diff.source] == ["same"]


def test_a_run_without_code_has_no_program() -> None:
    nothing = with_code(run("a"), kernels=(), wrappers=())
    assert not run_diff(nothing, nothing).same_program


def test_kernels_pair_by_code_before_they_pair_by_ops() -> None:
    five, nine = BODY.replace("2.0", "5.0"), BODY.replace("2.0", "9.0")
    before = run("a", kernel("k0"), kernel("k1", body=five))
    after = run("a", kernel("k0", body=five), kernel("k1", ("aten.mul", "aten.add"), nine))
    pairs = [(c.kind, c.before and c.before.name, c.after and c.after.name) for c in run_diff(before, after).kernels]
    assert pairs == [("same", "k1", "k0"), ("changed", "k0", "k1")]


def test_a_break_that_only_moved_is_the_same_break() -> None:
    one = ev.GraphBreak(
        graph="0/0", registry_id="GB0059", kind="print", reason="", code="print(x)", location=Location("/m.py", 3)
    )
    before, after = replace(run("a"), breaks=(one,)), replace(run("b"), breaks=())
    moved = replace(run("b"), breaks=(replace(one, location=Location("/m.py", 9)),))
    assert [c.kind for c in run_diff(before, moved).breaks] == ["same"]
    assert [c.kind for c in run_diff(before, after).breaks] == ["removed"]


def test_renumbered_buffers_do_not_change_a_gemm() -> None:
    def gemm(buffer: str, size: int) -> ev.Kernel:
        return replace(kernel("addmm"), language="extern", source=f"extern_kernels.mm({buffer}, out=({size},))")

    moved = run_diff(run("a", gemm("buf0", 8)), run("b", gemm("buf4", 8)))
    assert [c.kind for c in moved.kernels] == ["same"]
    assert not moved.same_program, "the wrapper may differ"
    assert [c.kind for c in run_diff(run("a", gemm("buf0", 8)), run("b", gemm("buf0", 9))).kernels] == ["changed"]


def test_equal_items_at_both_ends_are_paired() -> None:
    diff = align("abcdef", "abXdef", lambda item: item)
    assert [(c.kind, c.before, c.after) for c in diff] == [
        ("same", "a", "a"), ("same", "b", "b"), ("removed", "c", None), ("added", None, "X"),
        ("same", "d", "d"), ("same", "e", "e"), ("same", "f", "f"),
    ]  # fmt: skip
    assert [c.kind for c in align("aa", "a", lambda item: item)] == ["same", "removed"]


def test_object_ids_in_guards_are_ignored() -> None:
    def guarded(identity: int) -> Snapshot:
        code = (f"___check_obj_id(L['self'], {identity})",)
        address = (f"___check_obj_id(L['f'], {identity % 10**6}), type=<code object inner at {hex(identity)}>",)
        guards = (
            ev.Guard(kind="ID_MATCH", source="L['self']", code=code),
            ev.Guard(kind="ID_MATCH", source="L['f']", code=address),
            ev.Guard(kind="EQUALS_MATCH", source="n", code=("n == 8",)),
            ev.Guard(
                kind="DUPLICATE_INPUT",
                source="",
                code=(f"G['torch'].Tensor is G['_{identity}_c{identity % 7}'].Tensor",),
            ),
        )
        return replace(run("a"), guards=(ev.GuardsInstalled(graph="0/0", guards=guards),))

    assert [c.kind for c in run_diff(guarded(94153210285408), guarded(94153210285999)).guards] == ["same"] * 4


def on_device(number: int, trace: str) -> Snapshot:
    code = f"with torch.cuda._DeviceGuard({number}):\n    stream{number} = get_raw_stream({number})\n"
    body = f"triton_meta={{'device': DeviceProperties(type='cuda', index={number}, cc=90)}}, 'constants': 7"
    tensor = (f"check_tensor(L['x'], Tensor, device={number}, size=[4])",)
    guard = ev.Guard(kind="TENSOR_MATCH", source="x", code=tensor, summary=f"f32[4] cuda:{number}, contiguous")
    made = replace(run("a", kernel("k0", body=body)), trace=trace)
    made = with_code(made, wrappers=(ev.Wrapper(graph="0/0", phase="forward", source=code),))
    return replace(made, guards=(ev.GuardsInstalled(graph="0/0", guards=(guard,)),))


def test_the_number_of_a_ranks_device_is_no_difference_but_that_of_a_live_run_is() -> None:
    ranks = run_diff(on_device(0, "rank 0 of 2"), on_device(1, "rank 1 of 2"))
    assert ranks.same_program
    assert [change.kind for change in ranks.kernels] == ["same"]
    assert [change.kind for change in ranks.guards] == ["same"]
    live = run_diff(on_device(0, ""), on_device(1, ""))
    assert not live.same_program
    assert [change.kind for change in live.kernels] == ["changed"]


def test_the_order_of_guards_does_not_matter() -> None:
    guards = [ev.Guard(kind="EQUALS_MATCH", source=name) for name in ("a", "b", "a")]

    def guarded(*diff: ev.Guard) -> Snapshot:
        return replace(run("a"), guards=(ev.GuardsInstalled(graph="0/0", guards=diff),))

    assert {c.kind for c in run_diff(guarded(*guards), guarded(*reversed(guards))).guards} == {"same"}
    fewer = run_diff(guarded(*guards), guarded(guards[1], guards[0])).guards
    assert [(c.kind, c.item[1].source) for c in fewer] == [("same", "b"), ("same", "a"), ("removed", "a")]


def test_a_guard_that_requires_something_else_is_one_change() -> None:
    def guarded(size: int, *names: str) -> Snapshot:
        guards = tuple(
            ev.Guard(kind="TENSOR_MATCH", source=f"L['{name}']", name=name, summary=f"f32[{size}]") for name in names
        )
        return replace(run("a"), guards=(ev.GuardsInstalled(graph="0/0", guards=guards),))

    def change(diff: RunDiff) -> list[tuple[str, str | None, str | None]]:
        sides = [(c.kind, c.before and c.before[1].summary, c.after and c.after[1].summary) for c in diff.guards]
        return sorted(sides, key=str)

    assert change(run_diff(guarded(4, "x", "gone"), guarded(8, "x", "new"))) == [
        ("added", None, "f32[8]"), ("changed", "f32[4]", "f32[8]"), ("removed", "f32[4]", None)
    ]  # fmt: skip
    names = [f"x{number}" for number in range(32)]
    diff = run_diff(guarded(4, *names), guarded(8, *names))
    rows = [row.text.strip() for row in guard_rows(diff, frozenset(), 100)]
    assert rows == ["~ 0/0  x0  f32[4] → f32[8]  TENSOR_MATCH", "▸ 31 others in the same way"]
    opened = frozenset([fold for row in guard_rows(diff, frozenset(), 100) if (fold := row.fold)])
    assert len(list(guard_rows(diff, opened, 100))) == 33


def test_a_removed_kernel_keeps_its_place() -> None:
    gone, kept, last = (kernel(f"of_{op}", (f"aten.{op}",), f"{op}();") for op in ("gelu", "mul", "sum"))
    new = kernel("of_silu", ("aten.silu",), "silu();")
    diff = run_diff(run("a", gone, kept, last), run("b", new, kept, last)).kernels
    assert [(c.kind, c.item.name) for c in diff][:2] == [("removed", "of_gelu"), ("added", "of_silu")]
    diff = run_diff(run("a", kept, gone, last), run("b", kept, new, last)).kernels
    assert [c.kind for c in diff] == ["same", "removed", "added", "same"]


def graph_of(*calls: str) -> Snapshot:
    """Return a run with a graph of `NAME = OP(INPUTS)`."""
    nodes = []
    for call in calls:
        name, op, inputs = (part.strip(" )") for part in call.replace("(", "=").split("="))
        read = tuple(filter(None, inputs.split(", ")))
        nodes.append(ev.FxNode(name=name, op="call_function", target=op, args=inputs, inputs=read))
    graph = ev.GraphCaptured(run=1, graph="0/0", ops=len(nodes), nodes=tuple(nodes), code="")
    return replace(run("a"), graphs=(graph,))


def node_changes(before: Snapshot, after: Snapshot) -> list[tuple[str, str]]:
    return [(c.kind, c.item[1].name) for c in run_diff(before, after).nodes if c.kind != "same"]


def test_nodes_that_an_edit_only_renumbers_are_the_same():
    before = graph_of("x = input()", "to = cast(x)", "mul = mul(to)", "to_1 = cast(mul)", "mul_1 = mul(to_1)")
    after = graph_of("x = input()", "mul = mul(x)", "to = cast(mul)", "mul_1 = mul(to)")
    assert node_changes(before, after) == [("removed", "to"), ("removed", "mul"), ("added", "mul")]


def test_a_node_that_reads_another_op_is_changed():
    before = graph_of("a = norm()", "a_1 = norm()", "sum = add(a)", "mul = mul(a_1)")
    after = graph_of("a = norm()", "a_1 = norm()", "sum = add(a)", "mul = mul(a)")
    assert node_changes(before, after) == [("changed", "mul")]
    assert node_changes(before, before) == []


def test_a_repeated_input_is_not_another_one():
    both, twice = (graph_of("a = norm()", "a_1 = norm()", f"mul = mul({read})") for read in ("a, a_1", "a"))
    (node,) = (node for node in twice.graphs[0].nodes if node.name == "mul")
    squared = replace(node, args="a, a")
    nodes = tuple(squared if each is node else each for each in twice.graphs[0].nodes)
    twice = replace(twice, graphs=(replace(twice.graphs[0], nodes=nodes),))
    assert node_changes(twice, both) == [("removed", "mul"), ("added", "mul")]


def test_ops_that_are_added_to_a_long_chain_are_its_only_changes():
    def chain(extra: int) -> Snapshot:
        calls, last = ["x = input()"], "x"
        for number in range(300 + extra):
            calls += [f"mul_{number} = mul({last})", f"sin_{number} = sin(mul_{number})"]
            last = f"sin_{number}"
        return graph_of(*calls)

    assert len(node_changes(chain(0), chain(1))) == 2
