"""How many blocks of a kernel fit on a multiprocessor at once: the vendor's occupancy rules, and nothing measured."""

from __future__ import annotations

from typing import NamedTuple

from tcexplore.targets.device_table import Target

_QUARTERS = 4
"""NVIDIA's multiprocessors and AMD's compute units have four register files; a warp lives in one of them."""


class Fit(NamedTuple):
    """`share` of the multiprocessor's warps that are resident, `blocks` of the kernel, and what keeps them from more:
    `registers`, `shared memory`, `warps` or `blocks`; empty when every warp is in use."""

    share: float
    blocks: int
    limited_by: str


def fit(target: Target, registers: int, threads: int, shared: int) -> Fit:
    """The fit of blocks of `threads` threads with `registers` each and `shared` bytes of shared memory.

    Registers are handed to warps in units, shared memory to blocks in units and beside what the system keeps.
    A kernel that fits nowhere has 0 blocks.
    """
    limits, properties = target.occupancy, target.properties
    warps = -(-threads // properties.warp_size)
    room = {
        "warps": limits.max_warps // warps,
        "blocks": limits.max_blocks,
        "registers": _by_registers(target, registers, warps),
        "shared memory": _by_shared(target, shared),
    }
    blocks = min(room.values())
    tightest = next(name for name in room if room[name] == blocks)
    share = blocks * warps / limits.max_warps
    return Fit(share, blocks, "" if share >= 1 else tightest)


def _by_registers(target: Target, registers: int, warps: int) -> int:
    limits = target.occupancy
    if registers > limits.max_registers:
        return 0
    unit = limits.register_unit
    per_warp = -(-max(registers, 1) * target.properties.warp_size // unit) * unit
    fitting = target.properties.regs_per_multiprocessor // per_warp
    return (fitting - fitting % _QUARTERS) // warps


def _by_shared(target: Target, shared: int) -> int:
    limits, properties = target.occupancy, target.properties
    if shared > properties.shared_memory_per_block_optin:
        return 0
    taken = -(-(shared + limits.shared_reserved) // limits.shared_unit) * limits.shared_unit
    return properties.shared_memory_per_multiprocessor // taken if taken else limits.max_blocks
