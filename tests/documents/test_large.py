"""Documents of large runs: rows are built on demand, in microseconds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from time import thread_time

import pytest

from tcexplore.documents.document import Document
from tcexplore.session import Snapshot
from tcexplore.session.links import closure, node_link
from tcexplore.session.run_diff import run_diff
from tests import fakes
from tests.documents.panes import BUILDERS
from tests.documents.views import VIEWS


@pytest.fixture(scope="module")
def run() -> Snapshot:
    return fakes.large.snapshot()


def best(timed: Callable[[], object], times: int = 7) -> float:
    """Return the CPU seconds of the fastest of several tries."""
    tries = []
    for _ in range(times):
        start = thread_time()
        timed()
        tries.append(thread_time() - start)
    return min(tries)


def all_open(run: Snapshot, pane: str) -> Document:
    closed = BUILDERS[pane](run, frozenset(), 78)
    folds = (closed.row(index).fold for index in range(len(closed)))
    return BUILDERS[pane](run, frozenset(fold for fold in folds if fold and fold.startswith("module")), 78)


def test_row_of_ten_thousand_nodes_takes_under_50_microseconds(run: Snapshot):
    document = all_open(run, "graph")
    assert len(document) > 10_000
    sample = range(4000, 4500)
    assert best(lambda: [document.row(index) for index in sample]) / len(sample) < 50e-6


def test_modules_of_a_large_graph_are_folded(run: Snapshot):
    assert len(BUILDERS["graph"](run, frozenset(), 78)) < 1000


@pytest.mark.parametrize("pane", ["graph", "code", "guards", "source"])
def test_large_document_is_built_quickly(run: Snapshot, pane: str):
    BUILDERS[pane](run, frozenset(), 78)
    assert best(lambda: BUILDERS[pane](run, frozenset(), 78)) < 0.05


def test_any_page_of_fifty_thousand_lines(run: Snapshot):
    document = BUILDERS["code"](run, frozenset(), 78)
    assert len(document) > 50_000
    pages = iter(range(1000, 50_000, 5000))
    assert best(lambda: [document.row(index + step) for index in [next(pages)] for step in range(50)]) < 0.05


def test_rebuilt_document_reuses_unchanged_parts(run: Snapshot):
    BUILDERS["graph"](run, frozenset(), 78)
    again = best(lambda: BUILDERS["graph"](replace(run, output=()), frozenset(), 78))
    other = best(lambda: BUILDERS["graph"](replace(run, graphs=(replace(run.graphs[0]),)), frozenset(), 78), times=2)
    assert again < other / 3


@pytest.fixture(scope="module")
def lowered() -> Snapshot:
    return fakes.large.lowered()


@pytest.mark.parametrize("view", VIEWS)
def test_view_of_ten_thousand_nodes_and_300_kernels_is_built_quickly(lowered: Snapshot, view: str):
    assert best(lambda: VIEWS[view](lowered, frozenset(), 100)) < 0.05


def test_selecting_in_a_large_run_is_quick(lowered: Snapshot):
    links = (node_link("0/0", "add_5000"),)
    assert len(closure(lowered, links)) >= 4
    assert best(lambda: closure(lowered, links)) < 0.05


def test_diff_of_two_large_runs_is_quick(lowered: Snapshot):
    graph = lowered.graphs[0]
    other = replace(lowered, graphs=(replace(graph, nodes=graph.nodes[:5000] + graph.nodes[5010:]),))
    assert best(lambda: run_diff(lowered, other), times=2) < 1.0
