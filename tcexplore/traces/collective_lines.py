"""Lines of collectives in the user's function: a trace only has the line inside torch's own wrapper.

The lines are those of the calls with the same name and the same reduction, in an order that the graph allows.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

from tcexplore import events as ev

_REDUCTION = re.compile(r"'(sum|avg|max|min|product)'")
MOST_CALLS = 12
"""Collectives of a function beyond which no lines are searched."""


def collective_lines(source: str, frame: ev.Location, calls: Sequence[ev.FxNode]) -> list[int] | None:
    """Return the line of each collective, None unless the function has calls that fit; the closest together win."""
    body = _function_calls(source, frame)
    if not body or not calls or len(calls) > MOST_CALLS:
        return None
    candidates = [[line for line, text in body if _fits(node, text)] for node in calls]
    best: list[int] | None = None
    for start in candidates[0]:
        lines = [start]
        for options in candidates[1:]:
            later = [line for line in options if line > lines[-1]]
            if not later:
                break
            lines.append(later[0])
        if len(lines) == len(calls) and (best is None or lines[-1] - lines[0] < best[-1] - best[0]):
            best = lines
    return best


def _function_calls(source: str, frame: ev.Location) -> list[tuple[int, str]]:
    """Return line and text of each call in the function that begins at a line."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return []
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            first = min([function.lineno, *(decorator.lineno for decorator in function.decorator_list)])
            if first == frame.line or function.lineno == frame.line:
                calls = [node for node in ast.walk(function) if isinstance(node, ast.Call)]
                return sorted((call.lineno, ast.unparse(call)) for call in calls)
    return []


def _fits(node: ev.FxNode, call: str) -> bool:
    words = node.target.removesuffix(".default").rpartition(".")[2].split("_")
    name = "_".join(words[:2])
    reduction, other = _REDUCTION.search(node.args), _REDUCTION.search(call)
    same = reduction is None or other is None or reduction[1] == other[1]
    return same and re.search(rf"\b{re.escape(name)}\w*\(", call.partition("(")[0] + "(") is not None
