"""The supervisor of tests/supervisor, for the tests of runs."""

from __future__ import annotations

from tests.supervisor.conftest import runs

__all__ = ["runs"]
