"""Occupancy against worked figures of the CUDA occupancy rules."""

from __future__ import annotations

import pytest

from tcexplore.targets.device_table import find
from tcexplore.targets.occupancy import fit


@pytest.mark.parametrize(
    ("target", "registers", "threads", "shared", "share", "blocks", "limit"),
    [
        ("a100", 32, 256, 0, 1.0, 8, ""),
        ("a100", 64, 256, 0, 0.5, 4, "registers"),
        ("a100", 65, 256, 0, 0.375, 3, "registers"),
        ("a100", 255, 1024, 0, 0.0, 0, "registers"),
        ("a100", 16, 32, 0, 0.5, 32, "blocks"),
        ("a100", 32, 128, 48 * 1024, 0.1875, 3, "shared memory"),
        ("h200", 32, 128, 224 * 1024, 0.0625, 1, "shared memory"),
        ("h200", 32, 128, 232449, 0.0, 0, "shared memory"),
        ("h200", 166, 64, 2048, 0.1875, 6, "registers"),
        ("l4", 40, 128, 0, 1.0, 12, ""),
        ("rtx4090", 32, 1024, 0, 32 / 48, 1, "warps"),
        ("mi300x", 128, 256, 0, 0.5, 4, "registers"),
        ("mi300x", 116, 64, 0, 0.5, 16, "registers"),
        ("mi300x", 32, 256, 65536, 0.125, 1, "shared memory"),
    ],
)  # fmt: skip
def test_fit(target: str, registers: int, threads: int, shared: int, share: float, blocks: int, limit: str):
    assert fit(find(target), registers, threads, shared) == (pytest.approx(share), blocks, limit)


def test_more_of_anything_never_fits_better():
    target = find("h200")
    for threads in (32, 128, 512, 1024):
        shares = [fit(target, registers, threads, 0).blocks for registers in range(16, 256)]
        assert shares == sorted(shares, reverse=True)
