"""Documents of large runs: rows are built on demand, unchanged parts are kept, and work grows no faster than a run.

Work is counted in calls; `tests/benchmarks/page_down.py` and `select_line.py` measure times.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from tcexplore.documents.document import Document
from tcexplore.session import Snapshot
from tcexplore.session.links import closure, node_link
from tcexplore.session.run_diff import run_diff
from tests import fakes
from tests.documents.panes import BUILDERS
from tests.documents.views import VIEWS
from tests.work import calls_in

TIMES = 10
"""The size of the large runs over that of the small ones."""

NEARLY_SAME, NEARLY_LINEAR = 1.1, 1.1 * TIMES


@pytest.fixture(scope="module")
def run() -> Snapshot:
    return fakes.large.snapshot()


@pytest.fixture(scope="module")
def small_run() -> Snapshot:
    return fakes.large.snapshot(10_000 // TIMES, 50_000 // TIMES, 2_000 // TIMES)


@pytest.fixture(scope="module")
def lowered() -> Snapshot:
    return fakes.large.lowered()


@pytest.fixture(scope="module")
def small_lowered() -> Snapshot:
    return fakes.large.lowered(10_000 // TIMES, 300 // TIMES)


def all_open(run: Snapshot, pane: str) -> Document:
    closed = BUILDERS[pane](run, frozenset(), 78)
    folds = (closed.row(index).fold for index in range(len(closed)))
    return BUILDERS[pane](run, frozenset(fold for fold in folds if fold and fold.startswith("module")), 78)


def calls_of_rows(document: Document, first: int, count: int = 50) -> int:
    return calls_in(lambda: [document.row(index) for index in range(first, first + count)])


def calls_of_build(run: Snapshot, pane: str) -> int:
    """Return the calls of building a document again."""
    BUILDERS[pane](run, frozenset(), 78)
    return calls_in(lambda: BUILDERS[pane](run, frozenset(), 78))


def test_a_row_of_ten_thousand_nodes_takes_no_more_work_than_one_of_a_thousand(run: Snapshot, small_run: Snapshot):
    document, small = all_open(run, "graph"), all_open(small_run, "graph")
    assert len(document) > 10_000
    assert calls_of_rows(document, 400, 400) <= NEARLY_SAME * calls_of_rows(small, 400, 400)


def test_modules_of_a_large_graph_are_folded(run: Snapshot):
    assert len(BUILDERS["graph"](run, frozenset(), 78)) < 1000


@pytest.mark.parametrize("pane", ["graph", "code", "source"])
def test_a_large_document_is_built_without_its_rows(run: Snapshot, small_run: Snapshot, pane: str):
    assert calls_of_build(run, pane) <= NEARLY_SAME * calls_of_build(small_run, pane)


def test_a_document_of_guards_takes_a_few_calls_for_each_guard(run: Snapshot):
    assert calls_of_build(run, "guards") < 10 * len(run.guards[0].guards)


def test_any_page_of_fifty_thousand_lines_takes_the_same_work(run: Snapshot):
    document = BUILDERS["code"](run, frozenset(), 78)
    assert len(document) > 50_000
    first = calls_of_rows(document, 1000)
    assert all(calls_of_rows(document, at) <= NEARLY_SAME * first for at in range(6000, 50_000, 5000))


def test_rebuilt_document_reuses_unchanged_parts(run: Snapshot):
    BUILDERS["graph"](run, frozenset(), 78)
    again = calls_in(lambda: BUILDERS["graph"](replace(run, output=()), frozenset(), 78))
    other = calls_in(lambda: BUILDERS["graph"](replace(run, graphs=(replace(run.graphs[0]),)), frozenset(), 78))
    assert again < other / 100


@pytest.mark.parametrize("view", VIEWS)
def test_the_work_for_a_view_grows_no_faster_than_the_run(lowered: Snapshot, small_lowered: Snapshot, view: str):
    small = calls_in(lambda: VIEWS[view](small_lowered, frozenset(), 100))
    assert calls_in(lambda: VIEWS[view](lowered, frozenset(), 100)) <= NEARLY_LINEAR * small


def test_the_links_of_a_large_run_are_indexed_once(lowered: Snapshot):
    links = (node_link("0/0", "add_5000"),)
    assert len(closure(lowered, links)) >= 4
    assert calls_in(lambda: closure(lowered, links)) < 500


def test_the_work_for_a_diff_grows_no_faster_than_the_runs(lowered: Snapshot, small_lowered: Snapshot):
    def calls_of_diff(run: Snapshot) -> int:
        graph, half = run.graphs[0], len(run.graphs[0].nodes) // 2
        other = replace(run, graphs=(replace(graph, nodes=graph.nodes[:half] + graph.nodes[half + 10 :]),))
        return calls_in(lambda: run_diff(run, other))

    assert calls_of_diff(lowered) <= NEARLY_LINEAR * calls_of_diff(small_lowered)
