"""Line numbers of the keys in a TOML file, which Python's parser does not give."""

from __future__ import annotations

import tomllib
from typing import Any

Key = tuple[str | int, ...]
"""Names of the tables around a key, positions in arrays of tables, and the key."""

LONGEST = 500
"""Lines of the longest value. What follows a longer one has no line, so that a hostile file costs little time."""


def key_lines(text: str) -> dict[Key, int]:
    """Return the line on which each table and each key begins, for the text of a valid file."""
    lines, table, sizes, known = text.replace("\r\n", "\n").split("\n"), Key(), dict[Key, int](), dict[Key, int]()
    at = 0
    while at < len(lines):
        count, statement = _statement(lines, at)
        if not count:
            break
        if lines[at].lstrip().startswith("[") and statement is not None:
            table = _table(statement, sizes, is_array=lines[at].lstrip().startswith("[["))
            known.setdefault(table, at + 1)
        elif statement is not None:
            for key in _keys(statement):
                known.setdefault((*table, *key), at + 1)
        at += count
    return known


def _statement(lines: list[str], at: int) -> tuple[int, dict[str, Any] | None]:
    """Return the number of lines of the statement at a line, 0 if it is too long, and what it defines."""
    if not lines[at].strip() or lines[at].lstrip().startswith("#"):
        return 1, None
    for end in range(at + 1, min(len(lines), at + LONGEST) + 1):
        try:
            return end - at, tomllib.loads("\n".join(lines[at:end]))
        except (ValueError, RecursionError):
            continue
    return 0, None


def _table(header: dict[str, Any], sizes: dict[Key, int], *, is_array: bool) -> Key:
    """Return the key of a table from its header, and count the elements of arrays of tables in `sizes`."""
    key = Key()
    value: Any = header
    while isinstance(value, dict) and value:
        if key in sizes:
            key = (*key, sizes[key] - 1)
        name, value = next(iter(value.items()))
        key = (*key, name)
    if is_array:
        sizes[key] = sizes.get(key, 0) + 1
    return (*key, sizes[key] - 1) if key in sizes else key


def _keys(value: Any) -> list[Key]:
    """Return the keys of a table and of the tables in it."""
    if not isinstance(value, dict):
        return []
    return [key for name, inner in value.items() for key in ((name,), *((name, *rest) for rest in _keys(inner)))]
