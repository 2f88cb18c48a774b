"""What a cure is: a change to one file that should remove one graph break."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from tcexplore.fixes.syntax_source import Function, SyntaxSource
from tcexplore.fixes.text_edit import Edit, applied, diff, line_map


@dataclass(frozen=True, slots=True)
class Site:
    """The place that breaks: its line of a source, the statement and function there, and torch's `gb_type`."""

    source: SyntaxSource
    line: int
    kind: str
    statement: ast.stmt
    function: Function | None


@dataclass(frozen=True, slots=True)
class Fix:
    """A change. `name` is a few words for it, `said` a sentence on what it does; `changes` are sentences on what the
    program does otherwise afterwards, none where it does the same. `prints` promises that it prints as much as before.
    """

    name: str
    said: str
    edits: tuple[Edit, ...]
    changes: tuple[str, ...] = ()
    prints: bool = False


@dataclass(frozen=True, slots=True)
class Change:
    """A cure applied: the file before and after it."""

    cure: Fix
    file: str
    before: str
    after: str

    def diff(self, name: str = "") -> tuple[str, ...]:
        """A unified diff, without line ends; `name` is the file's name in it."""
        return diff(self.before, self.after, name or self.file)

    def line_before(self, line: int) -> int | None:
        """What a line of the changed file was; None for a line that the change touched."""
        return line_map(self.before, self.cure.edits).get(line)


def change(cure: Fix, file: str, text: str) -> Change | None:
    """The cure applied to the text of its file; None where that would be no Python, or no change."""
    after = applied(text, cure.edits)
    try:
        ast.parse(after)
    except (SyntaxError, ValueError):
        return None
    return Change(cure, file, text, after) if after != text else None
