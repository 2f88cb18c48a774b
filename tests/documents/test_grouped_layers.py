"""Graph, code, source and account of a model with equal layers: each kind once, and everything on request."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tcexplore import events as ev
from tcexplore.documents.code.device_view import device_document
from tcexplore.documents.code.fusion_view import fusion_document
from tcexplore.documents.code.kernels_view import GROUPED, kernels_document
from tcexplore.documents.document import Document, Row
from tcexplore.documents.graph.graph_view import graph_document
from tcexplore.documents.labels import labels
from tcexplore.documents.line_facts import line_facts
from tcexplore.documents.module_folds import kernel_groups, module_folds
from tcexplore.documents.source_view import source_document
from tcexplore.documents.timing.hot_lines_view import hot_lines_document
from tcexplore.documents.timing.timing_view import account_lines
from tcexplore.session import Snapshot
from tcexplore.session.call_account import call_account
from tcexplore.session.links import closure, kernel_link, line_link, node_link
from tcexplore.ui.row_search import Query, Search, own_links
from tests import fakes
from tests.snapshots import large
from tests.snapshots.codes import with_code

LAYER, LAYERS = 25, 32


@pytest.fixture(scope="module")
def run() -> Snapshot:
    return large.layered(LAYER * LAYERS, LAYER)


def rows(document: Document) -> list[Row]:
    return [document.row(index) for index in range(len(document))]


def with_text(document: Document, text: str) -> Row:
    return next(row for row in rows(document) if text in row.text)


def test_a_graph_of_equal_layers_has_few_rows(run: Snapshot):
    shown = rows(graph_document(run, frozenset(), 120))
    assert len(shown) <= 40
    folded = with_text(graph_document(run, frozenset(), 120), "blocks.1 – 31")
    assert "×31 same as blocks.0" in folded.text
    assert f"{31 * LAYER} nodes" in folded.text


def test_a_switch_shows_all_nodes_and_folds_open_layer_by_layer(run: Snapshot):
    document = graph_document(run, frozenset(), 120)
    switch = with_text(document, "grouped by module")
    assert len(graph_document(run, frozenset([switch.fold or ""]), 120)) > LAYER * LAYERS
    layers = with_text(document, "blocks.1 – 31").fold or ""
    opened = graph_document(run, frozenset([layers]), 120)
    assert len(opened) == len(document) + 31
    layer = with_text(opened, "blocks.7 ").fold or ""
    assert len(graph_document(run, frozenset([layers, layer]), 120)) == len(opened) + LAYER


def test_a_node_or_line_highlights_the_fold_that_hides_it(run: Snapshot):
    folded = with_text(graph_document(run, frozenset(), 120), "blocks.1 – 31")
    assert node_link("0/0", f"add_{7 * LAYER}") in own_links(folded)
    line = line_link(ev.Location(large.FILE, 9))
    assert not closure(run, [line]).isdisjoint(own_links(folded))
    assert folded.links[0].kind == "node"


async def test_a_search_finds_what_a_fold_hides(run: Snapshot):
    document = graph_document(run, frozenset(), 120)
    search = Search(Query(f"add_{7 * LAYER} "), document)
    await search.run(0, lambda _: None, lambda: None)
    assert [document.row(row).text for row in search.matches] == [with_text(document, "blocks.1 – 31").text]


def test_a_small_model_without_repeated_layers_is_not_grouped():
    snapshot = fakes.complete(1)
    assert not module_folds(snapshot).repeats
    assert not any("grouped" in row.text for row in rows(graph_document(snapshot, frozenset(), 120)))
    assert not kernel_groups(snapshot, snapshot.code)


def test_an_odd_layer_is_named_in_the_graph(run: Snapshot):
    (captured,) = run.graphs
    nodes = [
        replace(node, target="mul") if node.name == f"add_{9 * LAYER + 3}" else node for node in captured.nodes
    ]  # fmt: skip
    odd = replace(run, graphs=(replace(captured, nodes=tuple(nodes)),))
    document = graph_document(odd, frozenset(), 120)
    assert "differs: mul instead of add" in with_text(document, "blocks.9 ").text
    texts = "\n".join(row.text for row in rows(document))
    assert "▸ blocks.1 – 8 " in texts
    assert "▸ blocks.10 – 31 " in texts


def test_equal_kernels_are_one_row_with_their_number(run: Snapshot):
    document = kernels_document(run, frozenset(), 120)
    assert len(document) <= 40
    row = with_text(document, f"×{5 * LAYERS}")
    assert "blocks.*" in row.text
    assert len(own_links(row)) == 5 * LAYERS
    opened = kernels_document(run, frozenset([row.fold or ""]), 120)
    assert len(opened) > len(document) + 5 * LAYERS
    assert len(kernels_document(run, frozenset([GROUPED]), 120)) > len(run.code.kernels)


async def test_the_fusion_view_has_equal_kernels_as_one_row(run: Snapshot):
    document = fusion_document(run, frozenset(), 120)
    assert len(document) <= 40
    row = with_text(document, f"×{5 * LAYERS}")
    assert len([link for link in own_links(row) if link.kind == "kernel"]) == 5 * LAYERS
    assert len(fusion_document(run, frozenset([GROUPED]), 120)) > len(run.code.kernels)
    search = Search(Query("cpp_fused_add_77"), document)
    await search.run(0, lambda _: None, lambda: None)
    assert [document.row(at).text for at in search.matches] == [row.text]


def test_of_equal_kernels_one_reason_is_shown_for_each_kind_of_neighbor(run: Snapshot):
    texts = [row.text for row in rows(fusion_document(run, frozenset(), 120))]
    every = [row.text for row in rows(fusion_document(run, frozenset([GROUPED]), 120))]
    few, many = (sum("not fused with" in text for text in shown) for shown in (texts, every))
    assert few == 1
    assert any("not fused with the next ▐1▌" in text for text in texts), "of the next layer"
    assert many == len(run.code.kernels) - 1


def test_kernels_of_graphs_that_the_measured_call_does_not_run_come_last_and_say_so(run: Snapshot):
    first = run.code.kernels[0]
    part = ev.CallPart(kind="kernel", name=first.name, graph="0/1", phase="forward", us=5.0, low_us=5.0, high_us=5.0)
    measured = run
    for kernel in run.code.kernels:
        measured = measured.apply(replace(kernel, run=run.run, graph="0/1"))
    measured = measured.apply(ev.CallProfiled(run=run.run, total_us=9.0, repeats=1, parts=(part,)))
    texts = [row.text for row in rows(kernels_document(measured, frozenset(), 120))]
    idle_graph = " The measured call does not run graph 0/0: its kernels have no time."
    assert idle_graph in texts
    launches = sum(max(1, len(kernel.calls)) for kernel in run.code.kernels)
    assert any(f", {launches} launches: 1 kind, " in text for text in texts), "those of 0/1"
    kinds = [text for text in texts if text.startswith("▸ ")]
    idle = [text.endswith("not run") or "not run  " in text for text in kinds if "cpp_" in text]
    assert idle == sorted(idle)
    assert set(idle) == {False, True}
    fused = [row.text for row in rows(fusion_document(measured, frozenset(), 120))]
    assert fused.index(" 0/1 forward") < fused.index(idle_graph) < fused.index(" 0/0 forward")
    of_line = {line: line_facts(measured).kernels(line) for line in labels(measured).of_line}
    graphs = [[label.link.where for label in of_kernels] for of_kernels in of_line.values() if len(of_kernels) > 1]
    assert graphs
    assert all(known[0] == "0/1/forward" for known in graphs), "P on a line shows a kernel that runs"
    heading = with_text(graph_document(measured, frozenset(), 120), "graph 0/0")
    assert "the measured call does not run it" in heading.text
    saved = next(text for text in fused if text.startswith(" fusion saves "))
    assert saved == next(r.text for r in rows(fusion_document(run, frozenset(), 120)) if "fusion saves" in r.text)


def test_a_graph_with_dynamic_sizes_that_runs_instead_is_named(run: Snapshot):
    first = run.code.kernels[0]
    part = ev.CallPart(kind="kernel", name=first.name, graph="0/1", phase="forward", us=5.0, low_us=5.0, high_us=5.0)
    symbol = ev.Symbol(name="s23", hint="4", sources=(ev.SymbolSource(name="x", kind="size", dim=0),))
    measured = run.apply(replace(first, run=run.run, graph="0/1"))
    measured = measured.apply(ev.CallProfiled(run=run.run, total_us=9.0, repeats=1, parts=(part,)))
    dynamic = measured.apply(ev.GraphSymbols(run=run.run, graph="0/1", symbols=(symbol,)))
    instead = "0/1 runs in place of 0/0: the same function with dynamic sizes (s23=4 when it was traced)."
    for shown, expected in ((measured, False), (dynamic, True)):
        texts = " ".join(row.text.strip() for row in rows(kernels_document(shown, frozenset(), 200)))
        assert (instead in texts) is expected


async def test_a_search_finds_the_source_of_an_equal_kernel(run: Snapshot):
    document = kernels_document(run, frozenset(), 120)
    search = Search(Query("cpp_fused_add_77"), document)
    await search.run(0, lambda _: None, lambda: None)
    assert len(search.matches) == 1


def test_the_roofline_has_equal_kernels_as_one_row_with_their_sum(run: Snapshot):
    """A GPT of 32 layers has about two hundred matrix products, of six kinds."""
    for kernel in run.code.kernels:
        run = run.apply(
            ev.RooflinePoint(
                run=run.run, graph="0/0", phase="forward", kernel=kernel.name, target="native", bytes=2048, flops=4096,
                intensity=2.0, bound="memory", implied_us=0.5, memory_peak=300e9, peak=30.3e12, precision="fp32",
            )
        )  # fmt: skip
    texts = [row.text for row in rows(device_document(run, frozenset(), 120))]
    kernels = [text.split() for text in texts if "memory" in text and "KiB" in text]
    assert [text[1:] for text in kernels] == [
        [f"×{5 * LAYERS}", "80.0", "µs", "100%", "memory", "320.0", "KiB", "0.7", "M", "2.00"]
    ]


def test_the_account_has_equal_kernels_as_one_part(run: Snapshot):
    parts = tuple(
        ev.CallPart(kind="kernel", name=kernel.name, graph="0/0", phase="forward", us=2.0, low_us=1.0, high_us=3.0)
        for kernel in run.code.kernels
    )
    account = call_account(ev.CallProfiled(run=1, total_us=400.0, repeats=3, parts=parts), None)
    assert account is not None
    lines = list(account_lines(account, kernel_groups(run, run.code)))
    assert lines[0].time == "320 µs"
    assert "blocks.*" in lines[0].name


def test_the_lines_of_equal_layers_are_grouped_by_class(run: Snapshot):
    lines = tuple(
        ev.EagerLine(location=ev.Location(large.FILE, number), phase="forward", us=10.0) for number in range(6, 10)
    )  # fmt: skip
    timed = replace(run, eager_lines=ev.EagerLinesTimed(run=1, call_us=100.0, lines=lines))
    opened = hot_lines_document(timed, frozenset(), 120)
    head = with_text(opened, "▾ Large")  # the class with the most time is open at first
    assert "40%" in head.text
    assert "4 lines" in head.text
    closed = hot_lines_document(timed, frozenset([head.fold or ""]), 120)
    assert len(opened) == len(closed) + 4
    assert line_link(lines[0].location) in own_links(with_text(closed, "▸ Large"))


LIBRARY = """\
class Second:
    def forward(self, x):
        return x + 1


