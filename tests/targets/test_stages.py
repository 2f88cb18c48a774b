"""Lines of each stage linked to the kernel's source, on small texts of each form."""

from __future__ import annotations

from tcexplore.targets.assembly_stages import stage
from tcexplore.targets.instruction_mix import mix

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

SASS = """.text.k:
	//## File "/tmp/a/kernel.py", line 5
        /*0000*/                   LDC R1, c[0x0][0x28] ;
        /*0010*/              @!P0 LDG.E.128 R4, desc[UR4][R2.64] ;
	//## File "/lib/triton_helpers.py", line 9 inlined at "/tmp/a/kernel.py", line 7
        /*0020*/                   MUFU.RSQ R5, R4 ;
        /*0030*/                   HGMMA.64x64x16.F32 R8, gdesc[UR8] ;
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


def test_ptx_with_a_helper_taken_to_its_call():
    assert stage("ptx", PTX, "kernel.py").lines == ((5, 5), (7, 7), (8, 7))


def test_sass():
    assert stage("sass", SASS, "kernel.py").lines == ((3, 5), (4, 5), (6, 7), (7, 7))


def test_triton_ir():
    assert stage("ttir", TTIR, "kernel.py").lines == ((5, 5), (6, 7), (7, 3), (8, 3))


def test_llvm_ir():
    assert stage("llir", LLVM, "kernel.py").lines == ((2, 5), (3, 7))


def test_lines_that_were_put_ahead_are_taken_off():
    assert stage("sass", SASS, "kernel.py", before=5).lines == ((6, 2), (7, 2))


def test_an_unknown_stage_has_text_and_no_lines():
    assert stage("spv", "x", "kernel.py").lines == ()


def test_instructions_by_kind():
    assert dict(mix("sass", SASS)) == {"other": 1, "load 128-bit": 1, "special function": 1, "tensor core": 1}
    amd = "\tglobal_load_dwordx4 v[0:3], v0\n\tv_mfma_f32_32x32x8_f16 a[0:15]\n\tv_rsq_f32_e32 v1, v2\n\ts_endpgm\n"
    assert dict(mix("amdgcn", amd)) == {"load 128-bit": 1, "tensor core": 1, "special function": 1, "other": 1}
