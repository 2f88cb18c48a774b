"""Detection of files that compile something themselves, from their syntax before they run."""

from __future__ import annotations

import ast
from collections.abc import Iterator

_COMPILERS = {"torch.compile", "torch._dynamo.optimize", "torch.compiler.compile"}


def compiles_itself(tree: ast.Module) -> bool:
    """Return whether the file uses `torch.compile` or calls the `.compile()` of an object.

    Names are resolved through the file's imports; `re.compile` and functions of other modules do not count.
    """
    imports = _imported_names(tree)
    return any(_is_compiler(node, imports) for node in ast.walk(tree) if isinstance(node, ast.Attribute | ast.Name))


def module_names(tree: ast.Module) -> set[str]:
    """Return the names that the file binds at module level, outside `if __name__ == "__main__":`."""
    return set(_bound_names(tree.body))


def _bound_names(body: list[ast.stmt]) -> Iterator[str]:
    for statement in body:
        match statement:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                yield from (alias.asname or alias.name.partition(".")[0] for alias in aliases)
            case ast.If(test=test) if "__name__" in ast.unparse(test):
                continue
            case _:
                yield from _assigned_names(statement)


def _assigned_names(statement: ast.stmt) -> Iterator[str]:
    """Yield the names that a statement binds, its body included."""
    for child in ast.iter_child_nodes(statement):
        if isinstance(child, ast.stmt):
            yield from _bound_names([child])
        elif isinstance(child, ast.ExceptHandler):
            yield from _bound_names(child.body)
        else:
            yield from (
                node.id for node in ast.walk(child) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
            )


def _imported_names(tree: ast.Module) -> dict[str, str]:
    """Return the full dotted name of every name that an import binds anywhere in the file."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.partition(".")[0]
                names[alias.asname or top] = alias.name if alias.asname else top
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return names


def _is_compiler(node: ast.Attribute | ast.Name, imports: dict[str, str]) -> bool:
    dotted = ast.unparse(node)
    root, dot, rest = dotted.partition(".")
    if root in imports:
        return imports[root] + dot + rest in _COMPILERS
    return isinstance(node, ast.Attribute) and node.attr == "compile"
