"""A house that one can read: small files, short functions, no drawer for what belongs nowhere."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "tcexplore").rglob("*.py"))
TOP = {
    "tcexplore", "samples", "tests", "pyproject.toml", "Dockerfile", "README.md", "LICENSE", "CHANGELOG.md",
}  # fmt: skip


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def test_no_file_is_over_400_lines_and_half_are_under_120():
    lengths = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in SOURCES}
    assert {path: length for path, length in lengths.items() if length > 400} == {}
    assert median(lengths.values()) < 120


def test_no_function_is_over_45_lines():
    found = {
        f"{path.relative_to(ROOT)}:{function.lineno} {function.name}": length
        for path in SOURCES
        for function in functions(path)
        if (length := (function.end_lineno or 0) - function.lineno + 1) > 45
    }
    assert found == {}


def test_no_class_is_over_350_lines():
    found = {
        f"{path.relative_to(ROOT)}:{node.name}"
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef) and (node.end_lineno or 0) - node.lineno > 350
    }
    assert found == set()


def test_every_module_says_what_it_is_for():
    undocumented = [str(p.relative_to(ROOT)) for p in SOURCES if not ast.get_docstring(ast.parse(p.read_text()))]
    assert undocumented == []


def test_no_file_is_a_drawer():
    assert [p.name for p in SOURCES if re.fullmatch(r"(utils?|common|misc)\.py", p.name)] == []


def test_the_top_level_stays_as_it_is():
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False).stdout
    top = {line.split("/")[0] for line in listed.splitlines()}
    assert {name for name in top if not name.startswith(".")} <= TOP


def test_no_private_path_or_debugger_is_left_in():
    for path in [*SOURCES, *(ROOT / "samples").glob("*.py")]:
        text = path.read_text()
        assert "breakpoint()" not in text, path
        assert not re.search(r"/(home|work|root|Users)/\w", text), path
