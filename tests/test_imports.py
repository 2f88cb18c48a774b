"""Import rules, tested in fresh interpreters."""

from __future__ import annotations

import ast
import pkgutil
import subprocess
import sys
from collections.abc import Iterable
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import tcexplore

FRONT = ("answers", "cli", "documents", "environments", "events", "files", "fixes", "keymap", "model_python",
         "processes", "profiles", "quantities", "report", "run_store", "session", "studies", "supervisor", "torch_text",
         "traces", "trust", "ui", "watch")  # fmt: skip
"""Packages of the front end, for which torch would cost more than a second before the first frame."""

PURE = ("answers", "documents", "events", "files", "fixes", "keymap", "profiles", "quantities", "session", "studies",
        "torch_text", "traces")  # fmt: skip
"""Packages that need no terminal app."""

TORCH = ("capture", "timing", "accuracy", "numerics")
"""Packages of the worker's process, which load torch."""

MAY_IMPORT = {
    "events": {"events"},
    "keymap": {"keymap"},
    "quantities": {"quantities"},
    "session": {"events", "quantities", "session", "targets"},
    "run_store": {"events", "files", "quantities", "run_store", "session", "targets"},
    "watch": {"events", "files", "notebook", "watch"},
    "files": {"files"},
    "torch_text": {"events", "torch_text"},
    "profiles": {"events", "processes", "profiles", "quantities", "session", "targets", "torch_text", "traces"},
    "traces": {"events", "files", "processes", "quantities", "session", "targets", "torch_text", "traces"},
    "fixes": {"documents", "events", "files", "fixes", "keymap", "notebook", "quantities", "session", "targets"},
    "documents": {"documents", "events", "keymap", "quantities", "session", "targets"},
    "studies": {
        "argument_types",
        "documents",
        "environments",
        "events",
        "files",
        "fixes",
        "keymap",
        "model_python",
        "notebook",
        "processes",
        "quantities",
        "report",
        "session",
        "studies",
        "targets",
        "trust",
        "watch",
    },
    "report": {
        "documents",
        "events",
        "files",
        "fixes",
        "keymap",
        "notebook",
        "processes",
        "quantities",
        "report",
        "session",
        "targets",
    },
    "answers": {
        "answers",
        "documents",
        "events",
        "files",
        "fixes",
        "keymap",
        "notebook",
        "processes",
        "quantities",
        "report",
        "session",
        "targets",
    },
    "supervisor": {"events", "model_python", "supervisor", "torch_text"},
    "capture": {"capture", "events", "quantities", "torch_text"},
    "accuracy": {"accuracy", "capture", "events", "quantities", "torch_text"},
    "numerics": {"capture", "events", "numerics", "quantities", "torch_text"},
    "timing": {"capture", "events", "quantities", "timing", "torch_text"},
}
"""Packages of tcexplore that each package may import: data flows one way."""


def modules(package: str) -> tuple[str, ...]:
    """Return every module of a package that is not a program."""
    names = [f"tcexplore.{package}"]
    module = __import__(names[0], fromlist=["_"])
    names += [info.name for info in pkgutil.walk_packages(getattr(module, "__path__", ()), f"tcexplore.{package}.")]
    return tuple(name for name in names if not name.endswith("__main__"))


@cache
def loaded_by(names: tuple[str, ...]) -> frozenset[str]:
    """Return the modules that a fresh interpreter has loaded after importing these."""
    code = "import sys, importlib\nfor name in sys.argv[1:]: importlib.import_module(name)\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code, *names], capture_output=True, text=True, check=True)
    return frozenset(done.stdout.split())


FORKED = """
import gc, importlib, os, sys
gc.disable()
import torch, torch._dynamo, torch._inductor.compile_fx
for names in sys.argv[1:]:
    if os.fork() == 0:
        for name in names.split():
            importlib.import_module(name)
        print(*sys.modules, flush=True)
        os._exit(0)
    if os.wait()[1]:
        sys.exit(f"cannot import {names}")
os._exit(0)
"""
"""Imports each of its arguments in a fork of a process that has imported torch, and prints all modules."""


