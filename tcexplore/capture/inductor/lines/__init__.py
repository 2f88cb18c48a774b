"""The op behind each statement of a generated kernel: marks stay in the text until the kernel is complete."""

from __future__ import annotations

from tcexplore.capture.hooks import Hooks
from tcexplore.capture.inductor.lines.current_op import CurrentOp, SymbolicValues
from tcexplore.capture.inductor.lines.line_marks import LineMarks, MarkedKernels
from tcexplore.capture.inductor.lines.written_lines import (
    HelperFunctions,
    InterpretedNode,
    LoopBodies,
    Reductions,
    WrittenLines,
)


def install(hooks: Hooks) -> MarkedKernels:
    """Follow statements from the op to the complete kernel.

    If torch does not define kernels where expected, no line is marked, and kernels have their origins as a whole only.
    """
    marks, current, interpreted = LineMarks(), CurrentOp(), InterpretedNode()
    kernels = MarkedKernels(marks)
    if kernels.install(hooks):
        for part in (current, interpreted, SymbolicValues(current), LoopBodies(current, interpreted)):
            part.install(hooks)
        for writer in (WrittenLines, Reductions, HelperFunctions):
            writer(marks, interpreted).install(hooks)
    return kernels
