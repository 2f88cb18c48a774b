"""The user's kernels and ops in the graph pane, the code pane and the report."""

from __future__ import annotations

from tcexplore.documents.code.kernels_view import kernels_document
from tcexplore.documents.document import Parts
from tcexplore.documents.graph.graph_view import graph_document
from tcexplore.events import (
    CustomOpChecked,
    FxNode,
    GraphCaptured,
    Job,
    Kernel,
    KernelLine,
    Location,
    UserOp,
)
from tcexplore.report.check_report import check_report
from tcexplore.session import Snapshot
from tcexplore.session.snapshot import start_snapshot
from tcexplore.torch_text.kernel_source import definition_lines

FILE = "/f.py"
CALL = Location(FILE, 12, "forward")
SOURCE = "@triton.jit\ndef scale(x_ptr):\n    x = tl.load(x_ptr)\n    tl.store(x_ptr, x * 2)\n"
SCALE = UserOp(kind="Triton kernel", name="scale", location=Location(FILE, 4, "scale"), source=SOURCE)
POOLED = UserOp(kind="custom op", name="mylib.pooled")
WRITTEN = "@triton_heuristics.user_autotune(\n    configs=[],\n)\n@triton.jit\n" + SOURCE.partition("\n")[2]


def launched() -> Snapshot:
    hop = FxNode(name="scale_1", op="call_function", target="triton_kernel_wrapper_mutation", args="grid=(2, 1, 1)",
                 location=CALL, user_op=SCALE)  # fmt: skip
    op = FxNode(name="pooled", op="call_function", target="mylib.pooled.default", location=CALL, user_op=POOLED)
    graph = GraphCaptured(graph="0/0", ops=2, nodes=(hop, op), code="")
    lines = definition_lines(SCALE, WRITTEN, ("scale_1",))
    kernel = Kernel(graph="0/0", phase="forward", name="scale_0", language="triton", source=WRITTEN, lines=lines,
                    nodes=("scale_1",), source_lines=(CALL,), user_op=SCALE)  # fmt: skip
    extern = Kernel(graph="0/0", phase="forward", name="torch.ops.mylib.pooled.default", language="extern", source="",
                    user_op=POOLED)  # fmt: skip
    generated = Kernel(graph="0/0", phase="forward", name="triton_poi_0", language="triton", source="")
    snapshot = start_snapshot(Job(run=0, file=FILE, source=""))
    for event in (graph, kernel, extern, generated):
        snapshot = snapshot.apply(event)
    return snapshot


def texts(document: Parts) -> list[str]:
    return [document.row(index).text for index in range(len(document))]


def test_a_node_shows_the_users_kernel_and_opens_its_definition():
    closed = texts(graph_document(launched(), width=160))
    (node,) = (text for text in closed if "scale(grid=" in text)
    assert "▸ your Triton kernel, line 4" in node
    assert not any("tl.store" in text for text in closed)
    document = graph_document(launched(), frozenset(["source 0/0 scale_1"]), width=160)
    (index,) = (i for i, text in enumerate(texts(document)) if "tl.store" in text)
    assert document.row(index).location == Location(FILE, 7, "scale")


def test_a_custom_op_is_named_without_its_overload():
    (node,) = (text for text in texts(graph_document(launched(), width=160)) if "mylib.pooled" in text)
    assert "your custom op" in node
    assert "▸" not in node, "its source is unknown"


def test_the_code_pane_tells_the_users_kernels_from_generated_ones():
    rows = texts(kernels_document(launched(), width=160))
    contents = {name: next(text for text in rows if name in text) for name in ("scale_0", "pooled", "triton_poi_0")}
    assert [name for name, text in contents.items() if "yours" in text] == ["scale_0", "pooled"]
    assert any("your Triton kernel, defined at line 4" in text for text in rows)


def test_each_statement_of_a_users_kernel_has_its_line_in_the_file():
    lines = definition_lines(SCALE, WRITTEN, ("scale_1",))
    assert [(line.n, line.source[0].line) for line in lines] == [(5, 5), (6, 6), (7, 7)]
    assert definition_lines(SCALE, "def other():\n    pass\n", ()) == (
        KernelLine(n=1, nodes=(), source=(Location(FILE, 5, "scale"),)),
    )
    assert definition_lines(POOLED, WRITTEN, ()) == ()


def test_a_stale_fake_implementation_is_shown_above_the_graph_and_in_the_report():
    reason = "returns f64[8], its fake implementation f32[8]"
    snapshot = launched()
    for event in (
        CustomOpChecked(op="mylib.pooled", test="fake implementation", passed=False, reason=reason,
                        location=Location(FILE, 7)),
        CustomOpChecked(op="mylib.pooled", test="test_schema", passed=True),
    ):  # fmt: skip
        snapshot = snapshot.apply(event)
    assert "mylib.pooled has a stale fake implementation (line 7)" in texts(graph_document(snapshot, width=160))[0]
    report = "\n".join(texts(check_report(snapshot, None, (), None, 160)))
    assert reason in report
    assert "mylib.pooled  test_schema" in report