@cache
def loaded_with_torch() -> dict[str, frozenset[str]]:
    """Return, for each package of the worker's process, the modules that it and torch load."""
    packages = ("worker", *TORCH)
    arguments = [" ".join(modules(package)) for package in packages]
    done = subprocess.run([sys.executable, "-c", FORKED, *arguments], capture_output=True, text=True, check=True)
    lines = (frozenset(line.split()) for line in done.stdout.splitlines())
    return dict(zip(packages, lines, strict=True))


@pytest.mark.parametrize("package", FRONT)
def test_the_front_end_never_imports_torch(package: str):
    assert not loaded_by(modules(package)) & {"torch", "triton"}


@pytest.mark.parametrize("package", PURE)
def test_pure_packages_never_import_textual(package: str):
    assert "textual" not in loaded_by(modules(package))


@pytest.mark.torch
@pytest.mark.parametrize("package", ["worker", *TORCH])
def test_the_worker_never_imports_textual(package: str):
    loaded = loaded_with_torch()[package]
    assert "textual" not in loaded
    assert not {name for name in loaded if name.startswith(("tcexplore.ui", "tcexplore.cli", "tcexplore.report"))}


@pytest.mark.parametrize("package", [package for package in MAY_IMPORT if package not in TORCH])
def test_packages_import_only_upstream_packages(package: str):
    assert own_packages(loaded_by(modules(package))) <= MAY_IMPORT[package] | {"", "_version"}


@pytest.mark.torch
@pytest.mark.parametrize("package", TORCH)
def test_worker_packages_import_only_upstream_packages(package: str):
    assert own_packages(loaded_with_torch()[package]) <= MAY_IMPORT[package] | {"", "_version"}


def own_packages(loaded: Iterable[str]) -> set[str]:
    """Return the packages of tcexplore among modules; the empty name is tcexplore itself."""
    own = {name for name in loaded if name.partition(".")[0] == tcexplore.__name__}
    return {([*name.split("."), ""])[1] for name in own}


def test_the_version_option_loads_next_to_nothing():
    code = (
        "import sys\nfrom tcexplore.cli import main\ntry: main(['--version'])\nexcept SystemExit: print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not set(done.stdout.split()) & {"torch", "textual", "rich", "asyncio", "watchfiles"}


FIRST_PAINTED = (
    "tcexplore.cli.dispatch", "tcexplore.ui.app", "tcexplore.ui.screens.main_screen",
    "tcexplore.ui.row_line", "tcexplore.documents.strip",
)  # fmt: skip
"""Modules that the first frame is made with."""

FIRST_FRAME = (*FIRST_PAINTED, "tcexplore.documents.source_view", "tcexplore.documents.peek_line")
"""These, and what is imported before the first event comes."""


def test_the_first_frame_defines_no_events():
    """To create the event classes takes tens of milliseconds."""
    loaded = loaded_by(FIRST_FRAME)
    assert not [name for name in loaded if name.startswith("tcexplore.events.") and name.endswith("_events")]


def test_the_first_frame_needs_neither_a_snapshot_nor_the_wire_format():
    assert not loaded_by(FIRST_PAINTED) & {"tcexplore.session.snapshot", "tcexplore.events.codec"}


def test_the_app_loads_openssl_only_for_a_connection():
    """asyncio would load it at the start. Traces behind URLs are read later."""
    code = (
        "import sys; from tcexplore.ui import run_app\n"
        "run_app._prepare_first_frame(); import tcexplore.ui.app\n"
        "at_start = '_ssl' in sys.modules; from http.client import HTTPSConnection\n"
        "print(at_start, HTTPSConnection('example.org').port)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "443"]


def test_the_app_starts_its_worker_before_it_imports_textual():
    """Both import for a third of a second and more, on a core each."""
    code = (
        "import os, sys; from tcexplore.model_python import ModelPython\n"
        "def start_worker(*_): print('textual' in sys.modules, flush=True); os._exit(0)\n"
        "ModelPython.start_worker = start_worker\n"
        "from tcexplore.cli.dispatch import explore; from tcexplore.cli.arguments import parse\n"
        f"explore(parse([{__file__!r}]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False"]


def test_the_command_line_reads_no_device_at_start():
    assert not loaded_by(("tcexplore.cli.arguments", "tcexplore.cli.dispatch")) & {
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
