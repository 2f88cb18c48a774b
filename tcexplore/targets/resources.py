"""What a compiled kernel takes of the machine: from the assembler's own report, the launch and the occupancy rules."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from tcexplore.events.target_events import Resources
from tcexplore.targets.device_table import Target
from tcexplore.targets.instruction_mix import mix, warnings
from tcexplore.targets.occupancy import fit

_AMD_FACT = re.compile(
    r"\.(vgpr_count|agpr_count|vgpr_spill_count|private_segment_fixed_size|group_segment_fixed_size):\s+(\d+)"
)
_SPILL = re.compile(r"^\s*/\*[0-9a-f]+\*/\s+(?:@!?U?P\w+\s+)?(?:LDL|STL)\b", re.M)


def nvidia(target: Target, usage: Mapping[str, int], metadata: Mapping[str, int], sass: str) -> Resources:
    """Resources of a cubin: `usage` as `cuobjdump -res-usage` says, `metadata` Triton's `shared`, `num_warps`, ….

    The stack is what a thread keeps in local memory; a Triton kernel has no arrays of its own there, so where the
    SASS reads or writes local memory, the stack is spilled registers.
    """
    stack = usage.get("STACK", 0)
    return _resources(
        target, metadata, "sass", sass,
        registers=usage.get("REG", 0), stack=stack, spills=stack if _SPILL.search(sass) else 0,
        static=max(usage.get("SHARED", 0) - target.occupancy.shared_reserved, 0), dynamic=metadata.get("shared", 0),
    )  # fmt: skip


def amd(target: Target, metadata: Mapping[str, int], amdgcn: str) -> Resources:
    """Resources of a code object, from the metadata at the end of its assembly."""
    facts = {name: int(value) for name, value in _AMD_FACT.findall(amdgcn)}
    return _resources(
        target, metadata, "amdgcn", amdgcn,
        registers=facts.get("vgpr_count", 0),
        stack=facts.get("private_segment_fixed_size", 0), spills=4 * facts.get("vgpr_spill_count", 0),
        static=facts.get("group_segment_fixed_size", 0), dynamic=0,
    )  # fmt: skip


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
) -> Resources:
    threads = metadata.get("num_warps", 1) * target.properties.warp_size
    found = fit(target, registers, threads, static + dynamic)
    made = Resources(
        registers=registers,
        spills=spills,
        stack=stack,
        shared_static=static,
        shared_dynamic=dynamic,
        num_warps=metadata.get("num_warps", 1),
        num_stages=metadata.get("num_stages", 1),
        threads=threads,
        occupancy=found.share,
        blocks=found.blocks,
        limited_by=found.limited_by,
        mix=mix(stage, code),
    )
    return replace(made, warnings=warnings(made))
