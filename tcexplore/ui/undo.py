"""Taking back what was written to the user's file last."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tcexplore.documents.locations import display_path

if TYPE_CHECKING:
    from tcexplore.fixes.file_writes import Written


@dataclass(slots=True)
class Undo:
    """`last` is what was written and can still be taken back."""

    last: Written | None = None

    def take_back(self) -> str:
        """Put the file back as it was; returns a sentence on what became of it."""
        from tcexplore.fixes.file_writes import NotWrittenError, undo

        if self.last is None:
            return "Nothing was written to your files."
        try:
            undo(self.last)
        except NotWrittenError as error:
            return str(error)
        file, self.last = self.last.file, None
        return f"{display_path(file)} is as it was before."
