"""Compile ids of torch: `0/1`, and `!2/5/0` for a capture of compiled autograd."""

from __future__ import annotations


def frame_number(compile_id: str) -> str:
    """Return the number of the frame, which is unique across captures of compiled autograd (`torch/_guards.py`)."""
    return compile_id.rpartition("/")[0].rpartition("/")[2]


def backward_number(compile_id: str) -> str:
    """Return the number of the compiled autograd capture; empty for any other compile."""
    return compile_id[1:].partition("/")[0] if compile_id.startswith("!") else ""
