"""Workers for the tests of what a run does."""

from __future__ import annotations

from tests.supervisor.conftest import runs

__all__ = ["runs"]
