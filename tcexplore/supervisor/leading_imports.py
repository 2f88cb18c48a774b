"""What a job's file imports first, for the process that waits for the next save."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from functools import lru_cache

from tcexplore.events import Job
from tcexplore.events.commands import EarlyImports
from tcexplore.events.python_source import imported_packages, parse_source

OTHERS = sys.stdlib_module_names | {"torch"}
"""Packages that a worker has loaded, or that take no time."""


def leading_imports(job: Job) -> EarlyImports | None:
    """Return what the process for the next run may import before its job arrives; None if that is nothing."""
    statements = _statements(job.source)
    return EarlyImports(file=job.file, argv=job.argv, statements=statements) if statements else None


def may_run(job: Job, early: EarlyImports | None) -> bool:
    """Return whether a process with these imports may run a job: its file begins with all of them."""
    if early is None:
        return True
    if (job.file, job.argv) != (early.file, early.argv) or job.baseline is not None or job.cold:
        return False
    return _statements(job.source)[: len(early.statements)] == early.statements


@lru_cache(8)
def _statements(source: str) -> tuple[str, ...]:
    try:
        body = parse_source(source, "").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    return tuple(ast.unparse(node) for node in _leading(body) if not OTHERS.issuperset(imported_packages(node)))


def _leading(body: list[ast.stmt]) -> Iterator[ast.Import | ast.ImportFrom]:
    """Yield the absolute imports before any other statement than the docstring."""
    for index, node in enumerate(body):
        docstring = index == 0 and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if isinstance(node, ast.Import) or (isinstance(node, ast.ImportFrom) and not node.level):
            yield node
        elif not docstring:
            return
