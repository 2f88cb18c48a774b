"""Places in source code that stay the same if lines move: the function, the statement, and the part of it."""

from __future__ import annotations

import ast
import os
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tcexplore.events.python_source import parse_source

_INSTALLED = re.compile(r"[/\\](?:site|dist)-packages[/\\]")

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


class SourcePlace(NamedTuple):
    """A line by what it says and what encloses it."""

    file: str
    """Path below the folder of the model file, or in its package if it is installed; else the name of the file."""
    function: str
    """Qualified name of the innermost function or class; empty for the module."""
    statement: str
    """The innermost statement, without layout and comments, of a compound one the head. The source line if the file is
    not valid Python; its number if there is no text."""
    repeat: int = 0
    """Number of equal statements before it in the function."""
    part: str = ""
    """The expression that begins on the line, if the statement begins above it."""


def file_name(path: str, model_file: str) -> str:
    """Return the name of a file that is the same on another machine and from another working directory."""
    if installed := _INSTALLED.search(path):
        return path[installed.end() :].replace(os.sep, "/")
    folder = os.path.join(os.path.dirname(model_file), "")
    return path[len(folder) :].replace(os.sep, "/") if path.startswith(folder) else os.path.basename(path)


class _Statement(NamedTuple):
    first: int
    last: int
    """Last line of the head."""
    function: str
    node: ast.AST


class SourcePlaces:
    """The places of one file, which `name` names."""

    def __init__(self, name: str, text: str) -> None:
        self._file = name
        self._lines = text.splitlines()
        self._known: dict[int, SourcePlace] = {}
        self._statements: list[_Statement] = []
        self._of_line: dict[int, _Statement] = {}
        self._texts: dict[int, str] = {}
        self._repeats: dict[int, int] = {}
        self._counted: set[str] = set()
        self._in_function: defaultdict[str, list[_Statement]] = defaultdict(list)
        try:
            tree = parse_source(text) if text else None
        except (SyntaxError, ValueError, RecursionError):
            tree = None
        if tree is not None:
            self._add(tree.body, "")

    def at(self, line: int, function: str = "", code: str = "") -> SourcePlace:
        """Return the place of a line; `function` and `code` are what is known of it if the text does not tell."""
        statement = self._of_line.get(line)
        if statement is None:
            text = self._lines[line - 1] if 0 < line <= len(self._lines) else code
            return SourcePlace(self._file, function, " ".join(text.split()) or str(line))
        if line not in self._known:
            self._known[line] = SourcePlace(
                self._file, statement.function, self._text(statement), self._repeat(statement), _part(statement, line)
            )
        return self._known[line]

    def _add(self, body: Sequence[ast.stmt], function: str) -> None:
        for node in body:
            blocks = [block for name in ("body", "orelse", "finalbody") if (block := getattr(node, name, None))]
            inner = function
            if isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
                inner = f"{function}.{node.name}" if function else node.name
            first = min((d.lineno for d in getattr(node, "decorator_list", ())), default=node.lineno)
            last = max(first, blocks[0][0].lineno - 1) if blocks else node.end_lineno or node.lineno
            statement = _Statement(first, last, function, node)
            self._in_function[function].append(statement)
            for line in range(first, last + 1):
                self._of_line[line] = statement
            for block in blocks:
                self._add(block, inner)
            for handler in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
                self._add(handler.body, inner)

    def _text(self, statement: _Statement) -> str:
        key = id(statement.node)
        if key not in self._texts:
            self._texts[key] = _head(statement.node)
        return self._texts[key]

    def _repeat(self, statement: _Statement) -> int:
        """Return the number of equal statements before this one in its function."""
        function = statement.function
        if function not in self._counted:
            seen: defaultdict[str, int] = defaultdict(int)
            for other in self._in_function[function]:
                text = self._text(other)
                self._repeats[id(other.node)] = seen[text]
                seen[text] += 1
            self._counted.add(function)
        return self._repeats[id(statement.node)]


def _head(node: ast.AST) -> str:
    """Return a statement without layout, of a compound one what precedes its block."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            return f"def {node.name}"
        case ast.ClassDef():
            return f"class {node.name}"
        case ast.If():
            return f"if {ast.unparse(node.test)}"
        case ast.While():
            return f"while {ast.unparse(node.test)}"
        case ast.For() | ast.AsyncFor():
            return f"for {ast.unparse(node.target)} in {ast.unparse(node.iter)}"
        case ast.With() | ast.AsyncWith():
            return f"with {', '.join(map(ast.unparse, node.items))}"
        case ast.Match():
            return f"match {ast.unparse(node.subject)}"
        case ast.Try() | ast.TryStar():
            return "try"
        case _:
            return ast.unparse(node)


def _part(statement: _Statement, line: int) -> str:
    """Return the widest expression that begins on a line below the first one of its statement."""
    if line == statement.first or isinstance(statement.node, (*_FUNCTIONS, ast.ClassDef)):
        return ""
    begins = [node for node in _expressions(statement) if node.lineno == line]
    widest = min(begins, key=lambda node: (node.col_offset, -(node.end_lineno or 0), -(node.end_col_offset or 0)),
                 default=None)  # fmt: skip
    return ast.unparse(widest) if widest is not None else str(line - statement.first)


def _expressions(statement: _Statement) -> Iterator[ast.expr]:
    for node in ast.walk(statement.node):
        if isinstance(node, ast.expr) and node.lineno <= statement.last:
            yield node
