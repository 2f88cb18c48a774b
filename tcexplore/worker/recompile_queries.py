"""Answering "would it recompile?" for a run, in the process that still holds its compiled code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import torch

from tcexplore.capture.hooks import Hooks
from tcexplore.capture.regions.region_queries import RegionQueries
from tcexplore.capture.user_files import UserFiles
from tcexplore.events import Job, RecompileAnswer
from tcexplore.events.commands import RecompileQuery
from tcexplore.events.input_line import parted
from tcexplore.worker.program import Program

if TYPE_CHECKING:
    from tcexplore.capture.recompile_check.recompile_answer import RecompileCheck

_FACT = "would it recompile?"
_SYMBOL = "torch._dynamo.guards:get_guard_fail_reason_helper"

EARLY = "Nothing is compiled yet: there is nothing to ask."
NOTHING = "torch did not answer: see what is not known of this run."


class RecompileQueries:
    """Answers questions about the compiled code of one run, once there is any."""

    def __init__(self, hooks: Hooks, project: UserFiles, job: Job) -> None:
        self._hooks = hooks
        self._project = project
        self._job = job
        self._about: Callable[[RecompileQuery], RecompileAnswer] | None = None

    def about(self, program: Program, graphs: Sequence[str]) -> None:
        """The program is compiled, into graphs with these compile ids."""
        self._about = lambda question: self._would(program, tuple(graphs)).answer(question)

    def about_regions(self, region_queries: RegionQueries) -> None:
        """It is a script: its regions answer."""
        self._about = region_queries.answer

    def answer_job(self) -> None:
        """Answer what the job itself asks."""
        for number, text in enumerate(self._job.would, 1):
            self.answer(RecompileQuery(number=number, inputs=tuple(parted(text))))

    def answer(self, question: RecompileQuery) -> None:
        """Emit the `RecompileAnswer`; what a torch lacks for it costs the answer only."""
        answers: list[RecompileAnswer] = []
        about = self._about
        if about is None:
            answers.append(RecompileAnswer(number=question.number, inputs=question.inputs, problem=EARLY))
        else:
            self._hooks.attempt(_FACT, _SYMBOL, lambda: answers.append(about(question)))
        self._hooks.emit(answers[0] if answers else RecompileAnswer(
            number=question.number, inputs=question.inputs, region=question.region, problem=NOTHING))  # fmt: skip

    def _would(self, program: Program, graphs: tuple[str, ...]) -> RecompileCheck:
        from tcexplore.capture.recompile_check.recompile_answer import RecompileCheck

        return RecompileCheck(
            program.compiled,
            program.entry.calls,
            self._project,
            graphs,
            modes=partial(torch.set_grad_enabled, program.train),
            dynamic=self._job.config.dynamic,
            raises=self._job.config.fullgraph,
        )