class First:
    def forward(self, x):
        x = x * 2
        return self.second(x)


def helper(x):
    return x
"""


def test_library_code_is_in_the_order_of_execution_and_by_class():
    def node(number: int, *lines: int, file: str = "/lib/layers.py") -> ev.FxNode:
        stack = tuple(ev.Location(file, line, "forward") for line in lines)
        return ev.FxNode(name=f"n{number}", op="call_function", target="add", location=stack[-1], stack=stack)

    nodes = (node(0, 8), node(1, 9, 3), node(2, 1, file="/lib/activations.py"), *(node(9 + n, 13) for n in range(3)))
    padding = "\n" * 4 + "".join(f"\ndef f{n}(x):\n    return x\n" for n in range(12))
    more = tuple(node(20 + n, 20 + 3 * n) for n in range(12))
    snapshot = replace(
        fakes.complete(1), graphs=(ev.GraphCaptured(run=1, graph="0/0", ops=4, nodes=(*nodes, *more), code=""),),
        sources=(ev.SourceRead(run=1, file="/lib/layers.py", text=LIBRARY + padding),), breaks=(), guards=(),
        skipped_frames=(), codes=(), call_account=None, eager_lines=None,
    )  # fmt: skip
    texts = [row.text.strip() for row in rows(source_document(snapshot, frozenset(), 120))]
    files = [text.split()[1] for text in texts if text.startswith("▾ ")]
    assert [file.rpartition("/")[2] for file in files][:2] == ["layers.py", "activations.py"]
    definitions = [text.split()[1] for text in texts if text.startswith("▸ ")]
    assert definitions[:3] == ["First", "Second", "helper()"]
    folded = with_text(source_document(snapshot, frozenset(), 120), "▸ Second")
    assert line_link(ev.Location("/lib/layers.py", 3)) in own_links(folded)
    opened = source_document(snapshot, frozenset([folded.fold or ""]), 120)
    assert "return x + 1" in "\n".join(row.text for row in rows(opened))


def test_kernels_of_equal_layers_are_counted_by_launches_and_kinds(run: Snapshot):
    row = with_text(kernels_document(run, frozenset(), 120), "those of equal layers once: opens all").text
    launches = sum(max(1, len(kernel.calls)) for kernel in run.code.kernels)
    assert launches > len(kernel_groups(run, run.code)) == 1
    assert f"{kernels_document(run).title}, {launches} launches: 1 kind, " in row, "what the title counts"


def test_the_row_of_the_slowest_kernel_leads_to_one_that_is_like_no_other(run: Snapshot):
    first = run.code.kernels[0]
    alone = replace(first, name="cpp_fused_head_9", nodes=("head",), scheduler_nodes=("op99",), source="head", calls=())
    grown = with_code(run, kernels=(*run.code.kernels, alone))
    parts = tuple(
        ev.CallPart(kind="kernel", name=kernel.name, graph=kernel.graph, phase=kernel.phase, us=us, low_us=us,
                    high_us=us)
        for kernel, us in ((first, 10.0), (alone, 25.0))
    )  # fmt: skip
    timed = replace(
        grown, call_account=call_account(ev.CallProfiled(run=1, total_us=100.0, repeats=4, parts=parts), None)
    )
    document = kernels_document(timed, frozenset(), 120)
    slowest = with_text(document, " slowest ")
    (target,) = (row for row in rows(document) if row.fold == slowest.target)
    assert kernel_link(alone) in own_links(target)


def test_a_kernel_of_separate_loops_says_so():
    complete = fakes.complete()
    *others, last = complete.code.kernels
    last = replace(last, scheduler_nodes=("op8", "op9"))
    code = replace(complete.code, kernels=(*others, last))
    document = fusion_document(replace(complete, codes=(code,)), frozenset(), 120)
    assert with_text(document, "▐relu▌").text.startswith("▸ ▐2▌  2 loops, not fused")
