"""Copying: by the terminal's own way (OSC 52), or into a file where that is too much for terminals."""

from __future__ import annotations

import os
import tempfile

from textual.app import App

LARGEST = 74_000
"""Bytes that terminals commonly take in one OSC 52 sequence, before base64."""


def copy(app: App[object], text: str) -> str:
    """Copy the text; returns what was done, in words."""
    size = len(text.encode("utf-8", "replace"))
    if size <= LARGEST:
        app.copy_to_clipboard(text)
        lines = text.count("\n") + 1
        return f"Copied {lines} lines." if lines > 1 else "Copied."
    handle, path = tempfile.mkstemp(prefix="tcexplore-", suffix=".txt")
    with os.fdopen(handle, "w", encoding="utf-8", errors="replace") as file:
        file.write(text)
    return f"{size // 1000} kB is too much for a terminal's clipboard, so it is in {path}"
