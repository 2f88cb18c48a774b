"""Disassembly of a kernel."""

from __future__ import annotations

SASS = """.text.k:
	//## File "/tmp/a/kernel.py", line 5
        /*0000*/                   LDC R1, c[0x0][0x28] ;
        /*0010*/              @!P0 LDG.E.128 R4, desc[UR4][R2.64] ;
	//## File "/lib/triton_helpers.py", line 9 inlined at "/tmp/a/kernel.py", line 7
        /*0020*/                   MUFU.RSQ R5, R4 ;
        /*0030*/                   HGMMA.64x64x16.F32 R8, gdesc[UR8] ;
"""
