"""The tree of modules: folded layers, layers that differ, and what belongs to each module."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import pytest

from tcexplore import events as ev
from tcexplore.documents.document import Row
from tcexplore.documents.graph.modules_view import modules_document, summarize_modules
from tcexplore.documents.module_folds import kernel_groups, timed_tree
from tcexplore.session.line_times import RestTime
from tcexplore.session.module_tree import OWN, ModuleRow
from tcexplore.session.snapshot import Snapshot, start_snapshot

LINE = ev.Location(file="/m/model.py", line=7, function="forward")
OPS = (("norm", "layer_norm"), ("mlp.up", "linear"), ("mlp", "gelu"), ("mlp.down", "linear"))


def layer(number: int, ops: Sequence[tuple[str, str]] = OPS, dtype: str = "f32") -> list[ev.FxNode]:
    weight = ev.FxNode(
        name=f"w{number}", op="placeholder", target=f"self.layers.{number}.mlp.up.weight", dtype=dtype, shape=("4", "4")
    )
    calls = [
        ev.FxNode(
            name=f"n{number}_{index}", op="call_function", target=target, args=f"x, w{number}, 1e-05",
            inputs=("x", f"w{number}"), dtype=dtype, shape=("2", "4"), location=LINE,
            module=f"self.layers.{number}.{module}",
        )
        for index, (module, target) in enumerate(ops)
    ]  # fmt: skip
    return [weight, *calls]


def block(number: int, kind: str = "Block") -> ev.CapturedModule:
    name = f"layers.{number}"
    return ev.CapturedModule(source=f"self.{name}", type=kind, path=name, root="")


def module_rows(snapshot: Snapshot) -> tuple[ModuleRow, ...]:
    return timed_tree(snapshot).rows


def run(*layers: list[ev.FxNode], module: str | None = "") -> Snapshot:
    nodes = tuple(node for of_layer in layers for node in of_layer)
    known = tuple(block(number) for number in range(len(layers)))
    graph = ev.GraphCaptured(run=1, graph="0/0", ops=len(nodes), nodes=nodes, code="", module=module, modules=known)
    return start_snapshot(ev.Job(run=1, file="/m/model.py", source="")).apply(graph)


def lists(snapshot: Snapshot) -> list[ModuleRow]:
    return [row for row in module_rows(snapshot) if row.depth == 2]


def rows_of(snapshot: Snapshot, toggled: frozenset[str], width: int) -> list[Row]:
    document = modules_document(snapshot, toggled, width)
    return [document.row(index) for index in range(len(document))]


def text(snapshot: Snapshot, width: int = 78) -> str:
    return "\n".join(row.text for row in rows_of(snapshot, frozenset(), width))


def test_equal_layers_are_one_row_with_their_sums():
    first, others = lists(run(*map(layer, range(32))))
    assert (first.path, first.repeats, first.ops, first.bytes) == ("layers.0", 1, 4, 64)
    assert (others.path, others.repeats, others.same_as) == ("layers.1 – 31", 31, "layers.0")
    assert (others.ops, others.bytes) == (31 * 4, 31 * 64)
    assert len(module_rows(run(*map(layer, range(32))))) < 12


ODD = {
    "another type": (layer(3, dtype="f16"), "computes in f16; layer_norm in norm gives f16[2, 4] instead of f32[2, 4]"),
    "another op": (layer(3, (OPS[0], OPS[1], ("mlp", "relu"), OPS[3])), "relu in mlp instead of gelu in mlp"),
    "one op more": (layer(3, (OPS[0], ("mlp", "double"), *OPS[1:])), "1 more op, first double in mlp"),
    "one op less": (layer(3, (OPS[0], OPS[1], OPS[3])), "without gelu in mlp"),
    "another constant": (
        [replace(node, args=node.args.replace("1e-05", "0.1")) for node in layer(3)],
        "layer_norm in norm with ·, ·, 0.1 instead of ·, ·, 1e-05",
    ),
    "another place": (
        layer(3, (("norm2", "layer_norm"), *OPS[1:])),
        "layer_norm in norm2 instead of layer_norm in norm",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", ODD)
def test_the_layer_that_differs_says_in_what(kind: str):
    odd, difference = ODD[kind]
    snapshot = run(*map(layer, range(3)), odd, *map(layer, range(4, 9)))
    rows = {row.path: row for row in lists(snapshot)}
    assert rows["layers.3"].differs == difference
    assert rows["layers.1 – 2, 4 – 8"].same_as == "layers.0"
    assert [row.path for row in rows.values() if row.differs] == ["layers.3"]
    assert f"differs: {difference}" in text(snapshot, 160)


def numbered(number: int, value: str) -> list[ev.FxNode]:
    """Return a layer with another epsilon in its norm."""
    return [replace(node, args=node.args.replace("1e-05", value)) for node in layer(number)]


def test_layers_with_numbers_of_their_own_are_folded_and_say_which():
    snapshot = run(*(numbered(number, f"0.{number}") for number in range(6)))
    _, others = lists(snapshot)
    assert (others.path, others.same_as, others.differs) == ("layers.1 – 5", "layers.0", "")
    assert others.numbers == "layer_norm in norm with 0.1 – 0.5 instead of 0"
    assert "1 – 5 ×5 same as layers.0 but for numbers" in " ".join(text(snapshot, 160).split())
    assert others.numbers in text(snapshot, 160)
    alternating = run(*(numbered(number, f"0.{number % 2}") for number in range(6)))
    assert [row.path for row in lists(alternating)] == ["layers.0", "layers.1", "layers.2, 4", "layers.3, 5"]
    assert not any(row.numbers for row in module_rows(alternating))


def test_a_layer_of_another_class_and_one_with_a_break_differ():
    snapshot = run(*map(layer, range(5)))
    (captured,) = snapshot.graphs
    snapshot = snapshot.apply(replace(captured, modules=(*captured.modules[:4], block(4, "Expert"))))
    inner = ev.GraphCaptured(run=1, graph="1/0", ops=0, nodes=(), code="", module="layers.2")
    broken = ev.GraphBreak(run=1, graph="1/0", registry_id=None, kind="Data-dependent branching", reason="")
    rows = {row.path: row for row in lists(snapshot.apply(inner).apply(broken))}
    assert rows["layers.4"].differs == "Expert instead of Block"
    assert rows["layers.2"].differs == "graph break: Data-dependent branching"
    assert rows["layers.2"].breaks == 1


def test_an_argument_named_like_a_value_of_one_layer_is_no_difference():
    layers = [
        [replace(node, inputs=(value,), args=f"n=16, out={value}") for node in layer(number)[1:]]
        for number, value in enumerate(("out", "out_1", "out_2"))
    ]
    assert [row.differs for row in lists(run(*layers))] == ["", ""]


def test_two_kinds_of_layers_that_alternate_have_no_odd_one():
    other = (OPS[0], OPS[1], ("mlp", "relu"), OPS[3])
    snapshot = run(*(layer(number, other if number % 2 else OPS) for number in range(6)))
    assert [row.path for row in lists(snapshot)] == ["layers.0", "layers.1", "layers.2, 4", "layers.3, 5"]
    assert not any(row.differs for row in module_rows(snapshot))


def test_a_frame_of_an_inner_module_counts_for_its_path():
    snapshot = run(layer(0))
    inner = replace(snapshot.graphs[0], graph="1/0", module="encoder", modules=())
    rows = module_rows(start_snapshot(ev.Job(run=1, file="/m/model.py", source="")).apply(inner))
    assert [row.path for row in rows][:4] == ["", "encoder", "encoder.layers", "encoder.layers.0"]


def test_the_time_of_lines_and_kernels_is_split_over_modules():
    snapshot = run(*map(layer, range(4)))
    lines = ev.EagerLinesTimed(
        run=1, call_us=100.0, lines=(ev.EagerLine(location=LINE, phase="forward", us=80.0),)
    )  # fmt: skip
    rows = module_rows(snapshot.apply(lines))
    assert rows[0].eager_us == 100.0
    assert sum(row.eager_us or 0 for row in rows if row.depth == 2) == pytest.approx(80.0)


def test_modules_timed_in_an_eager_call_add_up_to_it():
    times = {"": 5.0, **{f"layers.{number}.mlp": 20.0 for number in range(4)}}
    timed = ev.EagerLinesTimed(
        run=1, call_us=100.0, lines=(),
        modules=(
            *(ev.EagerModule(path=path, root="Model", type="MLP" if path else "Model", us=us)
              for path, us in times.items()),
            ev.EagerModule(path="", root="", type="", us=15.0),
        ),
    )  # fmt: skip
    tree = timed_tree(run(*map(layer, range(4))).apply(timed))
    assert [row.eager_us for row in tree.rows if row.depth == 2] == [20.0, 60.0]
    assert tree.rows[0].type == "Model"
    assert {rest.name: rest.eager_us for rest in tree.rest} == {"the model itself": 5.0, "outside the modules": 15.0}


def test_a_layer_without_a_graph_runs_the_code_of_the_first_one_of_its_class():
    (captured,) = run(layer(0)).graphs
    own = replace(captured, module="layers.0", nodes=tuple(replace(node, module="self.mlp") for node in captured.nodes))
    snapshot = start_snapshot(ev.Job(run=1, file="/m/model.py", source="")).apply(own)
    timed = ev.EagerLinesTimed(
        run=1, call_us=100.0, lines=(),
        modules=tuple(
            ev.EagerModule(path=f"layers.{number}", root="", type="Block", us=25.0) for number in range(4)
        ),
    )  # fmt: skip
    rows = {row.path: row for row in module_rows(snapshot.apply(timed))}
    assert rows["layers.1 – 3"].same_as == "layers.0"
    assert rows["layers.1 – 3"].eager_us == 75.0
    limit = ev.Recompiled(run=1, graph="0/8", failed_entry="0/0", failed_guard="x", reason="", limit_hit=True)
    rows = {row.path: row for row in module_rows(snapshot.apply(timed).apply(limit))}
    assert rows["layers.1"].same_as == ""
    assert rows["layers.2 – 3"].same_as == "layers.1"


def test_an_older_graph_of_a_recompiled_frame_does_not_count():
    snapshot = run(layer(0), layer(1))
    again = replace(snapshot.graphs[0], graph="0/1")
    assert module_rows(snapshot.apply(again))[0].ops == module_rows(snapshot)[0].ops


def test_a_missing_residual_from_another_value_is_found():
    def reads(number: int, first: str) -> list[ev.FxNode]:
        weight, *calls = layer(number)
        return [weight, *calls[:3], replace(calls[3], inputs=(first, f"w{number}"), args=f"{first}, w{number}, 1e-05")]

    layers = [reads(number, f"n{number}_{1 if number == 2 else 0}") for number in range(6)]
    rows = {row.path: row for row in lists(run(*layers))}
    assert rows["layers.2"].differs == "linear in mlp.down reads the result of another op"


def test_a_function_has_no_modules():
    node = ev.FxNode(name="a", op="call_function", target="add", dtype="f32", shape=("2",))
    graph = ev.GraphCaptured(run=1, graph="0/0", ops=1, nodes=(node,), code="")
    snapshot = start_snapshot(ev.Job(run=1, file="/m/model.py", source="")).apply(graph)
    assert module_rows(snapshot) == ()
    assert "the model is a function" in text(snapshot)


def test_the_view_fits_a_narrow_and_a_wide_pane():
    snapshot = run(*map(layer, range(12)))
    for width in (38, 78, 158):
        assert all(len(line) <= width for line in text(snapshot, width).splitlines())


def profiled_layers(count: int) -> tuple[Snapshot, ev.CallProfiled]:
    """Return a run with a kernel of 20 µs per layer, and its profile: kernel n is launched for 15 + n µs."""
    snapshot = run(*map(layer, range(count)))
    nodes = tuple(
        ev.FxNode(name=f"post{number}", op="call_function", target="aten.mm", dtype="f32", shape=("2", "4"),
                  origins=(f"n{number}_1",)) for number in range(count)
    )  # fmt: skip
    snapshot = snapshot.apply(
        ev.AtenGraph(run=1, graph="0/0", phase="forward", stage="post_grad", nodes=nodes, code="")
    )
    parts = [ev.CallPart(kind="launch", name="wrapper", us=50.0, low_us=50.0, high_us=50.0)]
    for number in range(count):
        name = f"cpp_{number}"
        kernel = ev.Kernel(
            run=1, graph="0/0", phase="forward", name=name, language="cpp", source="", nodes=(f"post{number}",)
        )
        snapshot = snapshot.apply(kernel)
        parts.append(
            ev.CallPart(kind="kernel", name=name, graph="0/0", phase="forward", us=20.0, low_us=20.0, high_us=20.0,
                        launch_us=15.0 + number)
        )  # fmt: skip
    return snapshot, ev.CallProfiled(run=1, total_us=50.0 + 20 * count, repeats=4, parts=tuple(parts))


def test_equal_layers_have_their_least_and_greatest_time():
    snapshot, profiled = profiled_layers(3)
    shown = " ".join(text(snapshot.apply(profiled), 120).split())
    assert "with layers.0, each 35.0 µs to 37.0 µs compiled, the slowest is layers.2" in shown
    assert "other launch 2.00 µs" in shown
    unsteady = replace(profiled, parts=tuple(replace(part, high_us=part.us + 3) for part in profiled.parts))
    shown = " ".join(text(snapshot.apply(unsteady), 120).split())
    assert "each 35.0 µs to 37.0 µs compiled, none is certainly slower than the others" in shown
    once = " ".join(text(snapshot.apply(replace(profiled, repeats=1)), 120).split())
    assert "none is certainly slower than the others" in once
    assert "each" not in text(snapshot)


def test_a_row_of_equal_layers_opens_to_the_time_of_each():
    snapshot, profiled = profiled_layers(4)
    timed = snapshot.apply(profiled)
    closed = [row for row in rows_of(timed, frozenset(), 120) if "same as" in row.text]
    assert [row.fold for row in closed] == ["module layers.1 – 3"]
    shown = [row.text for row in rows_of(timed, frozenset(["module layers.1 – 3"]), 120)]
    own = {line.split()[0]: line for line in shown if re.match(r" +[123] ", line)}
    assert own.keys() == {"1", "2", "3"}
    assert "37.0 µs" in own["2"]


def test_equal_layers_with_other_kernels_say_how_many_kinds_there_are():
    """As the layers of a Llama, whose kernels alternate: the rotation of one layer is fused with the next one."""
    snapshot, _ = profiled_layers(24)
    assert "sets of kernels" not in text(snapshot, 120)
    for number in range(2, 24, 2):
        snapshot = snapshot.apply(
            ev.Kernel(run=1, graph="0/0", phase="forward", name=f"cpp_more{number}", language="cpp", source="",
                      nodes=(f"post{number}",))
        )  # fmt: skip
    assert "equal ops, but 2 sets of kernels: of 12, 11 modules" in text(snapshot, 120)


def test_products_of_equal_size_are_kernels_of_their_own_modules():
    """`mlp.0` and `mlp.2` of each layer are no layers that repeat."""
    ops = (("mlp.0", "linear"), ("mlp.0", "gelu"), ("mlp.2", "linear"), ("norm", "layer_norm"))
    snapshot = run(*(layer(number, ops) for number in range(4)))
    names = [(number, index) for number in range(4) for index in (0, 2)]
    nodes = tuple(
        ev.FxNode(name=f"post{number}_{index}", op="call_function", target="aten.mm", dtype="f32", shape=("2", "4"),
                  origins=(f"n{number}_{index}",)) for number, index in names
    )  # fmt: skip
    graph = ev.AtenGraph(run=1, graph="0/0", phase="forward", stage="post_grad", nodes=nodes, code="")
    snapshot = snapshot.apply(graph)
    for number, index in names:
        snapshot = snapshot.apply(
            ev.Kernel(run=1, graph="0/0", phase="forward", name=f"extern_kernels.mm:{number}{index}", source="",
                      language="extern", nodes=(f"post{number}_{index}",))
        )  # fmt: skip
    groups = {group.module: len(group.kernels) for group in kernel_groups(snapshot, snapshot.code)}
    assert groups == {"layers.*.mlp.0": 4, "layers.*.mlp.2": 4}


def test_the_view_says_that_a_kernel_counts_for_each_module_of_its_ops():
    snapshot, _ = profiled_layers(2)
    both = ev.Kernel(
        run=1, graph="0/0", phase="forward", name="cpp_both", language="cpp", source="", nodes=("post0", "post1")
    )
    assert "counts for each of them" not in text(snapshot)
    assert "Kernels: one that computes ops of several modules counts for each of them." in text(snapshot.apply(both))


def test_modules_have_the_launches_of_their_kernels_and_add_up_to_the_call():
    snapshot, profiled = profiled_layers(2)
    tree = timed_tree(snapshot.apply(profiled))
    rows = {row.path: row.compiled_us for row in tree.rows if row.depth == 2}
    assert rows == {"layers.0": pytest.approx(35.0), "layers.1": pytest.approx(36.0)}
    assert {rest.name: rest.compiled_us for rest in tree.rest} == {"launch": pytest.approx(19.0)}
    assert tree.rows[0].compiled_us == 90.0
    on_device = replace(profiled, parts=profiled.parts[1:], device_busy_us=40.0)
    tree = timed_tree(snapshot.apply(on_device))
    assert [row.compiled_us for row in tree.rows if row.depth == 2] == [20.0, 20.0], (
        "eager modules have no waits either"
    )
    assert sum(rest.compiled_us or 0.0 for rest in tree.rest) == pytest.approx(50.0)


def test_the_part_of_a_kernel_that_computes_an_op_outside_of_the_modules_is_outside():
    """As a loss that is fused with the last op of the model."""
    snapshot, profiled = profiled_layers(1)
    loss = ev.FxNode(name="loss", op="call_function", target="mul", dtype="f32", shape=("2", "4"))
    captured = snapshot.graphs[0]
    modules = tuple(replace(module, root="Model") for module in captured.modules)
    graph = replace(captured, nodes=(*captured.nodes, loss), module=None, modules=modules, run=1)
    (aten,) = snapshot.code.aten_graphs
    post = replace(aten.nodes[0], name="post_loss", origins=("loss",))
    (kernel,) = snapshot.code.kernels
    fused = replace(kernel, nodes=("post0", "post_loss"), run=1)
    snapshot = start_snapshot(ev.Job(run=1, file="/m/model.py", source=""))
    for event in (graph, replace(aten, nodes=(*aten.nodes, post), run=1), fused, profiled):
        snapshot = snapshot.apply(event)
    tree = timed_tree(snapshot)
    assert [row.compiled_us for row in tree.rows if row.path == "layers.0"] == [pytest.approx(17.5)]
    assert {rest.name: rest.compiled_us for rest in tree.rest}["outside the modules"] == pytest.approx(17.5)


def test_what_resumes_in_a_function_that_calls_the_model_is_outside_of_it():
    """As a softmax after the graph break of a function `score`."""

    def time_outside(function: str) -> float | None:
        snapshot, profiled = profiled_layers(1)
        captured = snapshot.graphs[0]
        frame = ev.Location("/m/model.py", 3, "score")
        modules = tuple(replace(module, root="Model") for module in captured.modules)
        graph = replace(captured, module=None, modules=modules, run=1, frame=frame)
        softmax = ev.FxNode(name="softmax", op="call_function", target="softmax", dtype="f32", shape=("2", "4"))
        resumed = replace(graph, graph="1/0", nodes=(softmax,), modules=(), frame=replace(frame, function=function))
        (kernel,) = snapshot.code.kernels
        (aten,) = snapshot.code.aten_graphs
        later = replace(kernel, graph="1/0", name="later", nodes=("post",), run=1)
        post = replace(aten.nodes[0], name="post", origins=("softmax",))
        part = replace(profiled.parts[-1], graph="1/0", name="later", us=9.0, low_us=9.0, high_us=9.0, launch_us=0.0)
        start = start_snapshot(ev.Job(run=1, file="/m/model.py", source=""))
        tree = timed_tree(start.apply_all([
            graph, resumed, replace(aten, run=1), replace(aten, graph="1/0", nodes=(post,), run=1),
            replace(kernel, run=1), later, replace(profiled, parts=(*profiled.parts, part)),
        ]))  # fmt: skip
        return {rest.name: rest.compiled_us for rest in tree.rest}.get("outside the modules")

    assert time_outside("score") == pytest.approx(9.0)
    assert time_outside("forward") is None, "of another function, which a module may call"


def test_an_eager_module_that_runs_in_no_graph_is_outside_the_modules():
    timed = ev.EagerLinesTimed(
        run=1, call_us=100.0, lines=(),
        modules=(
            ev.EagerModule(path="layers.0.mlp", root="Model", type="MLP", us=60.0),
            ev.EagerModule(path="layers.0", root="Judge", type="Linear", us=40.0),
        ),
    )  # fmt: skip
    snapshot = run(layer(0))
    graph = replace(snapshot.graphs[0], graph="0/0", root="Model")
    tree = timed_tree(start_snapshot(ev.Job(run=1, file="/m/model.py", source="")).apply(graph).apply(timed))
    assert [row.eager_us for row in tree.rows if row.path == "layers.0"] == [60.0]
    assert {rest.name: rest.eager_us for rest in tree.rest} == {"outside the modules": 40.0}


def test_the_time_of_a_function_is_not_that_of_a_module_that_another_region_compiles():
    """As with an optimizer's function, which is called for each parameter of a model."""
    snapshot = run(layer(0))
    modules = tuple(replace(module, root="Net") for module in snapshot.graphs[0].modules)
    model = replace(snapshot.graphs[0], root="Net", modules=modules)
    node = ev.FxNode(name="a", op="call_function", target="mul", dtype="f32", shape=("2",))
    function = ev.GraphCaptured(run=1, graph="1/0", ops=1, nodes=(node,), code="")
    post = ev.FxNode(name="post", op="call_function", target="aten.mul", dtype="f32", shape=("2",), origins=("a",))
    kernel = ev.Kernel(run=1, graph="1/0", phase="forward", name="cpp", language="cpp", source="", nodes=("post",))
    part = ev.CallPart(kind="kernel", name="cpp", graph="1/0", phase="forward", us=80.0, low_us=80.0, high_us=80.0)
    snapshot = start_snapshot(ev.Job(run=1, file="/m/model.py", source=""))
    for event in (
        model, function, ev.AtenGraph(run=1, graph="1/0", phase="forward", stage="post_grad", nodes=(post,), code=""),
        kernel, ev.CallProfiled(run=1, total_us=90.0, repeats=1, parts=(part,)),
    ):  # fmt: skip
        snapshot = snapshot.apply(event)
    tree = timed_tree(snapshot)
    assert [(row.path, row.type, row.compiled_us) for row in tree.rows[:2]] == [("", "", 90.0), ("Net", "Net", None)]
    assert {rest.name: rest.compiled_us for rest in tree.rest} == {"outside the modules": 90.0}


