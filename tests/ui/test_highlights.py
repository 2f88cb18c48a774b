"""Hits: runs of highlighted rows, by chapter."""

from __future__ import annotations

from tcexplore.documents.document import Chapter
from tcexplore.ui.row_search import hits

CHAPTERS = (Chapter(10, "kernel 1"), Chapter(50, "kernel 2"), Chapter(90, "E1"))


def test_neighboring_rows_are_one_hit():
    result = hits((3, 4, 8, 9, 14), {3, 4, 8, 9, 14}, ())
    assert result.starts == [3, 14], "up to three rows between two highlighted ones belong to the hit"


def test_hits_are_statements_of_a_kernel_or_else_its_heading():
    result = hits((10, 20, 21, 30, 50, 51, 90), {20, 21, 30}, CHAPTERS)
    assert result.starts == [20, 30, 50, 90]
    assert result.firsts == [20, 50, 90]


def test_the_list_of_kernels_is_skipped_unless_it_has_the_only_hits():
    assert hits((2, 50, 60), {60}, CHAPTERS).starts == [60]
    assert hits((2,), (), CHAPTERS).starts == [2]
    assert hits((2, 60), {2, 60}, CHAPTERS).starts == [2, 60], "a graph break above the graphs is none"


def test_a_hit_ends_with_its_chapter():
    assert hits((49, 50), {49, 50}, CHAPTERS).starts == [49, 50]


def test_the_next_hit_wraps_around():
    result = hits((20, 21, 30, 60), {20, 21, 30, 60}, CHAPTERS)
    assert [result.next(row, 1, chapter=False) for row in (0, 20, 21, 30, 60)] == [20, 30, 30, 60, 20]
    assert [result.next(row, -1, chapter=False) for row in (0, 20, 21, 30, 60)] == [60, 60, 20, 20, 30]
    assert [result.next(row, 1, chapter=True) for row in (0, 20, 30, 60)] == [20, 60, 60, 20]
    assert result.next(30, -1, chapter=True) == 20, "from inside a kernel back to its start"
    assert hits((), (), CHAPTERS).next(5, 1, chapter=False) is None


def test_the_label_counts_hits_and_names_the_chapter():
    result = hits((20, 30, 60), {20, 30, 60}, CHAPTERS)
    assert result.label(30) == "highlight 2/3 in kernel 1"
    assert hits((4,), {4}, ()).label(4) == "highlight 1/1"
