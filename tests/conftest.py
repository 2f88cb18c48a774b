"""Order of the tests."""

from __future__ import annotations

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put tests that need a compiler first: they take longest, and test processes should finish together."""
    items.sort(key=lambda item: item.get_closest_marker("torch") is None)