def test_a_script_has_the_times_of_one_call_of_each_region():
    snapshot = start_snapshot(ev.Job(run=1, file="/m/train.py", source=""))
    for number, root in enumerate(("Generator", "Critic")):
        node = ev.FxNode(
            name="a",
            op="call_function",
            target="linear",
            dtype="f32",
            shape=("2",),
            module="self",
            location=LINE,
        )
        module = ev.CapturedModule(source="self", type=root, path="", root=root)
        graph = f"{number}/0"
        post = ev.FxNode(name="post", op="call_function", target="aten.mm", dtype="f32", shape=("2",), origins=("a",))
        for event in (
            ev.GraphCaptured(
                run=1, graph=graph, ops=1, nodes=(node,), code="", module="", root=root, modules=(module,)
            ),
            ev.AtenGraph(run=1, graph=graph, phase="forward", stage="post_grad", nodes=(post,), code=""),
            ev.Kernel(run=1, graph=graph, phase="forward", name="cpp", language="cpp", source="", nodes=("post",)),
        ):
            snapshot = snapshot.apply(event)

    def examined(region: int, graph: str, us: float) -> ev.CallExamined:
        part = ev.CallPart(kind="kernel", name="cpp", graph=graph, phase="forward", us=us, low_us=us, high_us=us)
        lines = ev.EagerLinesTimed(
            run=1, call_us=2 * us, lines=(),
            modules=(ev.EagerModule(path="", root=("Generator", "Critic")[region % 2], type="", us=2 * us),),
        )  # fmt: skip
        return ev.CallExamined(
            run=1, region=region, call=2, inputs=(), calls=1, compiles=0, backward=False, held=0, eager_lines=lines,
            profile=ev.CallProfiled(run=1, total_us=us + 10, repeats=1, parts=(part,)),
        )  # fmt: skip

    evaluation = replace(examined(0, "1/0", 30.0), call=9)
    for call in (examined(0, "0/0", 80.0), evaluation, examined(1, "1/0", 30.0), examined(2, "0/0", 80.0)):
        snapshot = snapshot.apply(call)
    tree = timed_tree(snapshot)
    rows = [(row.path, row.eager_us, row.compiled_us) for row in tree.rows]
    assert rows == [("", 220.0, 130.0), ("Generator", 160.0, 80.0), ("Critic", 60.0, 30.0)]
    assert sum(rest.compiled_us or 0.0 for rest in tree.rest) == pytest.approx(20.0)
    assert tree.calls == 2, "the third region runs the code of the first one, whose time is known"
    assert "one call of each of 2 regions" in text(snapshot)


