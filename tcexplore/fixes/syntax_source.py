"""A source file as text and syntax tree, with the text range and the context of each node, and edits of it.

Tells which expressions can be computed unconditionally, and writes conditions as tensors.
"""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Iterable, Iterator
from functools import cached_property, reduce
from io import StringIO
from tokenize import COMMENT, generate_tokens
from typing import NamedTuple

from tcexplore.events.python_source import parse_source

_BREAK = re.compile(r"\r\n|\r|\n")


class Edit(NamedTuple):
    """Replacement of the characters from `start` up to `end`."""

    start: int
    end: int
    text: str


def applied(text: str, edits: Iterable[Edit]) -> str:
    """Apply edits. Raises `ValueError` if two of them overlap."""
    pieces, at = [], 0
    for edit in sorted(edits):
        if edit.start < at:
            raise ValueError("two edits of the same characters")
        pieces += [text[at : edit.start], edit.text]
        at = edit.end
    return "".join((*pieces, text[at:]))


def lines_of(text: str) -> list[str]:
    """Split into lines with their endings, at `\\n`, `\\r\\n` and `\\r` like Python."""
    ends = [match.end() for match in _BREAK.finditer(text)]
    pieces = [text[start:end] for start, end in zip([0, *ends], [*ends, len(text)], strict=True)]
    return pieces if pieces[-1] else pieces[:-1]


def newline(text: str) -> str:
    """Return the line ending of the first line."""
    match = _BREAK.search(text)
    return match.group() if match else "\n"


def line_map(text: str, edits: Iterable[Edit]) -> dict[int, int]:
    """Map lines of the changed text that no edit touches to their numbers in the original, both from 1."""
    whole = {range_: number for number, range_ in enumerate(_ranges(text), 1)}
    unchanged, lines = _unchanged(text, sorted(edits)), {}
    for number, (start, end) in enumerate(_ranges(applied(text, edits)), 1):
        for shift, first, last in unchanged:
            if first <= start and end <= last and (start - shift, end - shift) in whole:
                lines[number] = whole[start - shift, end - shift]
    return lines


def _unchanged(text: str, edits: list[Edit]) -> list[tuple[int, int, int]]:
    """Return the unchanged ranges of the changed text as offset from the original, start and end."""
    shift, at, ranges = 0, 0, []
    for start, end, piece in (*edits, Edit(len(text), len(text), "")):
        ranges.append((shift, at + shift, start + shift))
        shift, at = shift + len(piece) - (end - start), end
    return ranges


def _ranges(text: str) -> list[tuple[int, int]]:
    """Return the start and end of each line, without its line ending."""
    at, ranges = 0, []
    for line in lines_of(text):
        ranges.append((at, at + len(line.rstrip("\r\n"))))
        at += len(line)
    return ranges


def diff(before: str, after: str, name: str) -> tuple[str, ...]:
    """Return a unified diff without line endings."""
    old, new = ([line.rstrip("\r\n") for line in lines_of(text)] for text in (before, after))
    return tuple(difflib.unified_diff(old, new, name, name, lineterm="", n=2))


# ---- the file


Function = ast.FunctionDef | ast.AsyncFunctionDef


