"""Order of the tests, and the runs that they share."""

from __future__ import annotations

import contextlib
import gc
import importlib
import subprocess
from collections.abc import AsyncIterator, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tcexplore.events import Standby
from tests.supervisor.runs import Runs


@pytest.fixture(scope="session", autouse=True)
def no_user_configuration(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep configuration, remembered choices and active environment of the user who runs the tests out of them."""
    with pytest.MonkeyPatch.context() as patch:
        for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
            patch.delenv(variable, raising=False)
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("configuration")))
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Exempt imported modules from garbage collection, which would traverse all of torch's objects each time.

    Collect seldom: in tests that compile, collections with the default thresholds take a quarter of the time.
    """
    gc.disable()
    try:
        import_share(session.config)
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(50_000, 20, 20)
        gc.enable()


def import_share(config: pytest.Config) -> None:
    """Import a part of the test modules before the others, if all tests run in several processes.

    In a new checkout, each process then compiles another part, instead of all processes the same modules.
    """
    process = getattr(config, "workerinput", None)
    if process is None or config.args != config.getini("testpaths"):
        return
    number, processes = int(process["workerid"].removeprefix("gw")), process["workercount"]
    folder = Path(__file__).parent
    for file in sorted(folder.rglob("test_*.py"))[number::processes]:
        with contextlib.suppress(Exception, pytest.skip.Exception):  # the collection reports it
            importlib.import_module(".".join(file.relative_to(folder.parent).with_suffix("").parts))


def pytest_unconfigure() -> None:
    """Let the end of the process collect all objects: Triton lists those that are left."""
    gc.unfreeze()


GROUPS = (
    ("tests/samples/", "tests/studies/", "tests/fixes/", "tests/traces/test_live_and_trace.py"),
    ("tests/faults/", "tests/worker/", "tests/supervisor/test_bad_input.py", "tests/supervisor/test_study_queue.py"),
    ("tests/accuracy/", "tests/capture/", "tests/targets/", "tests/documents/test_real.py", "tests/pytest_plugin/"),
)
"""Tests that run in the same test process, since they share what takes seconds to start.

Those of the first two groups share runs, and those of the last one compile in the test process.
"""


LONG = ("tests/timing/test_verdict_rates.py", "tests/timing/test_loaded_verdict_rates.py", "tests/traces/")
"""Tests that take long without a compiler: last, they would run on one core."""


def group_of(nodeid: str) -> int | None:
    """Return the index of a test's group."""
    return next((index for index, paths in enumerate(GROUPS) if nodeid.startswith(paths)), None)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Order the tests such that no core is idle.

    The first two groups take longest. Tests of the app mostly wait, so they run beside these. Of the others, those that
    need a compiler or take long come first.
    """

    def order(item: pytest.Item) -> tuple[bool, bool, bool]:
        shares_runs = group_of(item.nodeid) in (0, 1)
        of_app = item.nodeid.startswith("tests/ui/")
        is_short = item.get_closest_marker("torch") is None and not item.nodeid.startswith(LONG)
        return not shares_runs, not of_app, is_short

    items.sort(key=order)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object | None:
    """Give groups, and other tests by file, to test processes."""
    from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]

    class GroupScheduling(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            group = group_of(nodeid)
            return str(super()._split_scope(nodeid)) if group is None else f"group {group}"

    return GroupScheduling(config, log) if config.getoption("dist") == "loadfile" else None


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def shared_runs(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Runs]:
    """Runs of one supervisor for all tests of a test process: to start and prime workers takes more than ten seconds.

    Studies and samples use further queues of its supervisor, as studies in the app do. The process for the next run
    does not warm up: with all cores busy, that takes longer than it saves.
    """
    runs = Runs(tmp_path_factory.mktemp("project"), warm_up=False)
    await runs.supervisor.start()
    # The first run has a separate worker; the fork server starts once that run has its first graph, or ends.
    await runs.run("def model(x): return x\ninputs = (1.0,)\n")
    await runs.until(lambda event: isinstance(event, Standby) and event.primed)
    yield runs
    await runs.supervisor.close()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MB; mounting one needs root."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("no file system can be mounted")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)
