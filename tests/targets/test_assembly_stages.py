"""Links from the lines of each stage to the kernel's source, in small examples."""

from __future__ import annotations

from tcexplore.targets.assembly_stages import drop_inline_asm_locations, make_stage
from tests.targets.disassembly import SASS

PTX = """.visible .entry k(
)
{
	.loc	1 5 0
	mov.u32 	%r1, %tid.x;
	.loc	2 9 3, function_name $L__info, inlined_at 1 7 2
	ld.global.v4.b32 	{ %r2, %r3, %r4, %r5 }, [ %rd1 ];
	ret;
}
	.file	1 "/tmp/a/kernel.py"
	.file	2 "/lib/triton_helpers.py"
"""


TTIR = """#loc = loc("/tmp/a/kernel.py":3:0)
#loc1 = loc(unknown)
module {
  tt.func public @k() {
    %0 = tt.get_program_id x : i32 loc(#loc2)
    %1 = arith.addf %a, %b : f32 loc(#loc4)
  } loc(#loc)
} loc(#loc)
#loc2 = loc("/tmp/a/kernel.py":5:28)
#loc3 = loc("/lib/triton_helpers.py":9:1)
#loc4 = loc(callsite(#loc3 at #loc5))
#loc5 = loc("/tmp/a/kernel.py":7:1)
"""

LLVM = """define void @k() !dbg !3 {
  %1 = add i32 1, 2, !dbg !10
  %2 = add i32 1, 2, !dbg !11
}
!10 = !DILocation(line: 5, column: 1, scope: !3)
!11 = !DILocation(line: 9, column: 1, scope: !4, inlinedAt: !12)
!12 = !DILocation(line: 7, column: 1, scope: !3)
"""


INLINE_ASM = """	.loc	1 33 12
	// begin inline asm
	.loc	1 33 12
	mov.u32 %r7, %r9;
	.loc	1 34 12
	ld.global.b32 { %r7 }, [ %rd5 + 0 ];
	// end inline asm
	.loc	1 40 1
	ret;"""


def test_lines_of_an_inlined_helper_link_to_its_call_in_ptx():
    assert make_stage("ptx", PTX, "kernel.py").lines == ((5, 5), (7, 7), (8, 7))


def test_sass_lines_link_to_the_source():
    assert make_stage("sass", SASS, "kernel.py").lines == ((3, 5), (4, 5), (6, 7), (7, 7))


def test_triton_ir_lines_link_to_the_source():
    assert make_stage("ttir", TTIR, "kernel.py").lines == ((5, 5), (6, 7), (7, 3), (8, 3))


def test_llvm_ir_lines_link_to_the_source():
    assert make_stage("llir", LLVM, "kernel.py").lines == ((2, 5), (3, 7))


def test_added_lines_are_subtracted():
    assert make_stage("sass", SASS, "kernel.py", added_lines=5).lines == ((6, 2), (7, 2))


def test_an_unknown_stage_has_text_but_no_links():
    assert make_stage("spv", "x", "kernel.py").lines == ()


def test_inline_assembly_stays_on_its_first_line():
    ptx = drop_inline_asm_locations(INLINE_ASM)
    assert [line.split()[2] for line in ptx.splitlines() if ".loc" in line] == ["33", "40"]
    assert [line for line in ptx.splitlines() if ".loc" not in line] == [
        line for line in INLINE_ASM.splitlines() if ".loc" not in line
    ]
