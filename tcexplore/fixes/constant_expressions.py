"""Constant expressions: they depend only on the file's top-level names, and on files."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator

from tcexplore.fixes.syntax_source import Function, SyntaxSource

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
