"""Which room may import what, held in fresh interpreters."""

from __future__ import annotations

import ast
import pkgutil
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import tcexplore

FRONT = ("cli", "doctor", "documents", "events", "fixes", "quantities", "report", "session", "studies", "supervisor",
         "ui", "watch")  # fmt: skip
"""The packages of the front end's process: torch would cost it more than a second before the first frame."""

PURE = ("documents", "events", "fixes", "quantities", "session", "studies")
"""What holds, folds and describes events needs no terminal app."""

TORCH = ("capture", "timing", "accuracy")
"""Packages of the worker's process, which load torch."""

MAY_IMPORT = {
    "events": {"events"},
    "quantities": {"quantities"},
    "session": {"events", "session"},
    "watch": {"watch"},
    "fixes": {"documents", "events", "fixes", "quantities", "session"},
    "documents": {"documents", "events", "fixes", "quantities", "session", "targets"},
    "studies": {
        "argument_types",
        "documents",
        "events",
        "fixes",
        "quantities",
        "report",
        "session",
        "studies",
        "targets",
        "watch",
    },
    "report": {"documents", "events", "fixes", "quantities", "report", "session", "studies", "targets"},
    "supervisor": {"events", "supervisor"},
    "capture": {"capture", "events"},
    "accuracy": {"accuracy", "capture", "events", "quantities"},
    "timing": {"capture", "events", "quantities", "timing"},
}
"""tcexplore's own packages that a package may import: data flows one way."""


def modules(room: str) -> list[str]:
    """Every module of a room, but for those that are programs."""
    found = [f"tcexplore.{room}"]
    package = __import__(found[0], fromlist=["_"])
    found += [info.name for info in pkgutil.walk_packages(getattr(package, "__path__", ()), f"tcexplore.{room}.")]
    return [name for name in found if not name.endswith("__main__")]


def loaded_by(names: list[str]) -> set[str]:
    """What is in `sys.modules` after importing these in a fresh interpreter."""
    code = "import sys, importlib\nfor name in sys.argv[1:]: importlib.import_module(name)\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code, *names], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize("room", FRONT)
def test_the_front_end_never_imports_torch(room: str):
    assert not loaded_by(modules(room)) & {"torch", "triton"}


@pytest.mark.parametrize("room", PURE)
def test_what_is_pure_never_imports_textual(room: str):
    assert "textual" not in loaded_by(modules(room))


@pytest.mark.torch
@pytest.mark.parametrize("room", ["worker", *TORCH])
def test_the_workers_side_never_imports_textual(room: str):
    loaded = loaded_by(modules(room))
    assert "textual" not in loaded
    assert not {name for name in loaded if name.startswith(("tcexplore.ui", "tcexplore.cli", "tcexplore.report"))}


@pytest.mark.parametrize("room", [room for room in MAY_IMPORT if room not in TORCH])
def test_rooms_import_only_what_stands_on_their_left(room: str):
    assert rooms_loaded(room) <= MAY_IMPORT[room] | {""}


@pytest.mark.torch
@pytest.mark.parametrize("room", TORCH)
def test_capture_and_measuring_import_only_what_stands_on_their_left(room: str):
    assert rooms_loaded(room) <= MAY_IMPORT[room] | {""}


def rooms_loaded(room: str) -> set[str]:
    """tcexplore's own rooms among what a room loads; empty for the package itself."""
    own = {name for name in loaded_by(modules(room)) if name.partition(".")[0] == tcexplore.__name__}
    return {([*name.split("."), ""])[1] for name in own}


def test_asking_for_the_version_loads_next_to_nothing():
    code = (
        "import sys\nfrom tcexplore.cli import main\ntry: main(['--version'])\nexcept SystemExit: print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not set(done.stdout.split()) & {"torch", "textual", "rich", "asyncio", "watchfiles"}


def test_the_command_line_reads_no_device_at_the_start():
    assert not loaded_by(["tcexplore.cli.arguments", "tcexplore.cli.explore_command"]) & {
        "tcexplore.targets.device_table",
        "tomllib",
    }


def imports(path: Path, names: set[str]) -> set[str]:
    """Return the package's modules that a module imports, also inside functions and for type checking."""
    imported = set[str]()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            full = {f"{node.module}.{alias.name}" for alias in node.names}
            imported |= full & names or {node.module}
    return imported & names


def test_no_modules_import_each_other():
    root = Path(tcexplore.__file__).parent
    paths = {".".join((root.name, *p.relative_to(root).with_suffix("").parts)): p for p in root.rglob("*.py")}
    modules_by_name = {name.removesuffix(".__init__"): path for name, path in paths.items()}
    names = set(modules_by_name)
    graph = {name: imports(path, names) - {name} for name, path in modules_by_name.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"import circle: {' -> '.join(error.args[1])}")
