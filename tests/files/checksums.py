"""Checksum of a folder, for tests of what must not be written."""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path


def tree_checksum(folder: Path, ignored: tuple[str, ...] = ("__pycache__",)) -> str:
    """Return a checksum of names, types, modes, link targets and contents of everything in a folder."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if not set(path.parts) & set(ignored):
            digest.update(repr((str(path.relative_to(folder)), *_entry(path))).encode())
    return digest.hexdigest()


def _entry(path: Path) -> tuple[int, str, bytes]:
    mode = path.lstat().st_mode
    target = os.readlink(path) if stat.S_ISLNK(mode) else ""
    return mode, target, path.read_bytes() if stat.S_ISREG(mode) else b""
