"""pytest plugin: the fixture `tcexplore`, which compiles in the test's process and returns what torch did.

Loading it imports neither torch nor any other module of tcexplore.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tcexplore.exploration import Explorer


@pytest.fixture
def tcexplore() -> Explorer:
    """Return an explorer: `tcexplore.explore(model, x).assert_no_breaks()`."""
    from tcexplore.exploration import Explorer

    return Explorer()
