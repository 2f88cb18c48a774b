"""Ids of breaks, guards, kernels, ops and lines: equal after unrelated edits, unique in a run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tcexplore import events as ev
from tcexplore.session import Snapshot
from tcexplore.session.links import break_link, guard_link, kernel_link, line_link
from tcexplore.session.source_places import SourcePlaces
from tcexplore.session.stable_ids import is_id, link_id, links_with_id, stable_ids
from tests import fakes

SOURCE = """\
import torch


class Net(torch.nn.Module):
    def forward(self, x):
        y = torch.relu(x)
        print(y.mean())
        print(y.mean())
        return torch.nn.functional.linear(y, self.weight, self.bias)
"""


def run_of(source: str, lines: tuple[int, ...], file: str = "/tmp/net.py") -> Snapshot:
    """Return a run with a break at each of these lines."""
    run = Snapshot(run=1, file=file, source=source, config=ev.Config())
    for line in lines:
        at = ev.Location(file, line, "forward")
        run = run.apply(ev.GraphBreak(run=1, graph="0/0", registry_id="GB0059", kind="print", reason="r", location=at))
    return run


def break_ids(source: str, lines: tuple[int, ...], file: str = "/tmp/net.py") -> list[str]:
    run = run_of(source, lines, file)
    return [stable_ids(run).graph_break(broken) for broken in run.breaks]


@pytest.mark.parametrize(
    "change",
    [
        lambda text: ("# a comment\n\n" + text, 2),
        lambda text: (text.replace("class Net", "def helper(x):\n    return x\n\n\nclass Net"), 4),
        lambda text: (text.replace("        y = torch", "\n        y = torch"), 1),
        lambda text: (text.replace("print(y.mean())", "print( y.mean(), )  # shown"), 0),
        lambda text: (text.replace("relu", "sigmoid"), 0),
    ],
)
def test_the_id_of_a_break_survives_an_unrelated_edit(change: Callable[[str], tuple[str, int]]):
    text, moved = change(SOURCE)
    assert break_ids(text, (7 + moved, 8 + moved)) == break_ids(SOURCE, (7, 8))


def test_equal_statements_have_different_ids():
    first, second = break_ids(SOURCE, (7, 8))
    assert first != second
    assert is_id(first)


def test_an_id_does_not_depend_on_the_folder():
    assert break_ids(SOURCE, (7,)) == break_ids(SOURCE, (7,), "/elsewhere/net.py")


def test_another_function_is_another_place():
    renamed = SOURCE.replace("forward", "call")
    assert break_ids(renamed, (7,)) != break_ids(SOURCE, (7,))


def test_a_statement_over_several_lines_is_one_place_for_breaks():
    wrapped = SOURCE.replace("print(y.mean())\n        print", "print(\n            y.mean()\n        )\n        print")
    assert break_ids(wrapped, (8,)) == break_ids(SOURCE, (7,))


def test_a_file_that_cannot_be_parsed_falls_back_to_the_text_of_the_line():
    places = SourcePlaces("net.py", "def f(:\n    print(x)\n")
    assert places.at(2, "f").statement == "print(x)"
    assert SourcePlaces("net.py", "").at(2, "f", "print( x )").statement == "print( x )"


def test_the_lines_of_one_statement_differ():
    places = SourcePlaces("net.py", "y = f(\n    a(x),\n    b(x),\n)\n")
    assert len({places.at(line) for line in (1, 2, 3)}) == 3
    assert places.at(2) == SourcePlaces("net.py", "\n\ny = f(\n  a( x ), b(x),\n)\n").at(4)


def test_parts_of_a_run_have_ids_of_their_own():
    run = fakes.complete(6)
    ids = stable_ids(run)
    known = [
        *map(ids.graph_break, run.breaks),
        *(ids.guard(guard) for installed in run.guards for guard in installed.guards),
        *map(ids.kernel, run.code.kernels),
        *(op for graph in run.graphs for op in ids.ops(graph)),
        *(op for graph in run.code.aten_graphs for op in ids.ops(graph)),
        *(ids.line(run.file, n) for n in range(1, run.source.count("\n") + 1)),
    ]
    assert len(known) == len(set(known)) > 50
    assert all(map(is_id, known))


def test_ops_of_two_graphs_of_one_stage_have_ids_of_their_own():
    run = fakes.complete(6)
    again = replace(run.graphs[0], code="the same nodes in another part")
    parts = replace(run, graphs=(*run.graphs, again))
    ids = stable_ids(parts)
    first, second = list(ids.ops(parts.graphs[0])), list(ids.ops(again))
    assert len(first) == len(second) == len({*first, *second}) / 2 > 1
    assert first == list(stable_ids(run).ops(run.graphs[0]))


def test_a_kernel_keeps_its_id_if_torch_numbers_it_differently():
    run = fakes.complete(7)
    kernels = tuple(replace(kernel, name=f"{kernel.name}_9") for kernel in run.code.kernels)
    renamed = replace(run, codes=tuple(replace(code, kernels=kernels) for code in run.codes if code.kernels))
    assert [stable_ids(renamed).kernel(k) for k in kernels] == [stable_ids(run).kernel(k) for k in run.code.kernels]


def test_an_id_leads_to_its_part():
    run = fakes.complete(6)
    guard = next(guard for guard in run.guards[0].guards if guard.location)
    links = [
        break_link(run.breaks[0]), kernel_link(run.code.kernels[0]), guard_link(run.guards[0].graph, guard),
        line_link(ev.Location(run.file, 23)),
    ]  # fmt: skip
    for link in links:
        assert links_with_id(run, link_id(run, link)) == (link,)
    assert links_with_id(run, "b-000000000") == ()
