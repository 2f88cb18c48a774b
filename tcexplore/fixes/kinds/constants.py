"""Constant expressions, such as the content of a file, evaluated once when the model file is imported."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tcexplore.fixes.constant_expressions import ConstantNames
from tcexplore.fixes.fix import Fix, Site
from tcexplore.fixes.kinds.explicit_breaks import removed
from tcexplore.fixes.syntax_source import Function, SyntaxSource, has_multiline_string
from tcexplore.fixes.text_edit import Edit

_EVALUATED_ONCE = "It is evaluated once, when the file is imported; later changes of its source have no effect."


def constant_fixes(site: Site) -> Iterator[Fix]:
    """Move a constant expression, or a `with` block that reads a file, above the function."""
    function = site.function
    if function is None:
        return
    if isinstance(site.statement, ast.With):
        yield from _read_above(site, site.statement, function)
        return
    for expression in ConstantNames(site.source, function).calls(site.statement):
        yield _moved(site, expression, function)
        return


def _moved(site: Site, expression: ast.expr, function: Function) -> Fix:
    source = site.source
    if isinstance(site.statement, ast.Expr) and site.statement.value is expression and source.alone(site.statement):
        description = "The line is removed: its result is unused, and it has no other effect."
        return Fix("remove the line", description, (removed(source, site.statement),))
    constant = "_" + ConstantNames(source, function).named(expression).replace(".", "_").upper()
    while constant in source.text:
        constant += "_"
    at = _above(source, function)
    line = f"{constant} = {source.of(expression)}{source.newline * 3}"
    edits = (Edit(at, at, line), Edit(source.start(expression), source.end(expression), constant))
    return Fix("evaluate it once", f"`{constant}` above the function holds the result.", edits, (_EVALUATED_ONCE,))


def _read_above(site: Site, block: ast.With, function: Function) -> Iterator[Fix]:
    """Move `with open(…) as file: text = file.read()` above the function, with the names that it assigns."""
    source = site.source
    names = _assigned(block)
    if names is None or not source.alone(block) or any(_binds(source, function, block, name) for name in names):
        return
    constant = ConstantNames(source, function, frozenset(names))
    values = [s.value for s in block.body if isinstance(s, ast.Assign)]
    contexts = [item.context_expr for item in block.items]
    if (
        not all(map(constant, (*contexts, *values)))
        or not all(map(constant.named, contexts))
        or has_multiline_string(block)
    ):
        return
    at, indent = _above(source, function), source.indent(block)
    lines = source.lines[block.lineno - 1 : block.end_lineno]
    moved = "".join(line.removeprefix(indent) for line in lines)
    holding = ", ".join(f"`{name}`" for name in names if name not in _handles(block))
    edits = (Edit(at, at, f"{moved}{source.newline * 2}"), removed(source, block))
    yield Fix("read it once", f"{holding} above the function holds the content.", edits, (_EVALUATED_ONCE,))


def _assigned(block: ast.With) -> tuple[str, ...] | None:
    """Return the names that a block binds; None if it does anything else."""
    names = [*_handles(block)]
    for statement in block.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)]):
                names.append(name)
            case _:
                return None
    return tuple(names) if all(item.optional_vars is not None for item in block.items) else None


def _handles(block: ast.With) -> tuple[str, ...]:
    return tuple(item.optional_vars.id for item in block.items if isinstance(item.optional_vars, ast.Name))


def _binds(source: SyntaxSource, function: Function, block: ast.With, name: str) -> bool:
    """Return whether a name is also bound elsewhere in the function, or used at the top of the file."""
    inside = {id(node) for node in ast.walk(block)}
    own = (n for n in ast.walk(function) if id(n) not in inside)
    bound = any(isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Store) for n in own)
    argument = any(isinstance(n, ast.arg) and n.arg == name for n in ast.walk(function))
    outside = (n for s in source.tree.body if not _covers(s, function) for n in ast.walk(s))
    return bound or argument or any(isinstance(n, ast.Name) and n.id == name for n in outside)


def _above(source: SyntaxSource, function: Function) -> int:
    """Return the start of the top-level definition that contains a function."""
    top = next(s for s in source.tree.body if _covers(s, function))
    return source.line_start(min([top.lineno, *(d.lineno for d in getattr(top, "decorator_list", ()))]))


def _covers(statement: ast.stmt, function: Function) -> bool:
    return statement.lineno <= function.lineno <= (statement.end_lineno or statement.lineno)
