"""Two runs compared: kernels aligned by ops and statements, and the cause of each difference."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tcexplore import events as ev
from tcexplore.events import Location
from tcexplore.session.code import Code
from tcexplore.session.kernel_groups import align_runs
from tcexplore.session.run_difference import RunDifference, run_difference, with_trial
from tcexplore.session.snapshot import Snapshot
from tcexplore.targets.target_names import NATIVE

SOURCE = "def model(x, w):\n    y = relu(x)\n    return silu(y) @ w\n"
FILE = "/m.py"
OPS = {"relu": 2, "silu": 3, "matmul": 3}


def node(name: str, target: str, line: int, *origins: str, args: str = "") -> ev.FxNode:
    place = Location(FILE, line, "model")
    return ev.FxNode(name=name, op="call_function", target=target, location=place, origins=origins, args=args)


def kernel(
    name: str, *nodes: str, source: str = "", language: str = "cpp", scheduled: tuple[str, ...] = ()
) -> ev.Kernel:
    ops = tuple(f"aten.{name.rstrip('_0123456789')}" for name in nodes)
    return ev.Kernel(graph="0/0", phase="forward", name=name, language=language, source=source or f"compute {ops}",
                     ops=ops, nodes=nodes, scheduler_nodes=scheduled)  # fmt: skip


LOWERED = (
    node("relu", "aten.relu.default", 2, "relu"),
    node("sigmoid", "aten.sigmoid.default", 3, "silu"),
    node("mul", "aten.mul.Tensor", 3, "silu"),
    node("mm", "aten.mm.default", 3, "matmul"),
)


def run(*kernels: ev.Kernel, lowered: tuple[ev.FxNode, ...] = LOWERED, aten: tuple[ev.FxNode, ...] = LOWERED,
        source: str = SOURCE, torch: str = "2.13.0", settings: tuple[tuple[str, str], ...] = (),
        passes: tuple[ev.PassRun, ...] = (), us: dict[str, float] | None = None) -> Snapshot:  # fmt: skip
    graphs = (
        ev.AtenGraph(graph="0/0", stage="inference", phase="forward", nodes=aten),
        ev.AtenGraph(graph="0/0", stage="post_grad", phase="forward", nodes=lowered),
    )
    code = Code(target=NATIVE, kernels=kernels, aten_graphs=graphs, passes=passes)
    dynamo = tuple(node(name, name, line) for name, line in OPS.items())
    snapshot = Snapshot(
        run=1, file=FILE, source=source, config=ev.Config(), codes=(code,),
        graphs=(ev.GraphCaptured(graph="0/0", ops=3, nodes=dynamo, code=""),),
        compiler_state=ev.CompilerState(torch=torch, defaults=settings, libraries=(("oneDNN", torch),)),
    )  # fmt: skip
    if us is None:
        return snapshot
    parts = tuple(
        ev.CallPart(kind="kernel", name=name, graph="0/0", phase="forward", us=time, low_us=time * 0.99,
                    high_us=time * 1.01)
        for name, time in us.items()
    )  # fmt: skip
    return snapshot.apply(ev.CallProfiled(run=1, total_us=sum(us.values()), repeats=5, parts=parts))


def causes(before: Snapshot, after: Snapshot) -> list[tuple[str, str]]:
    return [(part.cause.kind, part.cause.name) for part in run_difference(before, after).changed if part.cause]


FUSED = kernel("fused", "relu", "sigmoid", "mul")
MM = kernel("extern_kernels.mm", "mm", source="mm(a, b)", language="extern")


def test_kernels_are_grouped_by_the_ops_of_the_program() -> None:
    apart = kernel("first", "relu"), kernel("second", "sigmoid", "mul")
    groups = align_runs(run(FUSED, MM), run(*apart, MM)).groups
    names = [(g.kind, [k.name for k in g.before], [k.name for k in g.after]) for g in groups]
    assert names == [
        ("regrouped", ["fused"], ["first", "second"]), ("same", ["extern_kernels.mm"], ["extern_kernels.mm"]),
    ]  # fmt: skip


def test_equal_code_at_another_statement_is_another_kernel() -> None:
    a, b = kernel("a", "relu", source="loop"), kernel("b", "sigmoid", "mul", source="loop")
    groups = align_runs(run(a, b), run(b, a)).groups
    assert {(g.before[0].name, g.after[0].name) for g in groups} == {("a", "a"), ("b", "b")}


def test_ops_move_with_their_lines() -> None:
    moved = "# a comment\n" + SOURCE
    after = run(FUSED, MM, source=moved)
    shifted = tuple(
        replace(n, location=Location(FILE, n.location.line + 1, "model")) for n in after.graphs[0].nodes if n.location
    )
    after = replace(after, graphs=(replace(after.graphs[0], nodes=shifted),))
    pairs = align_runs(run(FUSED, MM), after).pairs
    assert len(pairs) == len(OPS)
    assert all(pair.before and pair.after for pair in pairs)


def test_another_decomposition_is_named() -> None:
    other = (LOWERED[0], node("exp", "aten.exp.default", 3, "silu"), *LOWERED[2:])
    after = run(kernel("fused", "relu", "exp", "mul"), MM, lowered=other, aten=other)
    assert causes(run(FUSED, MM), after) == [("decomposition", "silu")]


def test_a_pass_that_changed_one_graph_is_named() -> None:
    other = (LOWERED[0], node("tanh", "aten.tanh.default", 3, "silu"), *LOWERED[2:])
    hunk = ev.Hunk(at=1, removed=("sigmoid = aten.sigmoid.default(relu)",), added=("tanh = aten.tanh.default(relu)",))
    passes = (ev.PassRun(graph="0/0", stage="post_grad", phase="forward", name="to_tanh", nodes_before=4, nodes_after=4,
                         hunks=(hunk,)),)  # fmt: skip
    after = run(kernel("fused", "relu", "tanh", "mul"), MM, lowered=other, passes=passes)
    assert causes(run(FUSED, MM), after) == [("pass", "to_tanh")]


def test_another_library_function_is_named() -> None:
    other = kernel("mkl._mkl_linear", "mm", source="linear(a, b)", language="extern")
    assert causes(run(FUSED, MM), run(FUSED, other)) == [("library", "mkl._mkl_linear")]


def test_a_generated_product_is_a_lowering() -> None:
    assert causes(run(FUSED, MM), run(FUSED, kernel("gemm", "mm"))) == [("lowering", "aten.mm")]


def test_the_lines_of_generated_code_that_differ_are_shown() -> None:
    before, after = (kernel("fused", "relu", "sigmoid", "mul", source=f"{pragma}\nfor (;;) {{}}\n")
                     for pragma in ("#pragma omp parallel num_threads(2)", "#pragma omp parallel"))  # fmt: skip
    (part,) = run_difference(run(before, MM), run(after, MM)).changed
    assert part.cause is not None
    assert "− #pragma omp parallel num_threads(2); + #pragma omp parallel" in part.cause.text


def test_checks_of_integer_divisions_do_not_hide_what_else_differs() -> None:
    """torch 2.15 writes four lines of them around each loop."""
    check = (
        "std::atomic<int> inductor_cpu_integer_div_error{0};\n"
        "inductor_cpu_integer_div_error_flag = &inductor_cpu_integer_div_error;\n{loop}"
        "inductor_cpu_integer_div_error_flag = nullptr;\n"
        "inductor_cpu_throw_if_integer_div_error(inductor_cpu_integer_div_error);\n"
    )

    def text(before: str, after: str) -> str:
        sides = (kernel("fused", "relu", "sigmoid", "mul", source=code) for code in (before, after))
        (part,) = run_difference(*(run(side, MM) for side in sides)).changed
        assert part.cause is not None
        return part.cause.text

    loop, other = "for (;;) {}\n", "#pragma omp parallel\nfor (;;) {}\n"
    assert text(loop, check.replace("{loop}", other)).endswith(": + #pragma omp parallel")
    assert text(loop, check.replace("{loop}", loop)).endswith(": only one of them checks integer divisions for 0")


def test_a_new_threshold_may_be_tried() -> None:
    threshold = ("torch._inductor.config.cpp.use_two_step_variance_threshold", "1024")
    number = ("torch._inductor.config.cpp.other_number", "1024")
    settings = run_difference(run(FUSED, MM), run(FUSED, MM, settings=(threshold, number))).settings
    assert [(setting.name, setting.before, setting.after) for setting in settings] == [(threshold[0], None, "1024")]


def test_an_edited_program_is_the_cause_whatever_else_differs() -> None:
    after = run(kernel("other", "relu", "sigmoid", "mul"), MM, source=SOURCE.replace("relu", "tanh"),
                settings=(("torch._inductor.config.max_fusion_size", "1"),))  # fmt: skip
    nodes = (node("tanh", "tanh", 2), *after.graphs[0].nodes[1:])
    after = replace(after, graphs=(replace(after.graphs[0], nodes=nodes),))
    assert {kind for kind, _ in causes(run(FUSED, MM), after)} == {"program"}


def changed_setting() -> RunDifference:
    sizes = [(("torch._inductor.config.max_fusion_size", size), ("torch._inductor.config.split_reductions", on))
             for size, on in (("64", "True"), ("1", "False"))]  # fmt: skip
    apart = kernel("first", "relu"), kernel("second", "sigmoid", "mul")
    return run_difference(run(FUSED, MM, settings=sizes[0]), run(*apart, MM, settings=sizes[1]))


def test_settings_are_a_cause_only_after_a_trial() -> None:
    difference = changed_setting()
    assert [setting.default_changed for setting in difference.settings] == [True, True]
    (part,) = difference.changed
    assert part.cause is not None
    assert part.cause.kind == "fusion"
    assert part.group is not None
    (tried,) = with_trial(difference, [part.group], ["torch._inductor.config.max_fusion_size"]).changed
    assert tried.cause is not None
    assert (tried.cause.kind, tried.cause.basis, tried.cause.through) == ("setting", "trial", part.cause)


def test_the_same_ops_in_more_nodes_that_are_fused_as_before_are_a_lowering() -> None:
    def fused(*nodes: str) -> Snapshot:
        snapshot = run(kernel("fused", "relu", "sigmoid", "mul", source=str(nodes), scheduled=nodes), MM)
        decision = ev.FusionDecision(graph="0/0", phase="forward", a="all", b=nodes[-1], fused=True, a_nodes=nodes[:-1])
        return replace(snapshot, codes=(replace(snapshot.code, fusion=(decision,)),))

    (part,) = run_difference(fused("op0", "op1"), fused("op0", "op1", "op2")).changed
    assert part.cause is not None
    assert (part.cause.kind, part.cause.text) == (
        "lowering",
        "the same ops become 2 → 3 nodes of the scheduler, fused into 1",
    )


def test_differences_within_the_intervals_do_not_count() -> None:
    times = {"fused": 100.0, "extern_kernels.mm": 50.0}
    slower = {"fused": 150.0, "extern_kernels.mm": 50.2}
    difference = run_difference(run(FUSED, MM, us=times), run(FUSED, MM, us=slower))
    assert [(part.name, part.us, part.is_noise) for part in difference.parts] == [
        ("fused", 50.0, False), ("extern_kernels.mm", pytest.approx(0.2), True),
    ]  # fmt: skip
    assert difference.attributed_share == 0.0


def test_equal_code_of_two_versions_is_attributed_by_exclusion() -> None:
    times, slower = {"extern_kernels.mm": 50.0}, {"extern_kernels.mm": 80.0}
    difference = run_difference(run(MM, us=times), run(MM, us=slower, torch="2.15.0"))
    (part,) = difference.parts
    assert part.cause is not None
    assert (part.cause.kind, part.cause.basis) == ("library", "exclusion")
    assert "oneDNN 2.13.0 → 2.15.0" in part.cause.text
    assert (difference.attributed_share, difference.excluded_share) == (1.0, 1.0)
