"""Profiles of torch 2.11 on an H200 and on H100s, each with the TORCH_TRACE of the same processes and its program."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

PROFILES = Path(__file__).with_name("profiles.tar.xz")


@pytest.fixture(scope="session")
def profiles(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with `gpt` (training), and `gpu` (CUDA graphs, convolutions with breaks, two DDP ranks)."""
    folder = tmp_path_factory.mktemp("profiles")
    with tarfile.open(PROFILES) as archive:
        archive.extractall(folder, filter="data")
    return folder
