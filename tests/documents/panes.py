"""The documents of the panes by name."""

from __future__ import annotations

import pytest

from tcexplore.documents.breaks_view import breaks_document
from tcexplore.documents.code.kernels_view import kernels_document
from tcexplore.documents.document import Builder, Document
from tcexplore.documents.graph.graph_view import graph_document, readable_document
from tcexplore.documents.guards.guards_view import guards_document
from tcexplore.documents.output_view import output_document
from tcexplore.documents.source_view import source_document
from tcexplore.documents.style_names import NAMES
from tcexplore.documents.timing.timing_view import timing_document

BUILDERS: dict[str, Builder] = {
    "source": source_document,
    "graph": graph_document,
    "graph_code": readable_document,
    "breaks": breaks_document,
    "guards": guards_document,
    "code": kernels_document,
    "timing": timing_document,
    "output": output_document,
}


def require_stable_rows(document: Document) -> None:
    """Require single lines that are the same each time, in known styles."""
    assert len(document)
    for index in range(len(document)):
        row = document.row(index)
        assert "\n" not in row.text
        assert row == document.row(index)
        styles = {name for span in row.spans for name in span.style.split()}
        assert {name for name in styles if not name.startswith(("kernel.", "label."))} <= NAMES
    with pytest.raises(IndexError):
        document.row(len(document))
