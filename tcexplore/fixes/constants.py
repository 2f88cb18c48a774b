"""Constant expressions, such as the content of a file, evaluated once when the model file is imported."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator

from tcexplore.fixes.eager_only import removed
from tcexplore.fixes.fix import Fix, Site
from tcexplore.fixes.syntax_source import Edit, Function, SyntaxSource, has_multiline_string

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


CALLS = (
    "zlib.", "binascii.", "hashlib.", "platform.", "struct.", "base64.", "json.dumps", "json.load", "os.getenv",
    "os.environ.get", "os.cpu_count", "os.getcwd", "socket.gethostname", "sys.getsizeof", "textwrap.", "open",
    "os.path.", "os.listdir", "os.stat", "glob.glob", "pathlib.Path", "pickle.load", "tomllib.load", "yaml.safe_load",
    "torch.load", "numpy.load",
)  # fmt: skip
"""Prefixes of functions that return the same for the same arguments as long as files do not change."""

_PLAIN = frozenset(
    {"len", "int", "float", "str", "bool", "bytes", "sorted", "tuple", "list", "dict", "sum", "min", "max"}
)
_WRITES = frozenset("wax+")
_CHANGES = ("write", "unlink", "mkdir", "touch", "rename", "replace", "rmdir", "chmod", "symlink", "truncate")


class ConstantNames:
    """Decides whether an expression in a function is constant; `also` are names to treat as top-level ones."""

    def __init__(self, source: SyntaxSource, function: Function, also: frozenset[str] = frozenset()) -> None:
        self._source = source
        self._also = also
        self._known = (_top_level(source.tree) - set(_stored(function))) | also | {"__file__"}

    def calls(self, statement: ast.stmt) -> Iterator[ast.expr]:
        """Yield the largest constant expressions of a statement that call one of `CALLS`."""
        waiting: list[ast.AST] = [statement]
        while waiting:
            node = waiting.pop(0)
            if isinstance(node, ast.expr) and self.named(node) and not self._is_open(node) and self(node):
                yield node
            else:
                waiting += _inside(node)

    def named(self, node: ast.expr) -> str:
        """Return the full name of the first of `CALLS` that an expression calls; empty without one."""
        names = (self._source.dotted(n.func) for n in ast.walk(node) if isinstance(n, ast.Call))
        return next((name for name in names if name.startswith(CALLS)), "")

    def __call__(self, node: ast.expr) -> bool:
        """Return whether an expression is constant."""
        match node:
            case ast.Constant():
                return True
            case ast.Name(id=name):
                return name in self._known
            case ast.Attribute(value=value):
                return self(value)
            case ast.Subscript(value=value, slice=index):
                return self(value) and self(index)
            case ast.BinOp(left=left, right=right):
                return self(left) and self(right)
            case ast.Call():
                return self._function(node) and all(map(self, (*node.args, *(k.value for k in node.keywords))))
        return False

    def _function(self, call: ast.Call) -> bool:
        """Return whether a call is constant: a known function, or a method of a constant result."""
        name = self._source.dotted(call.func)
        if name.startswith(CALLS):
            return not self._writes(call)
        if isinstance(call.func, ast.Attribute) and not call.func.attr.startswith(_CHANGES):
            owner = call.func.value
            read = isinstance(owner, ast.Name) and owner.id in self._also
            return (read or bool(self.named(owner))) and self(owner)
        return name in _PLAIN

    def _is_open(self, node: ast.expr) -> bool:
        """Return whether this opens a file, which can be read only once."""
        return isinstance(node, ast.Call) and self._source.dotted(node.func) == "open"

    def _writes(self, call: ast.Call) -> bool:
        if not self._is_open(call):
            return False
        modes = [*call.args[1:2], *(k.value for k in call.keywords if k.arg == "mode")]
        return any(not isinstance(mode, ast.Constant) or bool(_WRITES & set(str(mode.value))) for mode in modes)


def _inside(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the children of a node, without the object of a method that changes it."""
    match node:
        case ast.Call(func=ast.Attribute(value=owner, attr=name)):
            yield from () if name.startswith(_CHANGES) else (owner,)
            yield from (*node.args, *node.keywords)
        case _:
            yield from ast.iter_child_nodes(node)


def _top_level(tree: ast.Module) -> set[str]:
    """Return the names that imports and single assignments bind at the top of a file."""
    imported = {a.asname or a.name.partition(".")[0] for s in tree.body if isinstance(s, ast.Import | ast.ImportFrom)
                for a in s.names}  # fmt: skip
    assigned = [t.id for s in tree.body if isinstance(s, ast.Assign) for t in s.targets if isinstance(t, ast.Name)]
    return imported | {name for name in assigned if assigned.count(name) == 1 and name not in dir(builtins)}


def _stored(function: Function) -> Iterator[str]:
    """Yield the local names of a function."""
    for node in ast.walk(function):
        if isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
