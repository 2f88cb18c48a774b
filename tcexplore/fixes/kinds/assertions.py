"""Checks of values: `assert` on a tensor, and `if` on one that raises."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tcexplore.fixes.fix import Fix, Site
from tcexplore.fixes.tensor_condition import condition

_RAISES = "Where it fails, compiled code raises torch's RuntimeError with the same words."


def propose(site: Site) -> Iterator[Fix]:
    """`torch._assert_async` in the place of the check: it is an op of the graph."""
    source, torch = site.source, site.source.torch
    statement = source.branch(site.line) or site.statement
    if torch is None:
        return
    match statement:
        case ast.Assert(test=test, msg=message):
            holds, said = condition(source, test), _text(message)
        case ast.If(test=test, body=[ast.Raise(exc=ast.Call(args=[message, *_]))], orelse=[]):
            fails = condition(source, test)
            holds, said = fails and f"{torch}.logical_not({fails})", _text(message)
        case _:
            return
    if holds is not None and said is not None:
        made = f"{torch}._assert_async({holds}, {said!r})" if said else f"{torch}._assert_async({holds})"
        yield Fix(
            "torch._assert_async",
            "The check becomes an op of the graph, and is made where the code runs.",
            (source.instead(statement, statement, made),),
            (_RAISES, *_less(statement)),
        )


def _text(message: ast.expr | None) -> str | None:
    """The message's own words, what is filled in left out; None where it has none."""
    match message:
        case None:
            return ""
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in parts)
    return None


def _less(statement: ast.stmt) -> tuple[str, ...]:
    filled = any(isinstance(node, ast.JoinedStr) for node in ast.walk(statement))
    return ("Its message has … where a value was filled in.",) if filled else ()
