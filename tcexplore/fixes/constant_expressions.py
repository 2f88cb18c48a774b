"""Which expressions give the same every time: they read what the file's own top has, and files."""

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
"""What gives the same for the same arguments, as long as files stay as they are, by the beginning of its name."""

_PLAIN = frozenset(
    {"len", "int", "float", "str", "bool", "bytes", "sorted", "tuple", "list", "dict", "sum", "min", "max"}
)
_WRITES = frozenset("wax+")
_CHANGES = ("write", "unlink", "mkdir", "touch", "rename", "replace", "rmdir", "chmod", "symlink", "truncate")


class ConstantNames:
    """Tells what gives the same every time in a function; `also` are names that count as top-level ones."""

    def __init__(self, source: SyntaxSource, function: Function, also: frozenset[str] = frozenset()) -> None:
        self._source = source
        self._also = also
        self._known = (_top_level(source.tree) - set(_stored(function))) | also | {"__file__"}

    def calls(self, statement: ast.stmt) -> Iterator[ast.expr]:
        """The widest expressions of a statement that give the same every time and call something for it."""
        waiting: list[ast.AST] = [statement]
        while waiting:
            node = waiting.pop(0)
            if isinstance(node, ast.expr) and self.named(node) and not self._is_open(node) and self(node):
                yield node
            else:
                waiting += _inside(node)

    def named(self, node: ast.expr) -> str:
        """The first of `CALLS` that is called inside, by its full name; empty where none is."""
        names = (self._source.dotted(n.func) for n in ast.walk(node) if isinstance(n, ast.Call))
        return next((name for name in names if name.startswith(CALLS)), "")

    def __call__(self, node: ast.expr) -> bool:
        """Whether an expression gives the same every time."""
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
        """A function that gives the same, or a method of something that one gave."""
        name = self._source.dotted(call.func)
        if name.startswith(CALLS):
            return not self._writes(call)
        if isinstance(call.func, ast.Attribute) and not call.func.attr.startswith(_CHANGES):
            owner = call.func.value
            read = isinstance(owner, ast.Name) and owner.id in self._also
            return (read or bool(self.named(owner))) and self(owner)
        return name in _PLAIN

    def _is_open(self, node: ast.expr) -> bool:
        """Whether this is an open file: it is read once only."""
        return isinstance(node, ast.Call) and self._source.dotted(node.func) == "open"

    def _writes(self, call: ast.Call) -> bool:
        if not self._is_open(call):
            return False
        modes = [*call.args[1:2], *(k.value for k in call.keywords if k.arg == "mode")]
        return any(not isinstance(mode, ast.Constant) or bool(_WRITES & set(str(mode.value))) for mode in modes)


def _inside(node: ast.AST) -> Iterator[ast.AST]:
    """What is in a node; of a method that is called its object, but for one that changes that."""
    match node:
        case ast.Call(func=ast.Attribute(value=owner, attr=name)):
            yield from () if name.startswith(_CHANGES) else (owner,)
            yield from (*node.args, *node.keywords)
        case _:
            yield from ast.iter_child_nodes(node)


def _top_level(tree: ast.Module) -> set[str]:
    """Names that imports and single assignments at the top of a file bind."""
    imported = {a.asname or a.name.partition(".")[0] for s in tree.body if isinstance(s, ast.Import | ast.ImportFrom)
                for a in s.names}  # fmt: skip
    assigned = [t.id for s in tree.body if isinstance(s, ast.Assign) for t in s.targets if isinstance(t, ast.Name)]
    return imported | {name for name in assigned if assigned.count(name) == 1 and name not in dir(builtins)}


def _stored(function: Function) -> Iterator[str]:
    """Names that a function has for itself."""
    for node in ast.walk(function):
        if isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
