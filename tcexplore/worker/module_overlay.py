"""Local modules with another text than stands on the disk: a change is tried without writing it."""

from __future__ import annotations

import importlib.machinery
import linecache
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import ModuleType


class Overlay:
    """Finds modules as Python does, and gives those of some files another text. A finder of `sys.meta_path`."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = {os.path.abspath(file): text for file, text in texts.items()}

    def __enter__(self) -> None:
        if self._texts:
            sys.meta_path.insert(0, self)
        for file, text in self._texts.items():
            linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)

    def __exit__(self, *_: object) -> None:
        with suppress(ValueError):
            sys.meta_path.remove(self)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The module's spec, with our loader where its file is one of ours; None leaves it to the others."""
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        text = self._texts.get(os.path.abspath(spec.origin)) if spec and spec.origin else None
        if spec is None or spec.origin is None or text is None:
            return None
        spec.loader = _Loader(name, spec.origin, text)
        return spec


class _Loader(importlib.machinery.SourceFileLoader):
    def __init__(self, name: str, file: str, text: str) -> None:
        super().__init__(name, file)
        self._text = text

    def get_data(self, path: str) -> bytes:
        return self._text.encode() if path == self.path else super().get_data(path)

    def path_stats(self, path: str) -> Mapping[str, float]:
        """None, so that no compiled form of what stands on the disk is taken."""
        raise OSError(f"{path} has no form on the disk")
