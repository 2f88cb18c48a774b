"""Tables of styled cells."""

from __future__ import annotations

from rich.cells import cell_len

from tcexplore.documents.document import Span
from tcexplore.documents.prose import columns


def test_columns_align_below_wide_characters():
    names = ("モデル.py", "model.py", "e\u0301tude.py")
    rows = [[(Span(name),), (Span(value),)] for name, value in zip(names, ("1 行", "22", "333"), strict=True)]
    lines = [row.text for row in columns(("file", "lines"), rows, [()] * 3)]
    assert len({cell_len(line) for line in lines}) == 1
    assert lines[1:] == [" モデル.py   1 行", " model.py      22", " e\u0301tude.py     333"]
