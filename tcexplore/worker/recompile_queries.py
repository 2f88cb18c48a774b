"""Answer recompile queries for a run, in the process that has its compiled code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tcexplore.capture.hooks import Hooks
from tcexplore.capture.regions.region_queries import RegionQueries
from tcexplore.capture.user_files import UserFiles
from tcexplore.events import Job, RecompileAnswer
from tcexplore.events.commands import RecompileQuery
from tcexplore.events.input_specs import split_arguments
from tcexplore.worker.program import Program

if TYPE_CHECKING:
    from tcexplore.capture.recompile_check.recompile_answer import RecompileCheck

FACT = "recompile check"
SYMBOL = "torch._dynamo.guards:get_guard_fail_reason_helper"

NOT_COMPILED = "Nothing is compiled yet."
NO_ANSWER = "The check failed; the missing facts of this run give the reason."


class RecompileQueries:
    """Answers queries about the compiled code of one run, once it exists."""

    def __init__(self, hooks: Hooks, user_files: UserFiles, job: Job) -> None:
        self._hooks = hooks
        self._user_files = user_files
        self._job = job
        self._check: Callable[[RecompileQuery], RecompileAnswer] | None = None

    def use_program(self, program: Program, graphs: Sequence[str]) -> None:
        """Answer for a program that is compiled into the graphs with these compile ids."""
        compiled = tuple(graphs)
        self._check = lambda query: self._recompile_check(program, compiled).answer(query)

    def use_regions(self, region_queries: RegionQueries) -> None:
        """Answer for the regions of a script."""
        self._check = region_queries.answer

    def answer_job(self) -> None:
        """Answer the queries in the job itself."""
        for number, text in enumerate(self._job.recompile_queries, 1):
            self.answer(RecompileQuery(number=number, inputs=tuple(split_arguments(text))))

    def answer(self, query: RecompileQuery) -> None:
        """Emit the `RecompileAnswer`. A failure, e.g. of a missing torch function, affects only the answer."""
        answers: list[RecompileAnswer] = []
        check = self._check
        if check is None:
            answers.append(RecompileAnswer(number=query.number, inputs=query.inputs, problem=NOT_COMPILED))
        else:
            self._hooks.attempt(FACT, SYMBOL, lambda: answers.append(check(query)))
        self._hooks.emit(answers[0] if answers else RecompileAnswer(
            number=query.number, inputs=query.inputs, region=query.region, problem=NO_ANSWER))  # fmt: skip

    def _recompile_check(self, program: Program, graphs: tuple[str, ...]) -> RecompileCheck:
        from tcexplore.capture.recompile_check.recompile_answer import RecompileCheck

        return RecompileCheck(
            program.compiled,
            program.entry.calls,
            self._user_files,
            graphs,
            modes=program.grad_context,
        )
