"""The statement at which two ranks go apart, from the lines of their next ops."""

from __future__ import annotations

import pytest

from tcexplore.traces.branch_conditions import condition_at, condition_between

SOURCE = """\
def f(x, flag, n):
    x = x + 1
    if flag:
        if x.ndim:
            x = x.sin()
    elif n:
        x = x.tan()
    else:
        x = x.cos()
    for _ in range(n):
        x = x * 2
    if n > 3:
        return x
    x = x.exp()
    return x.abs() if flag else x.log()

def g(x):
    return x.relu()

def h(x, mode):
    if mode == 1:
        x = x.sin()
    elif mode == 2:
        x = x.cos()
    elif mode == 3:
        x = x.tan()
    return x.exp()
"""


@pytest.mark.parametrize(
    ("line", "other", "before", "expected"),
    [
        (5, 9, 2, "if flag:"),
        (7, 9, 2, "elif n:"),
        (5, 11, 2, "if flag:"),
        (11, 14, 9, "for _ in range(n):"),
        (14, None, 11, "if n > 3:"),
        (15, 15, 14, "return x.abs() if flag else x.log()"),
        (5, 18, 2, None),
        (2, 2, None, None),
        (22, 27, None, "if mode == 1:"),
        (22, 24, None, "if mode == 1:"),
        (24, 27, None, "elif mode == 2:"),
        (27, 26, None, "elif mode == 3:"),
        (24, None, None, "elif mode == 2:"),
    ],
)
def test_the_outermost_statement_that_separates_two_lines(
    line: int, other: int | None, before: int | None, expected: str | None
):
    found = condition_between(SOURCE, line, other, before)
    assert (found.text if found else None) == expected


def test_a_source_that_cannot_be_parsed_has_no_statement():
    assert condition_between("def f(:\n", 1, 2, None) is None
    assert condition_at("def f(:\n", 1) is None


def test_the_statement_of_a_line():
    found = condition_at(SOURCE, 12)
    assert found is not None
    assert (found.line, found.text) == (12, "if n > 3:")
    assert condition_at(SOURCE, 14) is None
