"""Labels, fitted rows, the history strip, the distribution plot."""

from __future__ import annotations

from dataclasses import replace

from rich.cells import cell_len

from tcexplore import events as ev
from tcexplore.documents.labels import Labels, format_lines, format_stride, format_tensor, labels, op_name
from tcexplore.documents.locations import places
from tcexplore.documents.prose import fitted, piece, wrapped
from tcexplore.documents.strip import history_row
from tcexplore.documents.timing.timing_view import count_outliers, draw_bars, fit_axis
from tcexplore.session import Session
from tcexplore.session.links import kernel_link
from tests import fakes
from tests.snapshots.codes import with_code


def test_kernel_has_one_number_and_color_everywhere():
    run = fakes.complete()
    known = labels(run)
    assert [known.kernel[kernel_link(kernel)].text for kernel in run.code.kernels] == ["E1", "▐1▌", "E2", "▐2▌"]
    assert [label.text for label in known.of_node["0/0", "layer_norm"]] == ["▐1▌"]
    assert labels(replace(run, timing=None)) is known, "timing changes no label"


def test_many_lines_of_a_file_are_ranges():
    def lines(*source_lines: tuple[str, int]) -> str:
        kernel = fakes.complete().code.kernels[1]
        locations = tuple(ev.Location(file=file, line=line) for file, line in source_lines)
        return format_lines(replace(kernel, source_lines=locations), places("model.py"))

    assert lines(("model.py", 7)) == "line 7"
    assert lines(("model.py", 9), ("blocks.py", 7), ("model.py", 8)) == "lines 9, 8, blocks.py:7"
    many = [("blocks.py", line) for line in (9, 7, 8, 20, 30, 31)]
    assert lines(("model.py", 4), *many) == "lines 4, blocks.py:7-9, 20, 30-31"


def test_labels_name_the_ops_of_the_source():
    run = fakes.complete()
    fused = labels(run).fused(run.code.kernels[1])
    assert [label.text for label in fused] == ["layer_norm", "gelu", "mul", "mean"]
    assert {label.style for label in fused} == {"kernel.0"}, "ops have the color of their kernel"


def test_labels_fall_back_to_aten_ops():
    run = with_code(fakes.complete(), aten_graphs=())
    assert [label.text for label in labels(run).fused(run.code.kernels[1])] == ["layer_norm", "gelu", "mul", "mean"]


def test_names_of_ops():
    assert op_name("aten.mul.Tensor") == "mul"
    assert op_name("aten.native_layer_norm.default") == "layer_norm"
    assert op_name("torch.nn.functional.gelu") == "gelu"
    assert op_name("relu") == "relu"


def test_stride_is_shown_only_if_not_contiguous():
    node = fakes.complete().graphs[0].nodes[5]
    assert format_tensor(node) == "f32[64, 1024]"
    assert format_stride(node) == ""
    assert format_stride(replace(node, contiguous=False, stride=("1", "64"))) == "stride [1, 64]"


def test_least_important_piece_is_dropped_first():
    pieces = [piece("breaks"), piece("graphs", priority=2), piece("since", priority=3)]
    assert fitted(pieces, 22).text == "breaks  graphs  since"
    assert fitted(pieces, 20).text == "breaks  graphs"
    assert fitted(pieces, 8).text == "breaks"
    assert fitted(pieces, 4).text == "bre…"
    assert fitted([piece("left")], 12, [piece("right")]).text == "left   right"


def test_history_always_contains_the_run_in_view():
    runs = tuple(fakes.complete(run) for run in range(1, 31))
    for pinned in (1, 2, 15, 29, 30):
        row = history_row(Session(runs=runs, pinned=pinned), 60)
        assert f"[{pinned} " in row.text
        assert len(row.text) <= 60


def test_plot_leaves_outliers_out():
    values = [*(100.0 + n % 10 for n in range(100)), 9000.0]
    on = fit_axis([values], 10)
    assert on is not None
    assert on.high < 120
    assert count_outliers(values, on) == 1
    drawn = draw_bars(values, on)
    assert len(drawn) == 10
    assert set(drawn) <= set(" ▁▂▃▄▅▆▇█")
    assert max(drawn) == "█"


def test_no_axis_without_samples():
    assert fit_axis([[], []], 10) is None


def test_wide_characters_take_two_columns():
    name = piece("模型.py", "title")
    assert cell_len(fitted([name], 20, [piece("live")]).text) == 20
    assert fitted([name, piece("more", priority=1)], 12).text == "模型.py"
    assert fitted([name], 4).text == "模…"


def test_wide_characters_wrap_within_the_pane():
    rows = list(wrapped("変換" * 40 + " the end", 40, lead="· "))
    assert all(cell_len(row.text) < 40 for row in rows)
    assert "".join(row.text.strip(" ·") for row in rows) == "変換" * 40 + "the end"


def test_a_name_that_is_too_long_for_a_row_is_cut_after_a_separator():
    rows = wrapped("the kernel of aten._scaled_dot_product_flash_attention_for_cpu", 40)
    assert [row.text.strip() for row in rows] == [
        "the kernel of", "aten._scaled_dot_product_flash_", "attention_for_cpu",
    ]  # fmt: skip
    assert [row.text.strip() for row in wrapped("a" * 50, 40)] == ["a" * 37, "a" * 13], "there is no separator"


def test_a_kernel_that_reads_a_product_through_a_view_does_not_compute_it():
    def node(name: str, target: str, *origins: str) -> ev.FxNode:
        return ev.FxNode(name=name, op="call_function", target=target, origins=origins)

    graph = ev.GraphCaptured(
        graph="0/0", code="", ops=3,
        nodes=(node("linear", "torch.nn.functional.linear"), node("chunk", "chunk"), node("relu", "relu")),
    )  # fmt: skip
    lowered = ev.AtenGraph(
        graph="0/0", phase="forward", stage="post_grad",
        nodes=(
            node("addmm", "aten.addmm.default", "linear"), node("view", "aten.view.default", "linear"),
            node("split", "aten.split.Tensor", "chunk"), node("relu_1", "aten.relu.default", "relu"),
        ),
    )  # fmt: skip
    product, fused = (
        ev.Kernel(graph="0/0", phase="forward", name=name, language=language, source="", nodes=nodes)
        for name, language, nodes in (
            ("extern_kernels.addmm", "extern", ("addmm",)), ("k", "cpp", ("view", "split", "relu_1"))
        )
    )  # fmt: skip
    known = Labels((graph,), (lowered,), (product, fused))
    assert [label.text for label in known.fused(fused)] == ["chunk", "relu"]
    assert [label.text for label in known.of_node["0/0", "linear"]] == ["E1"]
