"""What stands out in a kernel's resources, said in the order of its cost."""

from __future__ import annotations

from dataclasses import replace

from tcexplore.targets.device_table import find
from tcexplore.targets.instruction_mix import mix, warnings
from tcexplore.targets.resources import nvidia
from tests.snapshots.gpu import RESOURCES

FINE = replace(RESOURCES, spills=0, occupancy=0.5, blocks=4, warnings=(), mix=(("load 128-bit", 4), ("other", 9)))


def test_nothing_is_said_of_a_kernel_that_has_nothing():
    assert warnings(FINE) == ()
    assert warnings(replace(FINE, mix=(("load 32-bit", 3), ("store 32-bit", 1)))) == (), "a few are no pattern"


def test_spills_low_occupancy_and_narrow_accesses_are_said_in_that_order():
    mixed = (("load 32-bit", 8), ("load 16-bit", 2), ("store 32-bit", 6))
    said = warnings(replace(FINE, spills=24, occupancy=0.1, limited_by="registers", mix=mixed))
    assert said == (
        "registers spill to memory: 24 bytes a thread",
        "low occupancy: 10% of the warps, limited by registers",
        "all 10 loads are 4 bytes or less: none is vectorized",
        "all 6 stores are 4 bytes or less: none is vectorized",
    )


def test_a_block_with_more_shared_memory_than_the_device_gives_does_not_fit():
    metadata = {"shared": 120_000, "num_warps": 4, "num_stages": 3}
    on_l4 = nvidia(find("l4"), {"REG": 64, "SHARED": 1024}, metadata, "")
    assert on_l4.blocks == 0
    assert "does not fit" in on_l4.warnings[0]
    assert on_l4.warnings[0].endswith("120,000 bytes of shared memory are more than a block may have")
    assert nvidia(find("h100"), {"REG": 64, "SHARED": 1024}, metadata, "").blocks == 1


def test_widths_are_told_apart():
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
    assert dict(mix("sass", sass)) == {
        "load 128-bit": 1, "load 64-bit": 1, "load 32-bit": 1, "load 16-bit": 1, "store 8-bit": 1,
    }  # fmt: skip
