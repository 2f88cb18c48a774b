"""Resources of a compiled kernel; occupancy compared with worked figures of the CUDA occupancy rules."""

from __future__ import annotations

import pytest

from tcexplore.targets.device_table import find_target
from tcexplore.targets.resources import fit_blocks, nvidia_resources


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
def test_occupancy_matches_the_cuda_rules(
    target: str, registers: int, threads: int, shared: int, share: float, blocks: int, limit: str
):
    fit = fit_blocks(find_target(target), registers, threads, shared)
    assert fit.occupancy == pytest.approx(share)
    assert (fit.blocks, fit.limited_by) == (blocks, limit)


def test_more_registers_never_fit_more_blocks():
    target = find_target("h200")
    for threads in (32, 128, 512, 1024):
        shares = [fit_blocks(target, registers, threads, 0).blocks for registers in range(16, 256)]
        assert shares == sorted(shares, reverse=True)


def test_a_block_with_too_much_shared_memory_does_not_fit():
    metadata = {"shared": 120_000, "num_warps": 4, "num_stages": 3}
    on_l4 = nvidia_resources(find_target("l4"), {"REG": 64, "SHARED": 1024}, metadata, "")
    assert on_l4.blocks == 0
    assert "does not fit" in on_l4.warnings[0]
    assert on_l4.warnings[0].endswith("120,000 bytes of shared memory exceed the limit of a block")
    assert nvidia_resources(find_target("h100"), {"REG": 64, "SHARED": 1024}, metadata, "").blocks == 1
