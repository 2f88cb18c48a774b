"""Tables of styled cells."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from tcexplore.documents.document import Span
from tcexplore.documents.prose import Column, columns, table


def test_columns_align_below_wide_characters():
    names = ("モデル.py", "model.py", "e\u0301tude.py")
    rows = [[(Span(name),), (Span(value),)] for name, value in zip(names, ("1 行", "22", "333"), strict=True)]
    lines = [row.text for row in columns(("file", "lines"), rows, [()] * 3)]
    assert len({cell_len(line) for line in lines}) == 1
    assert lines[1:] == [" モデル.py   1 行", " model.py      22", " e\u0301tude.py     333"]


@pytest.mark.parametrize("width", [90, 70, 50, 40])
def test_a_table_fits_its_width_by_cutting_names_and_then_leaving_out_columns(width: int):
    named: tuple[Column[str], ...] = (
        Column("kernel", str, left=True, squeezable=True),
        Column("verdict", lambda _: "differs"),
        Column("error", lambda _: "1.2e-07", drop=1),
        Column("eager's", lambda _: "3.4e-07", drop=2),
    )
    names = [f"cpp_fused_{'mul_' * 12}first", f"cpp_fused_{'mul_' * 12}second"]
    head, *lines = (row.text for row in table(named, names, width=width))
    assert max(map(cell_len, (head, *lines))) <= width
    assert [line.split()[0][-5:] for line in lines] == ["first", "econd"]
    assert ("verdict" in head, "error" in head, "eager's" in head) == (True, True, width >= 50)


def test_a_column_takes_no_room_until_a_row_has_a_value_for_it():
    named: tuple[Column[tuple[str, str | None]], ...] = (
        Column("mode", lambda row: row[0], left=True, always=True),
        Column("first call", lambda row: row[1]),
        Column("graphs", lambda _: "1"),
    )
    heads = [
        next(table(named, rows)).text.split() for rows in ([("lite", None)], [("lite", None), ("default", "2.5 s")])
    ]
    assert heads == [["mode", "graphs"], ["mode", "first", "call", "graphs"]]
