"""Links in the documents lead to what exists, and the table of packages names what each of them imports."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
LINK = re.compile(r"\]\((?!https?:)([^)\s#]*)#?([^)\s]*)\)")


@cache
def anchors(file: Path) -> frozenset[str]:
    """Return the anchors of a document's headings, as GitHub makes them."""
    headings = (line.lstrip("#").strip() for line in file.read_text().splitlines() if line.startswith("#"))
    texts = (re.sub(r"`|\[|\]\([^)]*\)", "", heading).lower() for heading in headings)
    return frozenset(re.sub(r"[^\w\- ]", "", text).replace(" ", "-") for text in texts)


def broken_links(file: Path) -> Iterator[str]:
    """Yield each link of a document that leads nowhere."""
    for path, anchor in LINK.findall(file.read_text()):
        target = file.parent / path if path else file
        if not target.exists() or (anchor and anchor not in anchors(target)):
            yield f"{file.relative_to(ROOT)}: {path}#{anchor}"


def test_links_between_documents_lead_somewhere():
    files = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "docs" / "llms.txt"]
    assert [link for file in files for link in broken_links(file)] == []


ANYWHERE = {"quantities", "keymap", "__version__", "_version"}
ROW = re.compile(r"^\| (`[a-z_]+(?:/|\.py)`(?:, `[a-z_]+(?:/|\.py)`)*) \| .* \| (.*) \|$", re.M)


def packages_imported_by(package: str) -> set[str]:
    """Return the packages of tcexplore that the modules of a package import, also in functions."""
    folder = ROOT / "tcexplore" / package
    imported = set[str]()
    for file in folder.rglob("*.py") if folder.is_dir() else [folder.with_suffix(".py")]:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module == "tcexplore":
                imported.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tcexplore."):
                imported.add(str(node.module).split(".")[1])
    return imported - ANYWHERE


def test_the_table_of_packages_names_what_each_of_them_imports():
    page = (ROOT / "docs" / "architecture.md").read_text()
    rows = {names: imports for names, imports in ROW.findall(page.partition("## Processes")[0]) if "all" not in imports}
    assert len(rows) > 15
    known = {path.stem for path in (ROOT / "tcexplore").iterdir()}
    named, imported = {}, {}
    for names, imports in rows.items():
        packages = [name.strip("`/").removesuffix(".py") for name in names.split(", ")]
        named[names] = sorted(known & set(re.findall(r"\w+", imports)))
        imported[names] = sorted(set().union(*map(packages_imported_by, packages)) - set(packages))
    assert named == imported
