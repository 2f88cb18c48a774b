"""Calls that are made for what they do and not for what they return: printing, logging, warning, waiting."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tcexplore.fixes.fix import Fix, Site
from tcexplore.fixes.kinds.dynamo_flags import dynamo_line
from tcexplore.fixes.syntax_source import SyntaxSource
from tcexplore.fixes.text_edit import Edit

DOES = {
    "print": "print nothing",
    "warnings.warn": "do not warn",
    "warnings.simplefilter": "leave the warning filters as they are",
    "warnings.filterwarnings": "leave the warning filters as they are",
    "time.sleep": "do not wait",
    "gc.collect": "do not collect garbage",
    "sys.stdout.flush": "do not flush",
    "sys.stdout.write": "print nothing",
    "sys.stderr.write": "print nothing",
    "pprint.pprint": "print nothing",
    "rich.print": "print nothing",
    "breakpoint": "do not stop in the debugger",
    "pdb.set_trace": "do not stop in the debugger",
    "torch.cuda.synchronize": "do not wait for the device",
    "torch.cuda.empty_cache": "keep the allocator's cache",
    "tqdm.tqdm.write": "print nothing",
}
"""What compiled calls do not do any more, by what is called."""

LOGGING = frozenset({"debug", "info", "warning", "warn", "error", "critical", "exception", "log"})


def propose(site: Site) -> Iterator[Fix]:
    """Print behind the graph, then: eager calls alone."""
    called = _called(site)
    if called is None:
        return
    name, does = called
    if name == "print":
        yield from _later(site)
    yield from _eager_only(site, does)


def _called(site: Site) -> tuple[str, str] | None:
    statement = site.statement
    if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Call):
        return None
    function = statement.value.func
    name = site.source.dotted(function)
    if name in DOES:
        return name, DOES[name]
    return (name, "log nothing") if _logs(site.source, function) else None


def _logs(source: SyntaxSource, function: ast.expr) -> bool:
    """Whether this is a method of the logging module, or of a name that `logging.getLogger` gave."""
    if not isinstance(function, ast.Attribute) or function.attr not in LOGGING:
        return False
    owner = source.dotted(function.value)
    return owner == "logging" or any(
        isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Call)
        and source.dotted(node.value.func) == "logging.getLogger"
        and any(source.dotted(target) == owner for target in node.targets)
        for node in ast.walk(source.tree)
    )


def _later(site: Site) -> Iterator[Fix]:
    edit = dynamo_line(site, "config.reorderable_logging_functions.add(print)", "reorderable_logging")
    if edit is not None:
        yield Fix(
            "print behind the graph",
            "Dynamo leaves the `print` for the end of the graph, with the values that it had here.",
            (edit,),
            ("A compiled call prints the same, once its graph is through.",),
            prints=True,
        )


def _eager_only(site: Site, does: str) -> Iterator[Fix]:
    source, statement = site.source, site.statement
    torch = source.torch
    if torch is None or not source.alone(statement):
        return
    step = "\t" if source.indent(statement).startswith("\t") else "    "
    start = source.start(statement)
    head = f"if not {torch}.compiler.is_compiling():{source.newline}{source.indent(statement)}{step}"
    rest = source.lines[statement.lineno : statement.end_lineno]
    inside = [Edit(source.line_start(statement.lineno + 1 + n), source.line_start(statement.lineno + 1 + n), step)
              for n, line in enumerate(rest) if line.strip() and not _in_string(statement)]  # fmt: skip
    yield Fix(
        "in eager calls alone",
        "While Dynamo traces, the line is left out.",
        (Edit(start, start, head), *inside),
        (f"Compiled calls {does}; eager calls do as before.",),
    )


def _in_string(statement: ast.stmt) -> bool:
    """Whether a text runs over several lines of the statement: its lines must not be moved."""
    texts = (n for n in ast.walk(statement) if isinstance(n, ast.Constant | ast.JoinedStr))
    return any(node.lineno != node.end_lineno for node in texts)
