"""Line information of inline assembly in PTX."""

from __future__ import annotations

from tcexplore.targets.inline_asm import kept_to_its_line

PTX = """	.loc	1 33 12
	// begin inline asm
	.loc	1 33 12
	mov.u32 %r7, %r9;
	.loc	1 34 12
	ld.global.b32 { %r7 }, [ %rd5 + 0 ];
	// end inline asm
	.loc	1 40 1
	ret;"""


def test_a_block_stays_on_the_line_it_began_on():
    kept = kept_to_its_line(PTX)
    assert [line.split()[2] for line in kept.splitlines() if ".loc" in line] == ["33", "40"]
    assert [line for line in kept.splitlines() if ".loc" not in line] == [
        line for line in PTX.splitlines() if ".loc" not in line
    ]