class SyntaxSource:
    """The text of one file. Raises `SyntaxError` (`ValueError` for a null byte) if it is not valid Python."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tree = parse_source(text)
        self.lines = lines_of(text)
        self.newline = newline(text)

    # ---- positions

    def start(self, node: ast.expr | ast.stmt) -> int:
        """Return the index of a node's first character."""
        return self._offset(node.lineno, node.col_offset)

    def end(self, node: ast.expr | ast.stmt) -> int:
        """Return the index after a node's last character."""
        return self._offset(node.end_lineno or node.lineno, node.end_col_offset or 0)

    def of(self, node: ast.expr | ast.stmt) -> str:
        """Return the source text of a node."""
        return self.text[self.start(node) : self.end(node)]

    def line_start(self, line: int) -> int:
        """Return the index of a line's first character; lines count from 1, the one after the last is the end."""
        return self._starts[line - 1]

    def indent(self, statement: ast.stmt) -> str:
        """Return the text before a statement on its line."""
        return self.text[self.line_start(statement.lineno) : self.start(statement)]

    @cached_property
    def _starts(self) -> list[int]:
        starts = [0]
        for line in self.lines:
            starts.append(starts[-1] + len(line))
        return starts

    def _offset(self, line: int, column: int) -> int:
        """Return the index of a position in `ast`, whose columns count UTF-8 bytes."""
        text = self.lines[line - 1] if line <= len(self.lines) else ""
        return self.line_start(line) + (column if text.isascii() else len(text.encode()[:column].decode()))

    # ---- statements

    def statement(self, line: int) -> ast.stmt | None:
        """Return the innermost statement on a line."""
        statements = [node for node in ast.walk(self.tree) if isinstance(node, ast.stmt) and _covers(node, line)]
        return max(statements, key=lambda node: (node.lineno, node.col_offset), default=None)

    def branch(self, line: int) -> ast.If | None:
        """Return the `if` (not `elif`) whose condition is on a line."""
        branches = (node for node in ast.walk(self.tree) if isinstance(node, ast.If))
        return next(
            (
                node
                for node in branches
                if node.lineno <= line <= (node.test.end_lineno or line)
                and self.text.startswith("if", self.start(node))
            ),
            None,
        )

    def function(self, line: int) -> Function | None:
        """Return the innermost function around a line."""
        functions = [node for node in ast.walk(self.tree) if isinstance(node, Function) and _covers(node, line)]
        return max(functions, key=lambda node: node.lineno, default=None)

    def block(self, statement: ast.stmt) -> list[ast.stmt]:
        """Return the block of statements that contains this one."""
        return next((block for block in self._blocks if statement in block), [statement])

    @cached_property
    def _blocks(self) -> list[list[ast.stmt]]:
        fields = ((node, name) for node in ast.walk(self.tree) for name in ("body", "orelse", "finalbody"))
        blocks = (getattr(node, name, None) for node, name in fields)
        return [block for block in blocks if isinstance(block, list) and block]

    def alone(self, statement: ast.stmt) -> bool:
        """Return whether a statement has its lines to itself, except for a comment after it."""
        before = self.indent(statement)
        last = statement.end_lineno or statement.lineno
        rest = self.text[self.end(statement) : self.line_start(last + 1)].strip()
        return not before.strip() and (not rest or rest.startswith("#"))

    def comments(self, start: int, end: int) -> tuple[str, ...]:
        """Return the comments in a range of characters."""
        return tuple(text for at, text in self._comments if start <= at < end)

    @cached_property
    def _comments(self) -> list[tuple[int, str]]:
        tokens = generate_tokens(StringIO(self.text, newline="").readline)
        return [(self.line_start(t.start[0]) + t.start[1], t.string) for t in tokens if t.type == COMMENT]

    def replacement(self, first: ast.stmt, last: ast.stmt, text: str) -> Edit:
        """Replace consecutive statements with text; their comments move above it."""
        start, end = self.start(first), self.end(last)
        comments = "".join(f"{comment}{self.newline}{self.indent(first)}" for comment in self.comments(start, end))
        return Edit(start, end, comments + text)

    # ---- names

    @cached_property
    def imported(self) -> dict[str, str]:
        """The full dotted name of each imported name in the file."""
        return dict(_imports(self.tree))

    def dotted(self, node: ast.expr) -> str:
        """Return the full dotted name of a name or attribute; empty for any other expression."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.insert(0, node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return ""
        return ".".join((self.imported.get(node.id, node.id), *parts))

    @cached_property
    def torch(self) -> str | None:
        """The name under which the file imports torch; None if it does not import it at the top."""
        for statement in self.tree.body:
            for alias in statement.names if isinstance(statement, ast.Import) else ():
                if alias.name == "torch" or (alias.name.startswith("torch.") and alias.asname is None):
                    return alias.asname or "torch"
        return None

    def importing(self, module: str) -> Edit:
        """Return an edit that adds `import module` above the other imports."""
        imports = [s for s in self.tree.body if isinstance(s, ast.Import | ast.ImportFrom)]
        first = next((s for s in imports if getattr(s, "module", "") != "__future__"), None)
        line = first.lineno if first else (imports[-1].end_lineno or 0) + 1 if imports else 1
        at = self.line_start(line)
        return Edit(at, at, f"import {module}{self.newline}")

    def below_imports(self, *lines: str) -> Edit:
        """Return an edit that adds lines below the imports, after a blank line."""
        top = _leading(self.tree.body)
        at = self.line_start((top.end_lineno or top.lineno) + 1) if top else 0
        ends = not top or self.text[:at].endswith(("\n", "\r"))
        body = self.newline.join(lines)
        if top is None:
            return Edit(at, at, f"{body}{self.newline}")
        return Edit(at, at, f"{self.newline}{body}{self.newline}" if ends else f"{self.newline * 2}{body}")


def _leading(body: list[ast.stmt]) -> ast.Import | ast.ImportFrom | None:
    """Return the last import before the first definition."""
    last = None
    for statement in body:
        if isinstance(statement, Function | ast.ClassDef):
            break
        last = statement if isinstance(statement, ast.Import | ast.ImportFrom) else last
    return last


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


def has_multiline_string(statement: ast.stmt) -> bool:
    """Return whether a statement has a multi-line string, which must not be reindented."""
    strings = (n for n in ast.walk(statement) if isinstance(n, ast.Constant | ast.JoinedStr))
    return any(node.lineno != node.end_lineno for node in strings)


_PLAIN = (
    ast.Name, ast.Constant, ast.Attribute, ast.BinOp, ast.UnaryOp, ast.Compare, ast.Call, ast.Subscript, ast.Slice,
    ast.Tuple, ast.List, ast.keyword, ast.operator, ast.unaryop, ast.cmpop, ast.expr_context,
)  # fmt: skip
_RANDOM = ("rand", "dropout", "bernoulli", "multinomial", "normal", "poisson", "seed")
_SYNCHRONIZING = frozenset({"item", "tolist", "numpy", "backward", "cpu", "cuda"})
_LIBRARIES = ("torch.",)


def pure(source: SyntaxSource, node: ast.expr) -> bool:
    """Return whether an expression only calls torch ops without randomness, mutation or synchronization."""
    return all(isinstance(part, _PLAIN) for part in ast.walk(node)) and all(
        _op(source, part) for part in ast.walk(node) if isinstance(part, ast.Call)
    )


def _op(source: SyntaxSource, call: ast.Call) -> bool:
    """Return whether a call is a torch function, or a method that may be a tensor's."""
    name, function = source.dotted(call.func), call.func
    last = name.rpartition(".")[2] or (function.attr if isinstance(function, ast.Attribute) else "")
    if not last or last.endswith("_") or last in _SYNCHRONIZING or any(word in last for word in _RANDOM):
        return False
    return name.startswith(_LIBRARIES) or (isinstance(function, ast.Attribute) and not _on_self(function))


