"""Resources of a compiled kernel: registers, shared memory, spills, and the occupancy that follows from them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from tcexplore.events.target_events import KernelResources, LimitingResource
from tcexplore.targets.device_table import Target
from tcexplore.targets.instruction_mix import instruction_mix, resource_warnings

_AMD_FACT = re.compile(
    r"\.(vgpr_count|agpr_count|vgpr_spill_count|private_segment_fixed_size|group_segment_fixed_size):\s+(\d+)"
)
_SPILL = re.compile(r"^\s*/\*[0-9a-f]+\*/\s+(?:@!?U?P\w+\s+)?(?:LDL|STL)\b", re.M)

_REGISTER_FILES = 4
"""Register files per NVIDIA multiprocessor or AMD compute unit; a warp's registers are all in one of them."""


class Fit(NamedTuple):
    """Occupancy: the blocks of a kernel that fit on one multiprocessor."""

    occupancy: float
    """Resident warps over the maximum."""
    blocks: int
    limited_by: LimitingResource


def nvidia_resources(
    target: Target, usage: Mapping[str, int], metadata: Mapping[str, int], sass: str
) -> KernelResources:
    """Return the resources of a cubin, from `cuobjdump -res-usage` and Triton's `metadata` (`shared`, `num_warps`, …).

    The stack is a thread's local memory. A Triton kernel declares no local arrays, so if the SASS accesses local
    memory, the stack holds spilled registers.
    """
    stack = usage.get("STACK", 0)
    return _resources(
        target, metadata, "sass", sass,
        registers=usage.get("REG", 0), stack=stack, spills=stack if _SPILL.search(sass) else 0,
        static=max(usage.get("SHARED", 0) - target.occupancy.shared_reserved, 0), dynamic=metadata.get("shared", 0),
    )  # fmt: skip


def amd_resources(target: Target, metadata: Mapping[str, int], amdgcn: str) -> KernelResources:
    """Return the resources of a code object, from the metadata at the end of its assembly."""
    facts = {name: int(value) for name, value in _AMD_FACT.findall(amdgcn)}
    return _resources(
        target, metadata, "amdgcn", amdgcn,
        registers=facts.get("vgpr_count", 0),
        stack=facts.get("private_segment_fixed_size", 0), spills=4 * facts.get("vgpr_spill_count", 0),
        static=facts.get("group_segment_fixed_size", 0), dynamic=0,
    )  # fmt: skip


def fit_blocks(target: Target, registers: int, threads: int, shared: int) -> Fit:
    """Return how many blocks of `threads` threads fit, with `registers` per thread and `shared` bytes per block.

    These are the vendors' occupancy rules. A kernel that does not fit has 0 blocks.
    """
    limits, properties = target.occupancy, target.properties
    warps = -(-threads // properties.warp_size)
    room: dict[LimitingResource, int] = {
        "warps": limits.max_warps // warps,
        "blocks": limits.max_blocks,
        "registers": _by_registers(target, registers, warps),
        "shared memory": _by_shared(target, shared),
    }
    blocks = min(room.values())
    tightest = next(name for name in room if room[name] == blocks)
    occupancy = blocks * warps / limits.max_warps
    return Fit(occupancy, blocks, "" if occupancy >= 1 else tightest)


def _by_registers(target: Target, registers: int, warps: int) -> int:
    limits = target.occupancy
    if registers > limits.max_registers:
        return 0
    unit = limits.register_unit
    per_warp = -(-max(registers, 1) * target.properties.warp_size // unit) * unit
    fitting = target.properties.regs_per_multiprocessor // per_warp
    return (fitting - fitting % _REGISTER_FILES) // warps


def _by_shared(target: Target, shared: int) -> int:
    limits, properties = target.occupancy, target.properties
    if shared > properties.shared_memory_per_block_optin:
        return 0
    allocated = -(-(shared + limits.shared_reserved) // limits.shared_unit) * limits.shared_unit
    return properties.shared_memory_per_multiprocessor // allocated if allocated else limits.max_blocks


def _resources(
    target: Target,
    metadata: Mapping[str, int],
    stage: str,
    code: str,
    *,
    registers: int,
    stack: int,
    spills: int,
    static: int,
    dynamic: int,
) -> KernelResources:
    threads = metadata.get("num_warps", 1) * target.properties.warp_size
    fit = fit_blocks(target, registers, threads, static + dynamic)
    resources = KernelResources(
        registers=registers,
        spills=spills,
        stack=stack,
        shared_static=static,
        shared_dynamic=dynamic,
        num_warps=metadata.get("num_warps", 1),
        num_stages=metadata.get("num_stages", 1),
        threads=threads,
        occupancy=fit.occupancy,
        blocks=fit.blocks,
        limited_by=fit.limited_by,
        mix=instruction_mix(stage, code),
    )
    return replace(resources, warnings=resource_warnings(resources))
