"""Does a file compile something itself? Read from its syntax, before it is run."""

from __future__ import annotations

import ast
from collections.abc import Iterator

_COMPILERS = {"torch.compile", "torch._dynamo.optimize", "torch.compiler.compile"}


def compiles_itself(tree: ast.Module) -> bool:
    """Whether the file calls or decorates with `torch.compile`, or calls some object's own `.compile()`.

    Names are followed through the file's imports; `re.compile` and other modules' functions do not count.
    """
    imported = _imports(tree)
    return any(_is_compiler(node, imported) for node in ast.walk(tree) if isinstance(node, ast.Attribute | ast.Name))


def module_names(tree: ast.Module) -> set[str]:
    """Names that the file binds at module level, outside `if __name__ == "__main__":`."""
    return set(_bound(tree.body))


def _bound(body: list[ast.stmt]) -> Iterator[str]:
    for statement in body:
        match statement:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                yield from (alias.asname or alias.name.partition(".")[0] for alias in aliases)
            case ast.If(test=test) if "__name__" in ast.unparse(test):
                continue
            case _:
                yield from _assigned(statement)


def _assigned(statement: ast.stmt) -> Iterator[str]:
    """What a statement binds by itself and, where it has a body, what that binds."""
    for child in ast.iter_child_nodes(statement):
        if isinstance(child, ast.stmt):
            yield from _bound([child])
        elif isinstance(child, ast.ExceptHandler):
            yield from _bound(child.body)
        else:
            yield from (
                node.id for node in ast.walk(child) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
            )


def _imports(tree: ast.Module) -> dict[str, str]:
    """Full dotted name of every name that an import binds anywhere in the file."""
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.partition(".")[0]
                found[alias.asname or top] = alias.name if alias.asname else top
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                found[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return found


def _is_compiler(node: ast.Attribute | ast.Name, imported: dict[str, str]) -> bool:
    dotted = ast.unparse(node)
    root, dot, rest = dotted.partition(".")
    if root in imported:
        return imported[root] + dot + rest in _COMPILERS
    return isinstance(node, ast.Attribute) and node.attr == "compile"
