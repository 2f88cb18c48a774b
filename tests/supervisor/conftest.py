"""One supervisor for all tests that only need runs."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.supervisor.runs import Runs


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def runs(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Runs]:
    if sys.platform != "linux":
        pytest.skip("the fork server needs Linux")
    runs = Runs(tmp_path_factory.mktemp("project"))
    await runs.supervisor.start()
    yield runs
    await runs.supervisor.close()
