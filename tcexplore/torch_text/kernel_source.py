"""The readable text of a kernel, extracted from the Python expression that defines it in the wrapper."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

from tcexplore.events import KernelLine, Location, UserOp

_LANGUAGES = {
    "cpp": "cpp", "cpp_pybinding": "cpp", "triton": "triton", "compile_mps_shader": "metal", "cutlass": "cuda",
}  # fmt: skip
"""Languages by the function that compiles them; other functions are named for their language."""

DEFINITION = re.compile(r"""^(\w+) = (async_compile\.\w+\(|[\w.]+\((?=[^\n]*(?:'''|\"\"\")$))""", re.M)
"""A kernel in a generated module: what compiles it gets the text. `async_compile.pallas('name', r'''`, for one."""


_SETUP = re.compile(r"(?:import |from |#|[\w.]+\([\w.]*\)$|$)")
"""A line before the definition of a Triton kernel as Inductor writes it."""


class KernelSource(NamedTuple):
    """A kernel's text as it is shown."""

    language: str
    text: str
    cut: int
    """Number of lines left out before the text, without blank lines at the top."""


def kernel_source(body: str) -> KernelSource:
    """Extract the kernel from `async_compile.cpp_pybinding([...], r'''...''')` or
    `async_compile.triton('name', '''...''')`, or from a call of any other function that compiles a text.

    With the C++ wrapper there is no Python expression, and the body is the kernel.
    """
    call = _call(body)
    texts = (
        [arg.value for arg in call.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)] if call else []
    )
    if call is None or not texts:
        return _trimmed("cpp", body, 0)
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    language = _LANGUAGES.get(name) or name.removeprefix("compile_") or "unknown"
    text = max(texts, key=len)
    return _trimmed(language, text, _preamble(text) if language == "triton" else 0)


def read_definitions(text: str) -> Iterator[tuple[str, KernelSource, int, int]]:
    """Yield name, text, start and end of each kernel that a generated module defines, in whatever language."""
    end = 0
    for match in DEFINITION.finditer(text):
        if match.start() >= end:
            end = _definition_end(text, match.end())
            yield match[1], kernel_source(text[match.start(2) : end]), match.start(), end


_QUOTE = re.compile(r"'''|\"\"\"")
_MAPPED = re.compile(r"^#?\s*(?:# )?\s*(\S+) => (.+)$", re.M)
_FRAGMENT = re.compile(r"%(\w+) : .*= call_function\[target=")


def commented_nodes(comment: str) -> frozenset[str]:
    """Return the post-grad nodes that Inductor's comment on a definition names."""
    if fragment := _FRAGMENT.findall(comment):
        return frozenset(fragment)
    return frozenset(name.strip() for match in _MAPPED.finditer(comment) for name in match[2].split(","))


def _definition_end(text: str, start: int) -> int:
    """Return the end of a definition: the line of the parenthesis after its triple-quoted text, if it has one."""
    quote = _QUOTE.search(text, start)
    line_end = text.find("\n", start)
    if quote is None or 0 <= line_end < quote.start():
        return line_end if line_end >= 0 else len(text)
    close = text.find(quote[0], quote.end())
    end = text.find("\n", close)
    return len(text) if close < 0 or end < 0 else end


def written_user_kernel(text: str) -> UserOp | None:
    """Return the user's Triton kernel that Inductor wrote into a module; None for a generated kernel.

    The module does not name its file.
    """
    if "@triton_heuristics.user_autotune(" not in text:
        return None
    lines = text.split("\n")
    start = _definition(lines)
    if start is None:
        return None
    name = lines[start].lstrip().removeprefix("def ").partition("(")[0]
    return UserOp(kind="Triton kernel", name=name, source="\n".join(lines[start:]))


def definition_lines(kernel: UserOp | None, text: str, nodes: tuple[str, ...]) -> tuple[KernelLine, ...]:
    """Return the lines of a user's Triton kernel, each with its line in the user's file and the `nodes` that call it.

    Inductor copies the function from `def` on; its decorators are torch's.
    """
    if kernel is None or kernel.location is None:
        return ()
    definition, written = kernel.source.split("\n"), text.split("\n")
    first, start = _definition(definition), _definition(written)
    if first is None or start is None:
        return ()
    place, lines = kernel.location, []
    for offset, (line, copied) in enumerate(zip(definition[first:], written[start:], strict=False)):
        if offset and line.strip() != copied.strip():
            break
        if line.strip():
            origin = Location(place.file, place.line + first + offset, place.function)
            lines.append(KernelLine(n=start + offset + 1, nodes=nodes, source=(origin,)))
    return tuple(lines)


def _definition(lines: list[str]) -> int | None:
    return next((index for index, line in enumerate(lines) if line.lstrip().startswith("def ")), None)


def _call(body: str) -> ast.Call | None:
    try:
        expression = ast.parse(body.strip(), mode="eval").body
    except (SyntaxError, ValueError):
        return None
    return expression if isinstance(expression, ast.Call) else None


def _preamble(text: str) -> int:
    """Count the lines of imports and setup before the first definition."""
    for number, line in enumerate(text.split("\n")):
        if line.startswith(("@", "def ", "class ")):
            return number
        if not _SETUP.match(line):
            break  # something that only the parser understands
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
