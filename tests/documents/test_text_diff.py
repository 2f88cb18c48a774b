"""Two texts side by side."""

from __future__ import annotations

from tcexplore.documents.text_diff import text_rows
from tcexplore.session.run_diff import align


def side_by_side(before: str, after: str, width: int = 160) -> list[str]:
    changes = align(before.split("\n"), after.split("\n"), lambda line: line)
    return [row.text for row in text_rows(changes, width)]


def test_the_difference_of_two_long_lines_is_in_view():
    loop = "for(int64_t x1=static_cast<int64_t>(0L); x1<static_cast<int64_t>({}L); x1+=static_cast<int64_t>(8L))"
    (row,) = side_by_side(loop.format(128), loop.format(256))
    before, after = row.split(" │ ")
    assert "int64_t>(128L)" in before
    assert "int64_t>(256L)" in after
    assert len(before) == len(after) == 78
    assert before.startswith(" 1 - …")


def test_lines_whose_difference_is_in_view_are_whole_from_their_beginning():
    same, tail = "x = ", " + y" * 40
    (row,) = side_by_side(f"{same}a{tail}", f"{same}b{tail}")
    assert row.startswith(" 1 - x = a + y")
    short = side_by_side("a" * 60 + "1", "a" * 60 + "2")
    assert "…" not in short[0]


def test_a_line_that_is_only_on_one_side_is_not_shortened_at_its_beginning():
    (row,) = side_by_side("first", "first\nsecond")[1:]
    assert row.strip(" │") == "2 + second"


def test_a_fix_whose_line_would_be_cut_in_its_half_is_one_below_the_other():
    line = "scores = torch.where(scores.abs().max() > 50.0, scores.clamp(-50.0, 50.0), scores)"

    def shown(after: str) -> list[str]:
        return [row.text for row in text_rows(align(["a"], [after], lambda text: text), 160, uncut=True)]

    assert shown(line) == [" 1 - a", f" 1 + {line}"]
    assert " │ " in shown("b")[0]
