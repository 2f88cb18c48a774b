"""The shared supervisor of tests/supervisor, for tests of runs."""

from __future__ import annotations

from tests.supervisor.conftest import runs

__all__ = ["runs"]
