"""The statement at which the code of two ranks goes apart: an `if`, a loop, or an early return."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from tcexplore.events.python_source import parse_source, without_comment

_ENDS = (ast.Return, ast.Raise, ast.Continue, ast.Break)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


class Condition(NamedTuple):
    """A statement with a condition."""

    line: int
    text: str
    """Its first line as the user wrote it: `if scale > 0.5:`."""
    loop: bool = False

    @property
    def effect(self) -> str:
        """What the ranks do there, as the beginning of a sentence."""
        if self.loop:
            return f"the loop `{self.text}` runs another number of times"
        return f"the ranks take different sides of `{self.text}`"


def condition_at(source: str, line: int) -> Condition | None:
    """Return the statement with a condition that begins at, or spans, a line; None if there is none."""
    tree = _parsed(source)
    found: ast.AST | None = None
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.If | ast.While | ast.IfExp | ast.Assert | ast.For | ast.BoolOp):
            test = node.iter if isinstance(node, ast.For) else getattr(node, "test", node)
            if node.lineno <= line <= (test.end_lineno or test.lineno) and (
                found is None or _begins_first(found, node)
            ):
                found = node
    return _condition(source, found) if found is not None else None


def _begins_first(found: ast.AST, node: ast.AST) -> bool:
    """Return whether a node says more of the line: a statement rather than an expression in it."""
    return isinstance(found, ast.expr) and isinstance(node, ast.stmt)


def condition_between(source: str, line: int, other: int | None, before: int | None) -> Condition | None:
    """Return the outermost statement of which one rank's next op is on another side than that of the other rank.

    `line` and `other` are the lines of the ops, None if the graph ends, and `before` is that of the last op that both
    ranks have. Returns None unless the statement is certain: both lines are in one function.
    """
    tree = _parsed(source)
    if tree is None:
        return None
    function = _function_of(tree, line)
    if other is not None and _function_of(tree, other) is not function:
        return None
    if other == line:
        return _expression(source, function, line)
    for node in _conditions(function):
        arms = _arms(node)
        side = _arm_of(arms, line)
        if other is not None and _arm_of(arms, other) != side:
            return _condition(source, _taken(node, line, other))
        outside = before is None or _function_of(tree, before) is not function or _arm_of(arms, before) is None
        if other is None and side is not None and outside:
            return _condition(source, _taken(node, line, None))
    return _early_end(source, function, before if before is not None else function_line(function), line)


def conditions_around(source: str, line: int) -> list[Condition]:
    """Return the statements whose condition decides whether a line of their function runs, the outermost first."""
    tree = _parsed(source)
    if tree is None:
        return []
    around = [node for node in _conditions(_function_of(tree, line)) if _arm_of(_arms(node), line) is not None]
    return [_condition(source, node) for node in around if isinstance(node, ast.If | ast.While)]


def _taken(node: ast.stmt | ast.expr, line: int, other: int | None) -> ast.AST:
    """Return the `elif` of a chain whose branch one rank takes if the other takes none of the chain, else the node."""
    arms = _arms(node)
    inside = [at for at in (line, other) if at is not None and _arm_of(arms, at) is not None]
    while len(inside) == 1 and isinstance(node, ast.If) and len(node.orelse) == 1 and _spans(node.orelse[0], inside[0]):
        following = node.orelse[0]
        if not isinstance(following, ast.If):
            break
        node = following
    return node


def function_line(function: ast.AST) -> int:
    """Return the first line of a function, 0 of a module."""
    return getattr(function, "lineno", 0)


@lru_cache(maxsize=16)
def _parsed(source: str) -> ast.Module | None:
    try:
        return parse_source(source)
    except (SyntaxError, ValueError, RecursionError):
        return None


def _spans(node: ast.AST, line: int) -> bool:
    return function_line(node) <= line <= (getattr(node, "end_lineno", None) or 0)


def _function_of(tree: ast.Module, line: int) -> ast.AST:
    """Return the innermost function that contains a line, else the module."""
    functions = [node for node in ast.walk(tree) if isinstance(node, _FUNCTIONS) and _spans(node, line)]
    return max(functions, key=function_line, default=tree)


def _conditions(function: ast.AST) -> Iterator[ast.stmt | ast.expr]:
    """Yield the statements with a condition in a function, the outermost first."""
    found = [
        node
        for node in ast.walk(function)
        if isinstance(node, ast.If | ast.While | ast.For | ast.AsyncFor | ast.Match | ast.IfExp)
    ]
    yield from sorted(found, key=lambda node: (node.lineno, -(node.end_lineno or 0)))


def _arms(node: ast.stmt | ast.expr) -> list[tuple[int, int]]:
    """Return the first and the last line of each side."""
    if isinstance(node, ast.IfExp):
        sides: list[list[ast.expr]] = [[node.body], [node.orelse]]
        return [_extent(side) for side in sides]
    if isinstance(node, ast.Match):
        return [_extent(case.body) for case in node.cases]
    blocks = (getattr(node, "body", []), getattr(node, "orelse", []))
    return [_extent(block) if block else (0, -1) for block in blocks]


def _extent(nodes: list[ast.stmt] | list[ast.expr]) -> tuple[int, int]:
    return nodes[0].lineno, nodes[-1].end_lineno or nodes[-1].lineno


def _arm_of(arms: list[tuple[int, int]], line: int) -> int | None:
    return next((number for number, (first, last) in enumerate(arms) if first <= line <= last), None)


def _early_end(source: str, function: ast.AST, first: int, last: int) -> Condition | None:
    """Return the only `if` between two lines that leaves the function or the loop on one side."""
    leaving = [
        node
        for node in _conditions(function)
        if isinstance(node, ast.If) and first <= node.lineno < last and isinstance(node.body[-1], _ENDS)
    ]
    return _condition(source, leaving[0]) if len(leaving) == 1 else None


def _expression(source: str, function: ast.AST, line: int) -> Condition | None:
    """Return the conditional expression of a line."""
    found = (node for node in ast.walk(function) if isinstance(node, ast.IfExp) and _spans(node, line))
    node = next(found, None)
    return _condition(source, node) if node is not None else None


def _condition(source: str, node: ast.AST) -> Condition:
    line = function_line(node)
    text = without_comment(source.split("\n")[line - 1]).strip()
    return Condition(line, text, isinstance(node, ast.For | ast.AsyncFor | ast.While))
