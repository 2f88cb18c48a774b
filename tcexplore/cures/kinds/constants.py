"""A call outside torch that gives the same every time: made once, when the file is imported."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tcexplore.cures.cure import Cure, Site
from tcexplore.cures.edit import Edit
from tcexplore.cures.kinds.own_breaks import removed
from tcexplore.cures.source import Source

STEADY = (
    "zlib.", "binascii.", "hashlib.", "platform.", "struct.", "base64.", "json.dumps", "json.loads", "os.getenv",
    "os.environ.get", "os.cpu_count", "os.getcwd", "socket.gethostname", "sys.getsizeof", "textwrap.",
)  # fmt: skip
"""What gives the same for the same arguments, by the beginning of its name."""

_WHEN = "It is evaluated once, when the file is imported: a later change of what it reads is not seen."


def propose(site: Site) -> Iterator[Cure]:
    """A name above the function, and the name in the place of the call."""
    source, function = site.source, site.function
    if function is None:
        return
    top = _top(source, function)
    for call in (n for n in ast.walk(site.statement) if isinstance(n, ast.Call)):
        arguments = (*call.args, *(keyword.value for keyword in call.keywords))
        steady = source.dotted(call.func).startswith(STEADY)
        if steady and all(isinstance(argument, ast.Constant) for argument in arguments):
            yield _moved(site, call, top)
            return


def _moved(site: Site, call: ast.Call, top: ast.stmt) -> Cure:
    source = site.source
    if isinstance(site.statement, ast.Expr) and site.statement.value is call and source.alone(site.statement):
        said = "What it returns is not used, and it does nothing else: the line goes."
        return Cure("take it out", said, (removed(source, site.statement),))
    constant = "_" + source.dotted(call.func).replace(".", "_").upper()
    while constant in source.text:
        constant += "_"
    first = min([top.lineno, *(d.lineno for d in getattr(top, "decorator_list", ()))])
    at = source.line_start(first)
    line = f"{constant} = {source.of(call)}{source.newline * 3}"
    edits = (Edit(at, at, line), Edit(source.start(call), source.end(call), constant))
    return Cure("evaluate it once", f"`{constant}` above has what the call gives.", edits, (_WHEN,))


def _top(source: Source, function: ast.stmt) -> ast.stmt:
    """The definition at the top of the file that a function stands in."""
    return next(s for s in source.tree.body if s.lineno <= function.lineno <= (s.end_lineno or s.lineno))
