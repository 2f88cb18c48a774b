"""Runs of lit rows, chapter by chapter."""

from __future__ import annotations

from tcexplore.documents.document import Chapter
from tcexplore.ui.lines.highlights import hits

CHAPTERS = (Chapter(10, "kernel 1"), Chapter(50, "kernel 2"), Chapter(90, "extern 1"))


def test_neighbouring_rows_are_one_hit():
    found = hits((3, 4, 8, 9, 14), {3, 4, 8, 9, 14}, ())
    assert found.starts == [3, 14], "up to three rows between two lit ones belong to the hit"


def test_a_kernel_with_statements_is_gone_to_there_and_one_without_to_its_heading():
    found = hits((10, 20, 21, 30, 50, 51, 90), {20, 21, 30}, CHAPTERS)
    assert found.starts == [20, 30, 50, 90]
    assert found.firsts == [20, 50, 90]


def test_the_list_of_kernels_is_passed_over_unless_it_is_all_there_is():
    assert hits((2, 50, 60), {60}, CHAPTERS).starts == [60]
    assert hits((2,), (), CHAPTERS).starts == [2]
    assert hits((2, 60), {2, 60}, CHAPTERS).starts == [2, 60], "a graph break above the graphs is none"


def test_a_hit_does_not_go_on_into_the_next_chapter():
    assert hits((49, 50), {49, 50}, CHAPTERS).starts == [49, 50]


def test_on_and_back_round_the_end():
    found = hits((20, 21, 30, 60), {20, 21, 30, 60}, CHAPTERS)
    assert [found.next(row, 1, chapter=False) for row in (0, 20, 21, 30, 60)] == [20, 30, 30, 60, 20]
    assert [found.next(row, -1, chapter=False) for row in (0, 20, 21, 30, 60)] == [60, 60, 20, 20, 30]
    assert [found.next(row, 1, chapter=True) for row in (0, 20, 30, 60)] == [20, 60, 60, 20]
    assert found.next(30, -1, chapter=True) == 20, "from inside a kernel back to where it begins"
    assert hits((), (), CHAPTERS).next(5, 1, chapter=False) is None


def test_which_one_it_is():
    found = hits((20, 30, 60), {20, 30, 60}, CHAPTERS)
    assert found.label(30) == "hit 2/3 in kernel 1"
    assert hits((4,), {4}, ()).label(4) == "hit 1/1"
