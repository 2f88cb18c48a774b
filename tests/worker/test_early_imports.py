"""The process for the next save makes the file's first imports, unless a run would then show something else."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tcexplore.events import Event, GraphCaptured, ImportedAhead, Output
from tcexplore.events.commands import EarlyImports
from tests.supervisor.runs import PATIENCE_S, Runs

pytestmark = pytest.mark.torch


class _EndedError(Exception):
    """The process would have ended."""


def end() -> None:
    raise _EndedError


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of installed packages; its modules are forgotten after a test, those of torch are not."""
    from tcexplore.worker import early_imports

    folder = tmp_path / "site-packages"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setattr(early_imports, "end_process", end)
    monkeypatch.setattr(early_imports, "ahead", early_imports.EarlyModules())
    monkeypatch.setattr(early_imports, "_calls", [])
    yield folder
    for name in [name for name in sys.modules if name.startswith("tce_")]:
        del sys.modules[name]


def import_ahead(folder: Path, *statements: str) -> tuple[str, ...]:
    """Return the packages that were imported."""
    from tcexplore.worker import early_imports

    early = EarlyImports(file=str(folder.parent / "model.py"), argv=(), statements=statements)
    for _ in early_imports.import_steps(early):
        pass
    return early_imports.ahead.packages


def test_installed_packages_are_imported_up_to_the_first_local_module(packages: Path) -> None:
    for name in ("tce_first", "tce_second"):
        (packages / f"{name}.py").write_text("")
    (packages.parent / "tce_local.py").write_text("")
    path = list(sys.path)
    assert import_ahead(packages, "import tce_first", "import tce_local", "import tce_second") == ("tce_first",)
    assert ("tce_first" in sys.modules, "tce_second" in sys.modules) == (True, False)
    assert sys.path == path


def test_the_output_of_imports_is_kept_for_the_run(packages: Path, capfd: pytest.CaptureFixture[str]) -> None:
    from tcexplore.worker import early_imports

    (packages / "tce_prints.py").write_text("import os\nos.write(1, b'hello')\nos.write(2, b'warned')\n")
    import_ahead(packages, "import tce_prints")
    assert capfd.readouterr() == ("", "")
    early_imports.use_imports()
    assert capfd.readouterr() == ("hello", "warned")


@pytest.mark.parametrize(
    "code",
    [
        "raise ImportError", "import torch; torch.manual_seed(7)", "import random; random.random()",
        "import torch; torch.compile(lambda x: x)", "from torch import compile",
        "import os; os.environ['TORCH_LOGS'] = 'x'", "import tce_local",
    ],
    ids=["it fails", "seed", "random number", "compiles", "own name for compile", "environment", "local module"],
)  # fmt: skip
def test_a_process_ends_if_an_import_changes_what_a_run_shows(
    packages: Path, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "environ", os.environ.copy())
    (packages / "tce_changes.py").write_text(code)
    (packages.parent / "tce_local.py").write_text("")
    with pytest.raises(_EndedError):
        import_ahead(packages, "import tce_changes")


def test_a_process_ends_if_a_package_changed_after_its_import(packages: Path) -> None:
    from tcexplore.worker import early_imports

    file = packages / "tce_updated.py"
    file.write_text("")
    os.utime(file, (1, 1))
    import_ahead(packages, "import tce_updated")
    early_imports.use_imports()
    os.utime(file, (time.time() + 1, time.time() + 1))
    with pytest.raises(_EndedError):
        early_imports.use_imports()


@pytest.mark.asyncio(loop_scope="session")
async def test_a_save_finds_its_imports_made_and_shows_the_same(
    shared_runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_runs.supervisor._pool, "warm_up", True)
    source = """import sys
import pygments.lexers.python
known = "pygments" in sys.modules
import torch
def model(x):
    print(known, pygments.__name__)
    return x * torch.rand(1)
inputs = (torch.ones(3),)
"""
    first = last = await shared_runs.run(source)
    async with asyncio.timeout(PATIENCE_S):
        while not any(isinstance(event, ImportedAhead) for event in last):  # a save may come before the imports
            last = await shared_runs.run(source)

    def shown(events: Sequence[Event]) -> list[object]:
        graphs = [event.code for event in events if isinstance(event, GraphCaptured)]
        return [*graphs, "".join(event.text for event in events if isinstance(event, Output))]

    assert shown(last) == shown(first)
