"""Rows that are too wide: what is less important gives way first, and the line below the panes has the rest."""

from __future__ import annotations

from tcexplore.documents.document import Row, Span
from tcexplore.ui.row_painter import Shown, kept_spans, shown_part
from tests import fakes
from tests.ui.app_under_test import run_app

ROW = Row((Span("kernel 1", "heading"), Span("  reads 264 KiB, writes 256 KiB", "muted"), Span("  name", "dim")))


def test_quiet_spans_at_the_end_give_way_unless_the_row_says_which():
    assert kept_spans(ROW) == 1
    assert kept_spans(ROW._replace(kept=2)) == 2
    assert kept_spans(Row((Span("a", "muted"), Span("b", "muted")))) == 1
    assert kept_spans(Row((Span("a"), Span("b", "break"), Span("  ")))) == 2


def test_what_fits_is_shown_whole():
    assert shown_part(ROW, 80) == Shown(len(ROW.text))


def test_the_last_span_goes_first_and_a_longer_one_ends_after_a_word():
    assert shown_part(ROW, 41) == Shown(39)
    cells, shortened, cut = shown_part(ROW, 30)
    assert ROW.text[:cells] == "kernel 1  reads 264 KiB"
    assert shortened
    assert not cut


def test_few_cells_are_left_empty():
    assert shown_part(ROW, 15) == Shown(8)


def test_an_important_part_is_cut_at_the_edge():
    assert shown_part(ROW, 5) == Shown(5, cut=True)


async def test_the_line_below_the_panes_ends_with_what_is_cut():
    async with run_app(fakes.session(fakes.one_graph(7)), (160, 50)) as ui:
        await ui.press("2", "G", "up")
        assert "call_method mean" not in ui.screen.splitlines()[ui.view("graph").cursor + 3]
        peek = ui.screen.splitlines()[-3]
        assert "› mean" in peek
        assert "call_method" in peek
        await ui.press("z")
        assert "› mean" not in ui.screen.splitlines()[-3]


async def test_a_match_of_a_search_is_in_view_also_where_it_would_give_way():
    async with run_app(fakes.session(fakes.one_graph(7)), (160, 50)) as ui:
        await ui.press("2", "slash", *"call_method", "enter")
        assert any("call_method" in line for line in ui.screen.splitlines()[2:25])
