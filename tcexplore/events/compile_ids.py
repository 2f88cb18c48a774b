"""Compile ids as torch writes them: `0/1`, and `!2/5/0` for what compiled autograd hands to Dynamo."""

from __future__ import annotations


def frame_number(compile_id: str) -> str:
    """The frame's own number: torch counts frames in one row, whoever had them compiled (`CompileId` in
    `torch/_guards.py`)."""
    return compile_id.rpartition("/")[0].rpartition("/")[2]


def backward_number(compile_id: str) -> str:
    """Which of compiled autograd's captures it belongs to, empty for what compiled autograd did not hand over."""
    return compile_id[1:].partition("/")[0] if compile_id.startswith("!") else ""
