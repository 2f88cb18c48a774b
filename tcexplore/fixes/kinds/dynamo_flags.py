"""Fixes by what the file tells Dynamo: breaks that it requests are removed, flags that let Dynamo trace are set."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tcexplore.fixes.fix import Fix, Site
from tcexplore.fixes.syntax_source import Function, SyntaxSource
from tcexplore.fixes.text_edit import Edit

SCALARS = "capture_scalar_outputs"
SHAPES = "capture_dynamic_output_shape_ops"
AUTOGRAD = "trace_autograd_ops"

_DESCRIPTIONS = {
    SCALARS: "Dynamo keeps the number in the graph as a symbol, instead of reading its value.",
    SHAPES: "Dynamo keeps the size of the result in the graph as a symbol, instead of reading it.",
    AUTOGRAD: "Dynamo traces the gradient computation inside the function into the graph.",
}
_GLOBAL = "The flag applies to everything that this process compiles."


def scalar_flag_fixes(site: Site) -> Iterator[Fix]:
    """Turn numbers read from tensors into symbols."""
    yield from _flag(site, SCALARS)


def shape_flag_fixes(site: Site) -> Iterator[Fix]:
    """Turn sizes that depend on values into symbols."""
    yield from _flag(site, SHAPES)


def autograd_flag_fixes(site: Site) -> Iterator[Fix]:
    """Trace `torch.autograd.grad` and `.backward()`."""
    yield from _flag(site, AUTOGRAD)


def _flag(site: Site, name: str) -> Iterator[Fix]:
    edit = dynamo_line(site, f"config.{name} = True", name)
    if edit is not None:
        yield Fix(f"set {name}", _DESCRIPTIONS[name], (edit,), (_GLOBAL,))


def dynamo_line(site: Site, line: str, unless: str) -> Edit | None:
    """Return an edit that adds `torch._dynamo.<line>` below the imports; None if the file mentions `unless`."""
    source = site.source
    if unless in source.text:
        return None
    if source.torch is None:
        return source.below_imports("import torch._dynamo", "", f"torch._dynamo.{line}")
    return source.below_imports(f"{source.torch}._dynamo.{line}")


BREAKS = ("torch._dynamo.graph_break", "torch._dynamo.skip_frame")
DISABLES = ("torch.compiler.disable", "torch._dynamo.disable", "torch.compiler._disable")


def explicit_break_fixes(site: Site) -> Iterator[Fix]:
    """Remove the line."""
    source, statement = site.source, site.statement
    match statement:
        case ast.Expr(value=ast.Call(func=function)) if source.dotted(function) in BREAKS and source.alone(statement):
            yield Fix("remove the line", "The line that requests the break is removed.", (removed(source, statement),))


def disable_fixes(site: Site) -> Iterator[Fix]:
    """Remove the decorator from the called function."""
    source = site.source
    names = {source.dotted(node.func).rpartition(".")[2] for node in _calls(site.statement)}
    functions = (n for n in ast.walk(source.tree) if isinstance(n, Function) and n.name in names)
    for function in functions:
        for decorator in (d for d in function.decorator_list if _disables(source, d)):
            first, last = decorator.lineno, decorator.end_lineno or decorator.lineno
            yield Fix(
                "compile it too",
                f"`{function.name}` is compiled too.",
                (Edit(source.line_start(first), source.line_start(last + 1), ""),),
                (f"`{function.name}` was excluded for a reason: check whether it still holds.",),
            )


def _calls(statement: ast.stmt) -> list[ast.Call]:
    calls = [node for node in ast.walk(statement) if isinstance(node, ast.Call)]
    return [call for call in calls if isinstance(call.func, ast.Name | ast.Attribute)]


def _disables(source: SyntaxSource, decorator: ast.expr) -> bool:
    function = decorator.func if isinstance(decorator, ast.Call) else decorator
    return source.dotted(function) in DISABLES


def removed(source: SyntaxSource, statement: ast.stmt) -> Edit:
    """Return an edit that removes a statement; it leaves `pass` in a block that would be empty."""
    if len(source.block(statement)) == 1:
        return Edit(source.start(statement), source.end(statement), "pass")
    last = statement.end_lineno or statement.lineno
    return Edit(source.line_start(statement.lineno), source.line_start(last + 1), "")
