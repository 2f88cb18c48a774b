"""The gutter shows which node reads which: verified by following the drawn lines."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tcexplore.documents.graph.graph_gutter import Drawn, draw_gutter
from tests import fakes


def walk(drawn: list[Drawn], row: int) -> set[int]:
    """Return the rows whose lines lead to the node of `row`."""
    text, at = drawn[row].text, drawn[row].node
    starts = [at] if _line_above(drawn, row, at) else []
    for step in (-1, 1):
        column = at + step
        while 0 <= column < len(text) and text[column] not in " ":
            glyph = text[column]
            if column % 2 == 0 and glyph in "├┤┼╰╯┴":
                starts.append(column)
            if glyph in "├┤╰╯":
                break
            column += step
    return {_climb(drawn, row - 1, column) for column in starts}


def _line_above(drawn: list[Drawn], row: int, column: int) -> bool:
    return row > 0 and column < len(drawn[row - 1].text) and drawn[row - 1].text[column] in "○│├┤┼"


def _climb(drawn: list[Drawn], row: int, column: int) -> int:
    while drawn[row].node != column:
        assert drawn[row].text[column] in "│├┤┼", (row, column, drawn[row].text)
        row -= 1
    return row


def check(inputs: list[list[int]], columns: int) -> int:
    """Check that each line joins an input to its reader, and each input has a line or a mark; return the lines."""
    drawn = draw_gutter(inputs, columns, "○" * len(inputs))
    total = 0
    for row, read in enumerate(inputs):
        readers = walk(drawn, row)
        assert readers <= set(read), f"row {row} reads {read}, drawn {readers}"
        assert drawn[row].hidden == (readers != set(read))
        assert len(drawn[row].text) <= 2 * columns - 1
        total += len(readers)
    return total


@st.composite
def graphs(draw_value: st.DrawFn) -> list[list[int]]:
    size = draw_value(st.integers(1, 40))
    return [sorted(draw_value(st.sets(st.integers(0, row - 1), max_size=4))) if row else [] for row in range(size)]


@settings(max_examples=150, deadline=None)
@given(graphs(), st.integers(3, 12))
def test_every_line_joins_a_value_to_its_reader(inputs: list[list[int]], columns: int):
    check(inputs, columns)


@settings(max_examples=50, deadline=None)
@given(graphs())
def test_no_line_is_dropped_if_there_is_room(inputs: list[list[int]]):
    assert check(inputs, 50) == sum(map(len, inputs))


def test_ten_thousand_nodes():
    nodes = fakes.large.graph().nodes
    row = {node.name: index for index, node in enumerate(nodes)}
    inputs = [[row[name] for name in node.inputs] for node in nodes]
    assert check(inputs, 8) > 0.9 * sum(map(len, inputs))


def test_lines_pass_a_row_without_a_node():
    drawn = draw_gutter([[], None, [0]], 5, "○ ○")
    assert [item.text for item in drawn] == ["○", "│", "○"]
