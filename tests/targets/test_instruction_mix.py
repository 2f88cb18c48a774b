"""Instruction counts by kind, and warnings about resources."""

from __future__ import annotations

from dataclasses import replace

from tcexplore.targets.resources import instruction_mix, resource_warnings
from tests.snapshots.gpu import RESOURCES
from tests.targets.disassembly import SASS

FINE = replace(RESOURCES, spills=0, occupancy=0.5, blocks=4, warnings=(), mix=(("load 128-bit", 4), ("other", 9)))


def test_a_kernel_without_problems_has_no_warnings():
    assert resource_warnings(FINE) == ()
    assert resource_warnings(replace(FINE, mix=(("load 32-bit", 3), ("store 32-bit", 1)))) == (), "too few to warn"


def test_warnings_are_sorted_by_cost():
    mixed = (("load 32-bit", 8), ("load 16-bit", 2), ("store 32-bit", 6))
    warnings = resource_warnings(replace(FINE, spills=24, occupancy=0.1, limited_by="registers", mix=mixed))
    assert warnings == (
        "register spills: 24 bytes per thread",
        "low occupancy: 10% of the warps, limited by registers",
        "all 10 loads are 4 bytes or less; none is vectorized",
        "all 6 stores are 4 bytes or less; none is vectorized",
    )


def test_instructions_are_counted_by_kind():
    assert dict(instruction_mix("sass", SASS)) == {
        "other": 1,
        "load 128-bit": 1,
        "special function": 1,
        "tensor core": 1,
    }
    amd = "\tglobal_load_dwordx4 v[0:3], v0\n\tv_mfma_f32_32x32x8_f16 a[0:15]\n\tv_rsq_f32_e32 v1, v2\n\ts_endpgm\n"
    assert dict(instruction_mix("amdgcn", amd)) == {
        "load 128-bit": 1,
        "tensor core": 1,
        "special function": 1,
        "other": 1,
    }


def test_loads_and_stores_are_counted_by_width():
    sass = "\n".join(
        f"        /*{n:04x}*/  {text} ;"
        for n, text in enumerate(
            (
                "LDG.E.128 R4, [R2]",
                "@!P0 LDG.E.64 R4, [R2]",
                "LDG.E R4, [R2]",
                "LDG.E.U16 R4, [R2]",
                "STG.E.U8 [R2], R4",
            )
        )
    )
    assert dict(instruction_mix("sass", sass)) == {
        "load 128-bit": 1, "load 64-bit": 1, "load 32-bit": 1, "load 16-bit": 1, "store 8-bit": 1,
    }  # fmt: skip
