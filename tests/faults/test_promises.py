"""What `docs/guarantees.md` promises: no port, no change in the user's folder, and a test for each promise."""

from __future__ import annotations

import ast
import os
import re
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest
import pytest_asyncio

from tcexplore.events import Finished
from tests.faults import programs
from tests.files.checksums import tree_checksum
from tests.supervisor.runs import Runs, descendants

ROOT = Path(__file__).parents[2]
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")
LISTENS = "0A"


@pytest_asyncio.fixture(loop_scope="session")
async def runs(shared_runs: Runs) -> AsyncIterator[Runs]:
    yield shared_runs
    shared_runs.supervisor.end()


def test_every_test_that_the_guarantees_name_exists():
    named = NAMED.findall((ROOT / "docs/guarantees.md").read_text())
    assert len(named) > 10
    for file, name in named:
        tree = ast.parse((ROOT / file).read_text())
        functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
        assert name in functions, f"{file}::{name}"


def test_every_guarantee_names_a_test():
    rows = [line for line in (ROOT / "docs/guarantees.md").read_text().splitlines() if line.startswith("| ")]
    promises = [row for row in rows if not row.startswith(("| promise", "|---"))]
    assert promises
    assert [row for row in promises if not NAMED.search(row)] == []


def listening_sockets(pids: set[int]) -> set[str]:
    """Return the sockets of these processes on which the network can connect."""
    lines = [line.split() for name in ("tcp", "tcp6") for line in Path("/proc/net", name).read_text().splitlines()[1:]]
    listening = {f"socket:[{columns[9]}]" for columns in lines if columns[3] == LISTENS}
    opened = set()
    for pid in pids:
        with suppress(OSError):
            for descriptor in Path(f"/proc/{pid}/fd").iterdir():
                with suppress(OSError):
                    opened.add(os.readlink(descriptor))
    return opened & listening


@pytest.mark.torch
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.asyncio(loop_scope="session")
async def test_runs_open_no_port_and_leave_the_folder_of_the_file_as_it_is(runs: Runs):
    folder = runs.file.parent
    (folder / "weights.bin").write_bytes(bytes(range(256)))
    (folder / "neighbor.py").write_text("size = 4\n")
    before = tree_checksum(folder, ignored=())
    for source in (f"import neighbor\n{programs.GOOD}", programs.SABOTAGE["a removed directory"].source, "raise E\n"):
        await runs.run(source)
    events = await runs.run(programs.GOOD, time_for=0.1)
    assert isinstance(events[-1], Finished)
    assert listening_sockets({os.getpid(), *descendants(os.getpid())}) == set()
    assert tree_checksum(folder, ignored=()) == before
