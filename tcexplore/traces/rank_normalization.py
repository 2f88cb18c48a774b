"""Texts of a trace without what legitimately differs between ranks: devices, ids, temporary paths, group names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from tcexplore.session.run_diff import without_device

_SUBSTITUTIONS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"\b0x[0-9a-fA-F]{4,}\b"), "0x"),
    (re.compile(r"(?<!\d)\d{8,}(?!\d)"), "N"),
    (re.compile(r"(___check_(?:type|obj)_id\(.*?), \d+\)"), r"\1)"),
    (re.compile(r"(?:/[\w.@+-]+)*/(?:tmp|temp|scratch|var/folders)/[^\s'\",:)]*"), "/tmp"),
    (re.compile(r"/[\w./@+-]*torchinductor_[^\s'\",:)]*"), "/tmp"),
    (re.compile(r"\bFile: [^:]*?([^/:]+\.py):(\d+) in (\S+), code: .*"), r"File: \1:\2 in \3"),
    (re.compile(r"__compiled_fn_\w+|___stack\d+|__resume_at_\d+_\d+"), "__compiled"),
    (re.compile(r"\brank[_ =:]*\d+\b"), "rank"),
)
"""Patterns of everything but devices, with their replacements, in order."""

_GROUP = re.compile(r"(_c10d_functional(?:_autograd)?\.\w+(?:\.\w+)?\()(.*?)(\)[;\s]|\)$)", re.M)
_QUOTED = re.compile(r"'([^']*)'")
_REDUCTIONS = frozenset({"sum", "avg", "max", "min", "product", "band", "bor", "bxor", "premulsum", "unused"})


@lru_cache(maxsize=512)
def normalize(text: str) -> str:
    """Return a text that is equal on ranks that do the same."""
    text = without_device(text)
    for pattern, replacement in _SUBSTITUTIONS:
        text = pattern.sub(replacement, text)
    return _number_groups(text) if "c10d_functional" in text else text


def _number_groups(text: str) -> str:
    """Replace the names of process groups by numbers in the order of their first use: each rank has other names."""
    numbers = {name: number for number, name in enumerate(group_names(text))}

    def rename(quoted: re.Match[str]) -> str:
        return f"'group {numbers[quoted[1]]}'" if quoted[1] in numbers else quoted[0]

    return _GROUP.sub(lambda call: call[1] + _QUOTED.sub(rename, call[2]) + call[3], text)


def group_names(graph: str) -> list[str]:
    """Return the names of process groups in the collectives of a graph, in the order of their first use."""
    quoted = (name for call in _GROUP.findall(graph) for name in _QUOTED.findall(call[1]))
    return [name for name in dict.fromkeys(quoted) if name not in _REDUCTIONS]


_NUMBER = re.compile(r"(?<![\w.])-?\d+(?![\w.])")
_SLICING = ("getitem", "narrow", "select", "slice", "split", "chunk", "tensor_split", "index_select")


def follows_rank(mine: str, other: str, my_rank: int, other_rank: int, *, slicing_only: bool = True) -> bool:
    """Return whether two argument texts differ only in numbers that are multiples of the ranks' numbers.

    A rank reads its part of a tensor, as in `weight[:, rank * 4 : (rank + 1) * 4]`. The numbers are `k * rank` or
    `k * (rank + 1)` on both ranks.
    """
    if _NUMBER.sub("#", mine) != _NUMBER.sub("#", other) or (slicing_only and not mine.startswith(_SLICING)):
        return False
    numbers = zip(map(int, _NUMBER.findall(mine)), map(int, _NUMBER.findall(other)), strict=True)
    unequal = [(a, b) for a, b in numbers if a != b]
    return any(_are_multiples(unequal, *ranks) for ranks in rank_pairs(my_rank, other_rank))


def rank_pairs(my_rank: int, other_rank: int) -> Iterator[tuple[int, int]]:
    """Yield two ranks in each numbering: over all machines, on one machine, and by machine, for usual sizes."""
    yield my_rank, other_rank
    for size in (2, 4, 8, 16):
        yield my_rank % size, other_rank % size
        yield my_rank // size, other_rank // size


def _are_multiples(pairs: list[tuple[int, int]], mine: int, other: int) -> bool:
    """Return whether all pairs are `k * rank` or `k * (rank + 1)` with one `k`."""
    if mine == other:
        return False
    steps = {(a - b) / (mine - other) for a, b in pairs}
    step = next(iter(steps), 0)
    return len(steps) == 1 and step != 0 and all(a - step * mine in (0, step) for a, _ in pairs)
