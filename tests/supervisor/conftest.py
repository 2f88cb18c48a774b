"""A supervisor shared by all tests that only need runs."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tcexplore.events import Standby
from tests.supervisor.runs import Runs


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def runs(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Runs]:
    if sys.platform != "linux":
        pytest.skip("the fork server needs Linux")
    runs = Runs(tmp_path_factory.mktemp("project"))
    await runs.supervisor.start()
    # The first run has a separate worker; the fork server starts once that run has its first graph, or ends.
    await runs.run("def model(x): return x\ninputs = (1.0,)\n")
    await runs.until(lambda event: isinstance(event, Standby) and event.primed)
    yield runs
    await runs.supervisor.close()
