"""A source file as text and as syntax: where each node stands among the characters, and what it stands in."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property
from io import StringIO
from tokenize import COMMENT, generate_tokens

from tcexplore.fixes.text_edit import Edit, lines_of, newline

Function = ast.FunctionDef | ast.AsyncFunctionDef


class SyntaxSource:
    """The text of one file. Raises `SyntaxError` (`ValueError` for a null byte) where it is no Python."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tree = ast.parse(text)
        self.lines = lines_of(text)
        self.newline = newline(text)

    # ---- places

    def start(self, node: ast.expr | ast.stmt) -> int:
        """The first character of a node."""
        return self._offset(node.lineno, node.col_offset)

    def end(self, node: ast.expr | ast.stmt) -> int:
        """The character behind a node."""
        return self._offset(node.end_lineno or node.lineno, node.end_col_offset or 0)

    def of(self, node: ast.expr | ast.stmt) -> str:
        """A node as it is written."""
        return self.text[self.start(node) : self.end(node)]

    def line_start(self, line: int) -> int:
        """The first character of a line, counted from 1; one behind the last line is the end of the text."""
        return self._starts[line - 1]

    def indent(self, statement: ast.stmt) -> str:
        """What stands before a statement on its line."""
        return self.text[self.line_start(statement.lineno) : self.start(statement)]

    @cached_property
    def _starts(self) -> list[int]:
        starts = [0]
        for line in self.lines:
            starts.append(starts[-1] + len(line))
        return starts

    def _offset(self, line: int, column: int) -> int:
        """`ast` counts columns in bytes of UTF-8."""
        text = self.lines[line - 1] if line <= len(self.lines) else ""
        return self.line_start(line) + (column if text.isascii() else len(text.encode()[:column].decode()))

    # ---- what stands where

    def statement(self, line: int) -> ast.stmt | None:
        """The innermost statement that a line belongs to."""
        found = [node for node in ast.walk(self.tree) if isinstance(node, ast.stmt) and _covers(node, line)]
        return max(found, key=lambda node: (node.lineno, node.col_offset), default=None)

    def branch(self, line: int) -> ast.If | None:
        """The `if` whose test is on a line; an `elif` is none."""
        found = (node for node in ast.walk(self.tree) if isinstance(node, ast.If))
        return next(
            (
                node
                for node in found
                if node.lineno <= line <= (node.test.end_lineno or line)
                and self.text.startswith("if", self.start(node))
            ),
            None,
        )

    def function(self, line: int) -> Function | None:
        """The innermost function that a line belongs to."""
        found = [node for node in ast.walk(self.tree) if isinstance(node, Function) and _covers(node, line)]
        return max(found, key=lambda node: node.lineno, default=None)

    def block(self, statement: ast.stmt) -> list[ast.stmt]:
        """The statements that stand in a row with this one, itself among them."""
        return next((block for block in self._blocks if statement in block), [statement])

    @cached_property
    def _blocks(self) -> list[list[ast.stmt]]:
        fields = ((node, name) for node in ast.walk(self.tree) for name in ("body", "orelse", "finalbody"))
        blocks = (getattr(node, name, None) for node, name in fields)
        return [block for block in blocks if isinstance(block, list) and block]

    def alone(self, statement: ast.stmt) -> bool:
        """Whether nothing else stands on the lines of a statement, but for a comment behind it."""
        before = self.indent(statement)
        last = statement.end_lineno or statement.lineno
        behind = self.text[self.end(statement) : self.line_start(last + 1)].strip()
        return not before.strip() and (not behind or behind.startswith("#"))

    def comments(self, start: int, end: int) -> tuple[str, ...]:
        """The comments between two characters, in their order."""
        return tuple(text for at, text in self._comments if start <= at < end)

    @cached_property
    def _comments(self) -> list[tuple[int, str]]:
        tokens = generate_tokens(StringIO(self.text, newline="").readline)
        return [(self.line_start(t.start[0]) + t.start[1], t.string) for t in tokens if t.type == COMMENT]

    def instead(self, first: ast.stmt, last: ast.stmt, text: str) -> Edit:
        """Another statement in the place of some in a row; their comments stay, above it."""
        start, end = self.start(first), self.end(last)
        kept = "".join(f"{comment}{self.newline}{self.indent(first)}" for comment in self.comments(start, end))
        return Edit(start, end, kept + text)

    # ---- names

    @cached_property
    def imported(self) -> dict[str, str]:
        """The full dotted name of each name that an import binds, anywhere in the file."""
        return dict(_imports(self.tree))

    def dotted(self, node: ast.expr) -> str:
        """The full dotted name of what a name or attribute stands for; empty for any other expression."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.insert(0, node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return ""
        return ".".join((self.imported.get(node.id, node.id), *parts))

    @cached_property
    def torch(self) -> str | None:
        """The name by which the file calls torch; None where it has no such name at its top."""
        for statement in self.tree.body:
            for alias in statement.names if isinstance(statement, ast.Import) else ():
                if alias.name == "torch" or (alias.name.startswith("torch.") and alias.asname is None):
                    return alias.asname or "torch"
        return None

    def importing(self, module: str) -> Edit:
        """`import module` above the other imports at the top of the file."""
        imports = [s for s in self.tree.body if isinstance(s, ast.Import | ast.ImportFrom)]
        first = next((s for s in imports if getattr(s, "module", "") != "__future__"), None)
        line = first.lineno if first else (imports[-1].end_lineno or 0) + 1 if imports else 1
        at = self.line_start(line)
        return Edit(at, at, f"import {module}{self.newline}")

    def below_imports(self, *lines: str) -> Edit:
        """Lines of their own, a blank one before them, below the imports at the top of the file."""
        top = _leading(self.tree.body)
        at = self.line_start((top.end_lineno or top.lineno) + 1) if top else 0
        ends = not top or self.text[:at].endswith(("\n", "\r"))
        body = self.newline.join(lines)
        if top is None:
            return Edit(at, at, f"{body}{self.newline}")
        return Edit(at, at, f"{self.newline}{body}{self.newline}" if ends else f"{self.newline * 2}{body}")


def _leading(body: list[ast.stmt]) -> ast.Import | ast.ImportFrom | None:
    """The last import before the first definition."""
    found = None
    for statement in body:
        if isinstance(statement, Function | ast.ClassDef):
            break
        found = statement if isinstance(statement, ast.Import | ast.ImportFrom) else found
    return found


def _covers(node: ast.stmt, line: int) -> bool:
    return node.lineno <= line <= (node.end_lineno or node.lineno)


def _imports(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.partition(".")[0]
                yield alias.asname or top, alias.name if alias.asname else top
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                yield alias.asname or alias.name, f"{node.module}.{alias.name}"
