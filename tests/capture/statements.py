"""Statements in a kernel's source: assignments of temporaries and accumulators, loads, stores."""

from __future__ import annotations

import ast
import re

from tcexplore.events import Kernel

_VALUE = re.compile(r"\b_?tmp\w*\b|\b(?:in|out|in_out)_ptr\d+\b|\btl\.(?:load|store|atomic_\w+)\(")
_CONTROL = ("for", "if", "else", "while", "with", "#", "@", "def ", "{", "}", "//")
_ALIAS = re.compile(r"auto \w*ptr\d+ = \w*ptr\d+;$")


def statements(kernel: Kernel) -> list[int]:
    """Return the line numbers, from 1, of the statements in a generated kernel."""
    lines = kernel.source.split("\n")
    bodies = _triton_bodies(kernel.source) if kernel.language == "triton" else range(lines.index("{") + 1, len(lines))
    return [n + 1 for n in bodies if _is_statement(lines[n].strip(), kernel.language)]


def _triton_bodies(source: str) -> list[int]:
    functions = [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)]
    return [n for function in functions for n in range(function.body[0].lineno - 1, function.end_lineno or 0)]


def _is_statement(line: str, language: str) -> bool:
    if line.startswith(_CONTROL) or _ALIAS.match(line) or not _VALUE.search(line):
        return False
    return language == "triton" or line.endswith((";", "="))


def linked(kernel: Kernel) -> tuple[set[int], set[int]]:
    """Return the statements with an op and a line of the user, and those without."""
    linked_lines = {line.n for line in kernel.lines if line.nodes and line.source}
    lines = set(statements(kernel))
    return lines & linked_lines, lines - linked_lines
