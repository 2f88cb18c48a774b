"""Answering "would it recompile?" for a run, in the process that still holds its compiled code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tcexplore.capture.hooks import Hooks
from tcexplore.capture.project import Project
from tcexplore.events import Job, WouldRecompile
from tcexplore.events.control import Question
from tcexplore.events.inputs import parted
from tcexplore.worker.program import Program

if TYPE_CHECKING:
    from tcexplore.capture.would.answer import Would

_FACT = "would it recompile?"
_SYMBOL = "torch._dynamo.guards:get_guard_fail_reason_helper"

SCRIPT = (
    "A script calls what it compiled itself, with inputs of its own: there is no call to ask about. Name a module or "
    "function of the file instead: tcexplore check FILE:NAME --input 'f32[64, 512]'."
)
NOTHING = "torch did not answer: see what is not known of this run."


class Asking:
    """Answers questions about the compiled code of one run, once there is any."""

    def __init__(self, hooks: Hooks, project: Project, job: Job) -> None:
        self._hooks = hooks
        self._project = project
        self._job = job
        self._about: tuple[Program, tuple[str, ...]] | None = None

    def about(self, program: Program, graphs: Sequence[str]) -> None:
        """The program is compiled, into graphs with these compile ids."""
        self._about = program, tuple(graphs)

    def answer_job(self) -> None:
        """Answer what the job itself asks."""
        for number, text in enumerate(self._job.would, 1):
            self.answer(Question(number=number, inputs=tuple(parted(text))))

    def answer(self, question: Question) -> None:
        """Emit the `WouldRecompile`; what a torch lacks for it costs the answer only."""
        answers: list[WouldRecompile] = []
        if self._about is None:
            answers.append(WouldRecompile(number=question.number, inputs=question.inputs, problem=SCRIPT))
        else:
            self._hooks.guarded(_FACT, _SYMBOL, lambda: answers.append(self._would().answer(question)))
        self._hooks.emit(answers[0] if answers else WouldRecompile(
            number=question.number, inputs=question.inputs, problem=NOTHING))  # fmt: skip

    def _would(self) -> Would:
        from tcexplore.capture.would.answer import Would

        assert self._about is not None
        program, graphs = self._about
        return Would(
            program.compiled,
            program.entry.calls,
            self._project,
            graphs,
            train=program.train,
            dynamic=self._job.config.dynamic,
            raises=self._job.config.fullgraph,
        )
