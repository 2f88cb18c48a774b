"""Rows as text, compared with golden files."""

from __future__ import annotations

import os
from pathlib import Path

from tcexplore.documents.document import Document, Row

FOLDER = Path(__file__).parent / "goldens"


def text(document: Document) -> str:
    """Return the title and all rows of a document, without trailing blanks."""
    rows = (document.row(index).text.rstrip() for index in range(len(document)))
    return "\n".join([f"[{document.title}]", *rows]) + "\n"


def lines(*rows: Row) -> str:
    """Return single rows, one per line."""
    return "\n".join(row.text.rstrip() for row in rows) + "\n"


def check(name: str, text: str, folder: Path = FOLDER) -> None:
    """Compare with `NAME.txt` in `folder`; with TCEXPLORE_GOLDENS=write in the environment, write it instead.

    If TCEXPLORE_GOLDENS_ACTUAL names a folder, a text that differs is also written there.
    """
    path = folder / f"{name}.txt"
    if os.environ.get("TCEXPLORE_GOLDENS") == "write":
        path.write_text(text, encoding="utf-8")
    equal = path.is_file() and text == path.read_text(encoding="utf-8")
    if not equal and (actual := os.environ.get("TCEXPLORE_GOLDENS_ACTUAL")):
        Path(actual).mkdir(parents=True, exist_ok=True)
        (Path(actual) / path.name).write_text(text, encoding="utf-8")
    assert equal, f"{path.name} differs"
