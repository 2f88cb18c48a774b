"""The readable text of a kernel, extracted from the Python expression that defines it in the wrapper."""

from __future__ import annotations

import ast
from typing import NamedTuple

_LANGUAGES = {"cpp": "cpp", "cpp_pybinding": "cpp", "triton": "triton"}


class KernelSource(NamedTuple):
    """A kernel's text as it is shown."""

    language: str
    text: str
    cut: int
    """Number of lines left out before the text, without blank lines at the top."""


def kernel_source(body: str) -> KernelSource:
    """Extract the kernel from `async_compile.cpp_pybinding([...], r'''...''')` or
    `async_compile.triton('name', '''...''')`.

    With the C++ wrapper there is no Python expression, and the body is the kernel.
    """
    call = _call(body)
    texts = (
        [arg.value for arg in call.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)] if call else []
    )
    if call is None or not texts:
        return _trimmed("cpp", body, 0)
    name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    language, text = _LANGUAGES.get(name, name), max(texts, key=len)
    return _trimmed(language, text, _preamble(text) if language == "triton" else 0)


def _call(body: str) -> ast.Call | None:
    try:
        expression = ast.parse(body.strip(), mode="eval").body
    except (SyntaxError, ValueError):
        return None
    return expression if isinstance(expression, ast.Call) else None


def _preamble(text: str) -> int:
    """Count the lines of imports and setup before the first definition."""
    try:
        statements = ast.parse(text).body
    except (SyntaxError, ValueError):
        return 0
    for statement in statements:
        if isinstance(statement, ast.FunctionDef | ast.ClassDef):
            return min([statement.lineno, *(d.lineno for d in statement.decorator_list)]) - 1
        if not isinstance(statement, ast.Import | ast.ImportFrom | ast.Expr):
            return statement.lineno - 1
    return 0


def _trimmed(language: str, text: str, cut: int) -> KernelSource:
    lines = text.split("\n")
    blank = next((n for n, line in enumerate(lines) if line.strip()), 0)
    start = next((n for n in range(max(cut, blank), len(lines)) if lines[n].strip()), blank)
    return KernelSource(language, "\n".join(lines[start:]).rstrip() + "\n", start - blank)
