"""The shared runs, for tests that need a fork server."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.supervisor.runs import Runs


@pytest_asyncio.fixture(loop_scope="session")
async def runs(shared_runs: Runs) -> AsyncIterator[Runs]:
    if sys.platform != "linux":
        pytest.skip("the fork server needs Linux")
    yield shared_runs
    shared_runs.supervisor.end()
