"""Parsing of a user's Python code outside the process that runs it."""

from __future__ import annotations

import ast
import re
import warnings

_COMMENT = re.compile(r"\s+#[^'\"]*$")


def parse_source(source: str, file: str = "<unknown>") -> ast.Module:
    """Parse a file of the user. Raise what `ast.parse` raises.

    Python's warnings about the code (an invalid escape, since 3.14 a `return` in `finally`) belong to the run that
    imports it: here, they would be printed over the screen, or be errors in the user's test.
    """
    with warnings.catch_warnings(action="ignore"):
        return ast.parse(source, file)


def without_comment(line: str) -> str:
    """Return a line without a comment at its end; one with quotes stays, since it may be part of a string."""
    return _COMMENT.sub("", line).rstrip()


def imported_packages(node: ast.Import | ast.ImportFrom) -> list[str]:
    """Return the names of the top-level packages of an absolute import."""
    names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
    return [name.partition(".")[0] for name in names]
