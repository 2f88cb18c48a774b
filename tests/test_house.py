"""Rules of the code base: docstrings, declared dependencies, the top level, no private paths."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "tcexplore").rglob("*.py"))
TOP = {
    "tcexplore", "samples", "tests", "docs", "pyproject.toml", "Dockerfile", "README.md", "LICENSE", "CHANGELOG.md",
    "CONTRIBUTING.md",
}  # fmt: skip


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def test_every_module_has_a_docstring():
    undocumented = [str(p.relative_to(ROOT)) for p in SOURCES if not ast.get_docstring(parsed(p))]
    assert undocumented == []


def test_tests_import_neither_tests_nor_benchmarks():
    """What both need is in helper modules. Benchmarks may import helpers and each other."""
    imported = re.compile(r"^\s*(?:from|import) tests\.(?:\w+\.)*(?:test_\w+|benchmarks)\b", re.M)
    files = [path for path in (ROOT / "tests").rglob("*.py") if path.parent.name != "benchmarks"]
    assert [str(path.relative_to(ROOT)) for path in files if imported.search(path.read_text())] == []
    benchmarks = (ROOT / "tests" / "benchmarks").glob("*.py")
    assert [path.name for path in benchmarks if re.search(r"from tests\.[\w.]*\btest_", path.read_text())] == []


def test_no_module_is_named_utils_or_common():
    assert [p.name for p in SOURCES if re.fullmatch(r"(utils?|common|misc)\.py", p.name)] == []


def test_the_top_level_holds_only_the_agreed_files():
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False).stdout
    top = {line.split("/")[0] for line in listed.splitlines()}
    assert {name for name in top if not name.startswith(".")} <= TOP


def test_no_private_path_or_debugger_call_remains():
    texts = [*(ROOT / "samples").glob("*.py"), *(ROOT / "docs").rglob("*.md"), *(ROOT / ".github").rglob("*.yml")]
    for path in [*SOURCES, *(ROOT / "tcexplore").rglob("*.md"), *texts]:
        text = path.read_text()
        assert "breakpoint()" not in text, path
        assert not re.search(r"/(home|work|root|Users)/\w", text), path


DISTRIBUTIONS = {
    "mcp_types": "mcp-types", "pynvml": "nvidia-ml-py", "pytest_asyncio": "pytest-asyncio",
    "textual_serve": "textual-serve", "xdist": "pytest-xdist",
}  # fmt: skip
"""Distributions whose name differs from the import name."""


def imported_modules(path: Path) -> Iterator[str]:
    """Yield the top-level name of every module that a file imports absolutely."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]


def test_every_imported_module_is_declared():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    requirements = [
        *project["dependencies"],
        *(r for extra in project["optional-dependencies"].values() for r in extra),
    ]
    declared = {re.split(r"[<>=\[;\s]", requirement)[0] for requirement in requirements}
    own = {*sys.stdlib_module_names, "tcexplore", "tests", "lib"}
    files = [path for folder in ("tcexplore", "samples", "tests") for path in (ROOT / folder).rglob("*.py")]
    undeclared = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in files
        for name in imported_modules(path)
        if name not in own and DISTRIBUTIONS.get(name, name) not in declared
    }
    assert undeclared == set()