def _on_self(function: ast.Attribute) -> bool:
    """Return whether this is `self.name(...)`: a module or method, which may do anything."""
    return isinstance(function.value, ast.Name) and function.value.id in ("self", "cls")


def tensor_condition(source: SyntaxSource, test: ast.expr) -> str | None:
    """Return the condition as an expression whose value is a tensor; None if that is not safe."""
    test = _unwrapped(test)
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            inner = tensor_condition(source, operand)
            return inner and f"{source.torch}.logical_not({inner})"
        case ast.BoolOp(op=op, values=values):
            parts = [tensor_condition(source, value) for value in values]
            name = "logical_and" if isinstance(op, ast.And) else "logical_or"
            return reduce(lambda one, other: f"{source.torch}.{name}({one}, {other})", parts) if all(parts) else None
        case ast.Compare(left=left, ops=[op], comparators=[right]) if isinstance(op, ast.Gt | ast.GtE | ast.Lt | ast.LtE | ast.Eq | ast.NotEq):  # fmt: skip # noqa: E501
            sides = [_unwrapped(side) for side in (left, right)]
            if not all(pure(source, side) for side in sides):
                return None
            between = source.text[source.end(left) : source.start(right)]
            return f"{source.of(sides[0])}{between}{source.of(sides[1])}"
        case ast.Call() if _allclose(source, test):
            arguments = source.text[source.end(test.func) : source.end(test)]
            return f"{source.torch}.isclose{arguments}.all()"
    return source.of(test) if isinstance(test, ast.Call | ast.Name) and pure(source, test) else None


def _unwrapped(node: ast.expr) -> ast.expr:
    """Return an expression without `.item()`, `bool()` and `float()`."""
    match node:
        case ast.Call(func=ast.Attribute(value=value, attr="item"), args=[]):
            return _unwrapped(value)
        case ast.Call(func=ast.Name(id="bool" | "float"), args=[value], keywords=[]):
            return _unwrapped(value)
    return node


def _allclose(source: SyntaxSource, call: ast.Call) -> bool:
    return source.dotted(call.func) == "torch.allclose"
