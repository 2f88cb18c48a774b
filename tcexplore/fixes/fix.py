"""A fix: a change to one file that should remove one graph break."""

from __future__ import annotations

import ast
import textwrap
from codecs import BOM_UTF8
from dataclasses import dataclass

from tcexplore import files
from tcexplore.events.python_source import parse_source
from tcexplore.fixes.syntax_source import Edit, Function, SyntaxSource, applied, diff, line_map
from tcexplore.notebook import is_notebook


@dataclass(frozen=True, slots=True)
class Site:
    """The place of a graph break."""

    source: SyntaxSource
    line: int
    kind: str
    """torch's `gb_type`."""
    statement: ast.stmt
    function: Function | None


@dataclass(frozen=True, slots=True)
class Fix:
    """Edits that should remove a graph break."""

    name: str
    description: str
    """One sentence on what it does."""
    edits: tuple[Edit, ...]
    side_effects: tuple[str, ...] = ()
    """Sentences on what the program does differently afterwards."""
    prints: bool = False
    """Whether the program must print as much as before."""
    tests: tuple[ast.If | ast.IfExp | ast.While, ...] = ()
    """Branches and loops that it replaces: verification must see each test hold and not hold."""


@dataclass(frozen=True, slots=True)
class Change:
    """A fix applied to the text of its file."""

    fix: Fix
    file: str
    before: str
    after: str

    def diff(self, name: str = "") -> tuple[str, ...]:
        """Return a unified diff without line endings; `name` is the file's name in it."""
        return diff(self.before, self.after, name or self.file)

    @property
    def code(self) -> str:
        """The lines of code that it adds or changes, other than imports, without their common indentation."""
        added = (line[1:] for line in self.diff() if line.startswith("+") and not line.startswith("+++"))
        lines = list(filter(str.strip, added))
        code = [line for line in lines if not line.startswith(("import ", "from "))]
        return textwrap.dedent("\n".join(code or lines))

    def line_before(self, line: int) -> int | None:
        """Return the original number of a line in the changed file; None for a line that the change touched."""
        return line_map(self.before, self.fix.edits).get(line)


def apply_fix(fix: Fix, file: str, text: str) -> Change | None:
    """Apply a fix to the text of its file; return None if the result is not valid Python, or not a change."""
    after = applied(text, fix.edits)
    try:
        parse_source(after)
    except (SyntaxError, ValueError):
        return None
    return Change(fix, file, text, after) if after != text else None


def write_change(file: str, before: str, after: str) -> files.Written:
    """Replace the text `before` of a file, with any line endings, by `after`; a byte order mark stays.

    Raises `NotWrittenError` if the file has another text, or cannot be replaced safely.
    """
    if is_notebook(file):
        raise files.NotWrittenError(f"{file} is a notebook: change its cell by hand.")
    mark = BOM_UTF8 if files.read(file).startswith(BOM_UTF8) else b""
    return files.replace(file, mark + before.encode(), mark + after.encode())
