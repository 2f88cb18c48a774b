"""A kernel's source beside its stages: each line stands for itself first, so that the machine's lines find it."""

from __future__ import annotations

from dataclasses import replace

from tcexplore.documents.code.kernel_lines import KernelLines
from tcexplore.documents.document import Row
from tcexplore.documents.labels import Labels
from tcexplore.events import Kernel
from tcexplore.session.links import statement_link


class SourceLines:
    """The rows of `KernelLines`, linked as statements."""

    def __init__(self, kernel: Kernel, known: Labels) -> None:
        self._kernel = kernel
        self._lines = KernelLines(kernel, known)

    def __len__(self) -> int:
        return len(self._lines)

    def row(self, index: int) -> Row:
        row = self._lines.row(index)
        return replace(row, links=(statement_link(self._kernel, index + 1), *row.links))
