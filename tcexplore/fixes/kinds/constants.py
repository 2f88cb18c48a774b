"""What gives the same every time, such as what a file holds: evaluated once, when the user's file is imported."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tcexplore.fixes.constant_expressions import ConstantNames
from tcexplore.fixes.fix import Fix, Site
from tcexplore.fixes.kinds.explicit_breaks import removed
from tcexplore.fixes.syntax_source import Function, SyntaxSource
from tcexplore.fixes.text_edit import Edit

_WHEN = "It is evaluated once, when the file is imported: a later change of what it reads is not seen."


def constant_fixes(site: Site) -> Iterator[Fix]:
    """A name above the function, and the name in the place of what is evaluated; a block that reads as a whole."""
    function = site.function
    if function is None:
        return
    if isinstance(site.statement, ast.With):
        yield from _read_above(site, site.statement, function)
        return
    for found in ConstantNames(site.source, function).calls(site.statement):
        yield _moved(site, found, function)
        return


def _moved(site: Site, found: ast.expr, function: Function) -> Fix:
    source = site.source
    if isinstance(site.statement, ast.Expr) and site.statement.value is found and source.alone(site.statement):
        said = "What it returns is not used, and it does nothing else: the line goes."
        return Fix("take it out", said, (removed(source, site.statement),))
    constant = "_" + ConstantNames(source, function).named(found).replace(".", "_").upper()
    while constant in source.text:
        constant += "_"
    at = _above(source, function)
    line = f"{constant} = {source.of(found)}{source.newline * 3}"
    edits = (Edit(at, at, line), Edit(source.start(found), source.end(found), constant))
    return Fix("evaluate it once", f"`{constant}` above has what the call gives.", edits, (_WHEN,))


def _read_above(site: Site, block: ast.With, function: Function) -> Iterator[Fix]:
    """`with open(…) as file: text = file.read()`, moved above the function with the names that it assigns to."""
    source = site.source
    names = _assigned(block)
    if names is None or not source.alone(block) or any(_binds(source, function, block, name) for name in names):
        return
    steady = ConstantNames(source, function, frozenset(names))
    values = [s.value for s in block.body if isinstance(s, ast.Assign)]
    contexts = [item.context_expr for item in block.items]
    if not all(map(steady, (*contexts, *values))) or not all(map(steady.named, contexts)) or _has_texts(block):
        return
    at, indent = _above(source, function), source.indent(block)
    lines = source.lines[block.lineno - 1 : block.end_lineno]
    moved = "".join(line.removeprefix(indent) for line in lines)
    kept = ", ".join(f"`{name}`" for name in names if name not in _handles(block))
    edits = (Edit(at, at, f"{moved}{source.newline * 2}"), removed(source, block))
    yield Fix("read it once", f"{kept} above has what was read.", edits, (_WHEN,))


def _assigned(block: ast.With) -> tuple[str, ...] | None:
    """The names that a block binds; None where it does anything else."""
    found = [*_handles(block)]
    for statement in block.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)]):
                found.append(name)
            case _:
                return None
    return tuple(found) if all(item.optional_vars is not None for item in block.items) else None


def _handles(block: ast.With) -> tuple[str, ...]:
    return tuple(item.optional_vars.id for item in block.items if isinstance(item.optional_vars, ast.Name))


def _binds(source: SyntaxSource, function: Function, block: ast.With, name: str) -> bool:
    """Whether a name means something else, too: elsewhere in the function, or at the top of the file."""
    inside = {id(node) for node in ast.walk(block)}
    own = (n for n in ast.walk(function) if id(n) not in inside)
    bound = any(isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Store) for n in own)
    argument = any(isinstance(n, ast.arg) and n.arg == name for n in ast.walk(function))
    outside = (n for s in source.tree.body if not _covers(s, function) for n in ast.walk(s))
    return bound or argument or any(isinstance(n, ast.Name) and n.id == name for n in outside)


def _has_texts(block: ast.With) -> bool:
    """Whether a text runs over several lines: it must not be moved."""
    texts = (n for n in ast.walk(block) if isinstance(n, ast.Constant | ast.JoinedStr))
    return any(node.lineno != node.end_lineno for node in texts)


def _above(source: SyntaxSource, function: Function) -> int:
    """The first character of the definition at the top of the file that a function stands in."""
    top = next(s for s in source.tree.body if _covers(s, function))
    return source.line_start(min([top.lineno, *(d.lineno for d in getattr(top, "decorator_list", ()))]))


def _covers(statement: ast.stmt, function: Function) -> bool:
    return statement.lineno <= function.lineno <= (statement.end_lineno or statement.lineno)
