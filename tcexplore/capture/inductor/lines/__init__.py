"""Which op wrote each statement of a generated kernel: marks that go with the text until the kernel is finished."""

from __future__ import annotations

from tcexplore.capture.hooks import Hooks
from tcexplore.capture.inductor.lines.current_op import Running
from tcexplore.capture.inductor.lines.finished_kernels import Handover
from tcexplore.capture.inductor.lines.folded_constants import FoldedValues
from tcexplore.capture.inductor.lines.line_marks import Marks
from tcexplore.capture.inductor.lines.loop_bodies import LoopBodies
from tcexplore.capture.inductor.lines.reductions import Reductions
from tcexplore.capture.inductor.lines.triton_helpers import HelperFunctions
from tcexplore.capture.inductor.lines.written_lines import Writing


def install(hooks: Hooks) -> Handover:
    """Follow statements from the op to the finished kernel.

    Where torch hands finished kernels over at a place unknown to us nothing is marked, and kernels keep what is known
    of them as a whole.
    """
    marks, running = Marks(), Running()
    handover = Handover(marks)
    if handover.install(hooks):
        for part in (running, FoldedValues(running), LoopBodies(running)):
            part.install(hooks)
        for writer in (Writing(marks), Reductions(marks), HelperFunctions(marks)):
            writer.install(hooks)
    return handover