def test_the_view_names_the_longest_module_and_whether_any_repeat():
    snapshot, profiled = profiled_layers(3)
    shown = text(snapshot.apply(profiled), 120).splitlines()
    assert " ".join(map(str.strip, shown[:2])) == (
        "Most time: layers.0 and 2 that are equal to it, 108 µs compiled; longest in layers.0: mlp, 35.0 µs. "
        "1 group of equal modules."
    )
    assert text(run(layer(0))).splitlines()[0].strip() == "No modules of a list are equal."


def test_two_modules_that_take_about_as_long_are_both_named():
    snapshot, profiled = profiled_layers(2)
    tree = timed_tree(snapshot.apply(profiled))
    at = next(index for index, row in enumerate(tree.rows) if row.path == "layers.0.norm")

    def longest(us: float) -> str:
        rows = (*tree.rows[:at], replace(tree.rows[at], compiled_us=us), *tree.rows[at + 1 :])
        return summarize_modules(replace(tree, rows=rows))

    assert "longest in layers.0: mlp, 35.0 µs and norm, 33.0 µs." in longest(33.0)
    assert "longest in layers.0: mlp, 35.0 µs." in longest(20.0)


def test_the_view_names_the_ops_of_the_model_itself_if_they_take_most_time():
    snapshot, profiled = profiled_layers(3)
    tree = timed_tree(snapshot.apply(profiled))
    assert "model's own ops" not in summarize_modules(tree)
    own = replace(tree, rest=(RestTime(OWN, None, 500.0), *tree.rest))
    assert summarize_modules(own).startswith(
        "Most time: the model's own ops, outside of the modules in it, 500 µs compiled; longest innermost module: "
        "layers.0"
    )


def test_a_narrow_view_keeps_the_times_and_explains_only_the_columns_that_it_has():
    snapshot, profiled = profiled_layers(3)
    wide, narrow, untimed = (
        " ".join(text(each, width).split())
        for each, width in ((snapshot.apply(profiled), 120), (snapshot.apply(profiled), 44), (snapshot, 44))
    )
    assert "Eager: " not in narrow
    assert "Compiled: each kernel" in wide
    assert "Compiled: each kernel" in narrow
    assert "module kernels compiled " in narrow
    assert narrow.endswith("z also shows ops, eager, params.")
    assert untimed.endswith("z also shows eager, compiled, params."), "there are no times yet"
