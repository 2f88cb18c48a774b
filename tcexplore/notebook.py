"""The code cells of a Jupyter notebook as one Python source."""

from __future__ import annotations

import json
import re
from typing import Any

MARK = "tcexplore"
"""Tag of the cells to run, or the comment `# tcexplore` as their first line. Without a marked cell, all run."""

_MARKING_COMMENT = re.compile(rf"\s*#\s*{MARK}\s*(\n|$)")
_CELL_HEAD = re.compile(r"# %% cell (\d+)$")
_IPYTHON_LINE = re.compile(r"\s*(?:[%!].*|\?.*|[\w.]+\?{1,2}\s*)$")
_PYTHON_CELL_MAGICS = frozenset({"capture", "prun", "time", "timeit"})
"""Magics of a whole cell whose content is still Python of the notebook."""


def to_python(notebook: str) -> str:
    """Return the code cells of a notebook, each after a line `# %% cell N`. Raise `ValueError` if it has none.

    N counts all cells from 1. Lines that only IPython understands (`%magic`, `!command`, `name?`) become comments, so
    every line keeps its place in its cell.
    """
    cells = [(number, cell) for number, cell in enumerate(_cells(notebook), 1) if _is_code(cell)]
    marked = [(number, cell) for number, cell in cells if _is_marked(cell)]
    sources = [(number, _source(cell)) for number, cell in marked or cells]
    if not any(source.strip() for _, source in sources):
        raise ValueError("it has no code cell")
    return "".join(f"# %% cell {number}\n{_without_magics(source)}\n" for number, source in sources)


def is_notebook(path: str) -> bool:
    """Return whether a file is a notebook, by its name."""
    return path.endswith(".ipynb")


def cell_of(source: str, line: int) -> tuple[int, int]:
    """Return the number of the cell of a line of the cells' source, and the line in the cell; 0 if it is in none."""
    lines = source.split("\n")[:line]
    for back, text in enumerate(reversed(lines)):
        if (head := _CELL_HEAD.match(text)) is not None:
            return int(head[1]), back
    return 0, line


def describe_cell(source: str, line: int) -> str:
    """Return `line 4 of cell 2` for a line of the cells' source, empty if it is in none."""
    number, in_cell = cell_of(source, line)
    return f"line {in_cell} of cell {number}" if number else ""


def _cells(notebook: str) -> list[Any]:
    try:
        content = json.loads(notebook)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it is not valid JSON ({error})") from None
    if not isinstance(content, dict) or not isinstance(content.get("cells"), list):
        raise ValueError("it has no list of cells (tcexplore reads format 4)")
    metadata = content.get("metadata")
    info = metadata.get("language_info") if isinstance(metadata, dict) else None
    language = info.get("name") if isinstance(info, dict) else None
    if isinstance(language, str) and language.lower() not in ("python", "ipython"):
        raise ValueError(f"its language is {language}, not Python")
    cells: list[Any] = content["cells"]
    return cells


def _is_code(cell: object) -> bool:
    return isinstance(cell, dict) and cell.get("cell_type") == "code"


def _source(cell: dict[str, Any]) -> str:
    source = cell.get("source", "")
    lines = source if isinstance(source, list) else [source]
    return "".join(line for line in lines if isinstance(line, str))


def _is_marked(cell: dict[str, Any]) -> bool:
    metadata = cell.get("metadata")
    tags = metadata.get("tags") if isinstance(metadata, dict) else None
    return (isinstance(tags, list) and MARK in tags) or _MARKING_COMMENT.match(_source(cell)) is not None


def _without_magics(source: str) -> str:
    lines = source.split("\n")
    first = next((line.strip() for line in lines if line.strip()), "")
    foreign = first.startswith("%%") and first[2:].partition(" ")[0] not in _PYTHON_CELL_MAGICS
    return "\n".join(f"# {line}" if foreign or _IPYTHON_LINE.match(line) else line for line in lines)
