"""Edits keep the rest of the text."""

from __future__ import annotations

import pytest

from tcexplore.fixes.syntax_source import Edit, applied, diff, line_map, lines_of


def test_edits_keep_every_other_character():
    assert applied("a  b\t#c\r\n", [Edit(5, 5, "x"), Edit(0, 1, "")]) == "  b\tx#c\r\n"
    with pytest.raises(ValueError, match="two edits"):
        applied("abc", [Edit(0, 2, ""), Edit(1, 3, "")])


def test_lines_end_where_python_ends_them():
    assert lines_of("a\r\nb\rc\x0c\u2028d\n") == ["a\r\n", "b\r", "c\x0c\u2028d\n"]
    assert lines_of("") == []


def test_lines_that_a_change_does_not_touch_are_mapped():
    text = "one\ntwo\nthree\nfour\n"
    inserted = [Edit(4, 4, "new\n")]
    assert line_map(text, inserted) == {1: 1, 3: 2, 4: 3, 5: 4}
    joined = [Edit(4, 13, "2 3")]
    assert line_map(text, joined) == {1: 1, 3: 4}
    assert line_map(text, [Edit(0, 0, "x")]) == {2: 2, 3: 3, 4: 4}


def test_a_diff_names_the_file():
    assert diff("a\n", "b\n", "f.py")[:2] == ("--- f.py", "+++ f.py")
