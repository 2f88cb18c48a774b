"""What a kernel's machine instructions are for: counted by kind, and what a kernel engineer would say to it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

from tcexplore.events.target_events import Resources

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


def mix(stage: str, text: str) -> tuple[tuple[str, int], ...]:
    """How many instructions of each kind `sass` or `amdgcn` has, the most frequent first; the rest are `other`."""
    find, kinds = (_SASS, _NVIDIA) if stage == "sass" else (_AMDGCN, _AMD)
    counts: Counter[str] = Counter()
    for opcode in find.findall(text):
        counts[next((kind for kind, pattern in kinds if pattern.search(opcode)), "other")] += 1
    return tuple(counts.most_common())


def warnings(resources: Resources) -> tuple[str, ...]:
    """What stands out in a kernel's resources, most costly first."""
    counts = dict(resources.mix)
    said = (
        (resources.spills > 0, f"registers spill to memory: {resources.spills} bytes a thread"),
        (resources.blocks == 0, f"does not fit on a multiprocessor of this device: {_too_much(resources)}"),
        (
            0 < resources.occupancy < 0.25,
            f"low occupancy: {resources.occupancy:.0%} of the warps, limited by {resources.limited_by}",
        ),
        _narrow(counts, "load"),
        _narrow(counts, "store"),
    )
    return tuple(sentence for holds, sentence in said if holds)


def _too_much(resources: Resources) -> str:
    if resources.limited_by == "shared memory":
        shared = resources.shared_static + resources.shared_dynamic
        return f"{shared:,} bytes of shared memory are more than a block may have"
    return f"{resources.registers} registers a thread, {resources.threads} threads"


def _narrow(counts: Mapping[str, int], what: str) -> tuple[bool, str]:
    """Whether a kernel moves much of its data in pieces of 4 bytes or less, and none in larger ones."""
    wide = counts.get(f"{what} 128-bit", 0) + counts.get(f"{what} 64-bit", 0)
    narrow = sum(counts.get(f"{what} {width}-bit", 0) for width in (8, 16, 32))
    return narrow > 4 and wide == 0, f"all {narrow} {what}s are 4 bytes or less: none is vectorized"
