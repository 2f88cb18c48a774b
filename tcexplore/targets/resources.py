"""Resources of a compiled kernel: registers, shared memory, spills, the occupancy from them, and its instructions."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from tcexplore.events.target_events import KernelResources, LimitingResource
from tcexplore.targets.device_table import Target

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


_SASS = re.compile(r"^\s*/\*[0-9a-f]+\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_.]*)", re.M)
_AMDGCN = re.compile(r"^\s+([a-z]+_[a-z0-9_]+)\b", re.M)

_NVIDIA = (
    ("tensor core", re.compile(r"^(?:[HIDQUB]|UT?C?[A-Z]*|WG)?\w*MMA")),
    ("load 128-bit", re.compile(r"^LDG\..*128")),
    ("load 64-bit", re.compile(r"^LDG\..*\b64\b")),
    ("load 16-bit", re.compile(r"^LDG\..*[US]16")),
    ("load 8-bit", re.compile(r"^LDG\..*[US]8")),
    ("load 32-bit", re.compile(r"^LDG\b")),
    ("store 128-bit", re.compile(r"^STG\..*128")),
    ("store 64-bit", re.compile(r"^STG\..*\b64\b")),
    ("store 16-bit", re.compile(r"^STG\..*[US]16")),
    ("store 8-bit", re.compile(r"^STG\..*[US]8")),
    ("store 32-bit", re.compile(r"^STG\b")),
    ("copy to shared", re.compile(r"^(?:LDGSTS|UTMALDG|UBLKCP)")),
    ("shared memory", re.compile(r"^(?:LDS|STS|LDSM|STSM|ATOMS)\b")),
    ("local memory", re.compile(r"^(?:LDL|STL)\b")),
    ("atomic", re.compile(r"^(?:ATOM|ATOMG|RED|REDG)\b")),
    ("special function", re.compile(r"^MUFU\b")),
    ("floating point", re.compile(r"^(?:[FDH](?:ADD|MUL|FMA|MNMX|SET|SETP|SEL|CHK)|HADD2|HMUL2|HFMA2|HMNMX2)")),
    ("conversion", re.compile(r"^(?:F2[FIP]|I2F|FRND)")),
    ("shuffle", re.compile(r"^(?:SHFL|REDUX)\b")),
    ("barrier", re.compile(r"^(?:BAR|WARPSYNC|DEPBAR|SYNCS)\b")),
)
_AMD = (
    ("tensor core", re.compile(r"^v_s?mfma|^v_wmma")),
    ("load 128-bit", re.compile(r"^(?:global|buffer|flat)_load_(?:dwordx4|b128)")),
    ("load 64-bit", re.compile(r"^(?:global|buffer|flat)_load_(?:dwordx2|b64)")),
    ("load 16-bit", re.compile(r"^(?:global|buffer|flat)_load_(?:u|s)?short")),
    ("load 8-bit", re.compile(r"^(?:global|buffer|flat)_load_(?:u|s)byte")),
    ("load 32-bit", re.compile(r"^(?:global|buffer|flat)_load")),
    ("store 128-bit", re.compile(r"^(?:global|buffer|flat)_store_(?:dwordx4|b128)")),
    ("store 64-bit", re.compile(r"^(?:global|buffer|flat)_store_(?:dwordx2|b64)")),
    ("store 16-bit", re.compile(r"^(?:global|buffer|flat)_store_short")),
    ("store 8-bit", re.compile(r"^(?:global|buffer|flat)_store_byte")),
    ("store 32-bit", re.compile(r"^(?:global|buffer|flat)_store")),
    ("shared memory", re.compile(r"^ds_(?:read|write|load|store)")),
    ("local memory", re.compile(r"^scratch_")),
    ("atomic", re.compile(r"^(?:global|buffer|flat|ds)_atomic")),
    ("special function", re.compile(r"^v_(?:exp|log|rcp|rsq|sqrt|sin|cos)_")),
    ("conversion", re.compile(r"^v_cvt")),
    ("floating point", re.compile(r"^v_\w*(?:add|sub|mul|fma|mac|max|min|div)\w*_(?:f16|f32|f64)|^v_pk_")),
    ("shuffle", re.compile(r"^(?:ds_(?:bpermute|swizzle)|v_\w*_dpp|v_readlane)")),
    ("barrier", re.compile(r"^s_(?:barrier|waitcnt)")),
)


def instruction_mix(stage: str, text: str) -> tuple[tuple[str, int], ...]:
    """Count the instructions of `sass` or `amdgcn` by kind, most frequent first; unknown ones are `other`."""
    opcodes, kinds = (_SASS, _NVIDIA) if stage == "sass" else (_AMDGCN, _AMD)
    counts: Counter[str] = Counter()
    for opcode in opcodes.findall(text):
        counts[next((kind for kind, pattern in kinds if pattern.search(opcode)), "other")] += 1
    return tuple(counts.most_common())


def resource_warnings(resources: KernelResources) -> tuple[str, ...]:
    """Return warnings about a kernel's resources, most costly first."""
    counts = dict(resources.mix)
    checks = (
        (resources.spills > 0, f"register spills: {resources.spills} bytes per thread"),
        (resources.blocks == 0, f"does not fit on a multiprocessor of this device: {_excess(resources)}"),
        (
            0 < resources.occupancy < 0.25,
            f"low occupancy: {resources.occupancy:.0%} of the warps, limited by {resources.limited_by}",
        ),
        _narrow(counts, "load"),
        _narrow(counts, "store"),
    )
    return tuple(sentence for applies, sentence in checks if applies)


def _excess(resources: KernelResources) -> str:
    if resources.limited_by == "shared memory":
        shared = resources.shared_static + resources.shared_dynamic
        return f"{shared:,} bytes of shared memory exceed the limit of a block"
    return f"{resources.registers} registers per thread, {resources.threads} threads"


def _narrow(counts: Mapping[str, int], access: str) -> tuple[bool, str]:
    """Check whether a kernel's loads or stores are all 4 bytes or less; a few are not worth a warning."""
    wide = counts.get(f"{access} 128-bit", 0) + counts.get(f"{access} 64-bit", 0)
    narrow = sum(counts.get(f"{access} {width}-bit", 0) for width in (8, 16, 32))
    return narrow > 4 and wide == 0, f"all {narrow} {access}s are 4 bytes or less; none is vectorized"
