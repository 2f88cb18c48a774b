"""Traces of two or four ranks, made by `make_fixtures.py`."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

FIXTURES = Path(__file__).with_name("fixtures.tar.xz")


@pytest.fixture(scope="session")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with one folder per program, each with the trace files of its ranks."""
    folder = tmp_path_factory.mktemp("traces")
    with tarfile.open(FIXTURES) as archive:
        archive.extractall(folder, filter="data")
    return folder
