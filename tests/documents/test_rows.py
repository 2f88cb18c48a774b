"""Properties of every row of every pane."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests import fakes
from tests.documents.panes import BUILDERS, require_stable_rows

RUNS = (fakes.complete, fakes.one_graph, fakes.recompiled, fakes.running, fakes.failed, fakes.nothing_compiled)


@pytest.mark.parametrize("pane", BUILDERS)
def test_rows_are_single_stable_lines_in_known_styles(pane: str):
    for run in RUNS:
        require_stable_rows(BUILDERS[pane](run(), frozenset(), 60))


@pytest.mark.parametrize("pane", [name for name in BUILDERS if name not in ("source", "graph_code", "code", "graph")])
def test_prose_fits_the_pane(pane: str):
    document = BUILDERS[pane](fakes.nothing_compiled(), frozenset(), 38)
    assert all(len(document.row(index).text) < 38 for index in range(len(document)))


def test_documents_import_neither_textual_nor_torch_and_of_rich_only_cells():
    code = "import sys, tests.documents.panes; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    loaded = set(done.stdout.split())
    assert not loaded & {"textual", "torch"}
    assert {name for name in loaded if name.startswith("rich") and "._" not in name} == {"rich", "rich.cells"}
