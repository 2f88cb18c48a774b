"""Alignment of long sequences, correct and not in quadratic time."""

from __future__ import annotations

import random

import pytest

from tcexplore.session.run_diff import pairs


def edited(lines: list[str], rng: random.Random, share: float) -> list[str]:
    """Return the lines with some dropped, duplicated or replaced."""
    result: list[str] = []
    for number, line in enumerate(lines):
        chance = rng.random() / share
        result += [] if chance < 0.3 else [line, line] if chance < 0.6 else [f"new {number}"] if chance < 1 else [line]
    return result


@pytest.mark.parametrize("share", [0.01, 0.5])
@pytest.mark.parametrize("kinds", [3, 700, 10**6])
def test_pairs_are_equal_and_ascend(share: float, kinds: int):
    rng = random.Random(7)
    before = [f"line {rng.randrange(kinds)}" for _ in range(3000)]
    after = edited(before, rng, share)
    inrngs = list(pairs(before, after))
    assert all(before[i] == after[j] for i, j in inrngs)
    assert inrngs == sorted(set(inrngs))
    assert len({i for i, _ in inrngs}) == len({j for _, j in inrngs}) == len(inrngs)


def test_equal_lines_are_paired_among_many_lines():
    before = [f"auto tmp{n} = tmp{n - 1} * {n}.5;" for n in range(50_000)]
    after = [line.replace("5.5;", "6.5;") for line in before]
    inrngs = list(pairs(before, after))
    assert inrngs == [(n, n) for n in range(50_000) if n % 10 != 5]


def test_sequences_without_equal_items_have_no_pairs():
    assert list(pairs(["a"] * 2000, ["b"] * 2000)) == []
    assert list(pairs([], ["b"])) == []
    assert list(pairs(["a"] * 600, ["a"] * 600)) == [(n, n) for n in range(600)]
