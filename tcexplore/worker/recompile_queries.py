"""Answer recompile queries for a run, in the process that has its compiled code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tcexplore.capture.hooks import Hooks
from tcexplore.capture.region_queries import RegionQueries
from tcexplore.capture.step_signals import is_one_of_several_ranks
from tcexplore.capture.user_files import UserFiles
from tcexplore.events import NO_MATCH, Job, RecompileAnswer, decode
from tcexplore.events.codec import HEADER, encode
from tcexplore.events.commands import RecompileQuery
from tcexplore.events.input_specs import split_arguments
from tcexplore.worker.fork_policy import accelerator_initialized, call_in_copy, can_fork
from tcexplore.worker.program import Program

if TYPE_CHECKING:
    from tcexplore.capture.recompile_check import RecompileCheck

FACT = "recompile check"
SYMBOL = "torch._dynamo.guards:get_guard_fail_reason_helper"

NOT_COMPILED = "Nothing is compiled yet."
CALL_S = 10.0
"""Seconds for a call in a copy of the process."""

OTHER_RANKS = "the script is one rank of a distributed job: a call may reach the others"

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

        def check(query: RecompileQuery) -> RecompileAnswer:
            from tcexplore.capture.recompile_check import RecompileCheck

            calls, modes = program.entry.calls, program.grad_context
            frames = RecompileCheck(program.compiled, calls, self._user_files, compiled, modes=modes)
            device = program.device.type
            return _answer(frames, query, _cannot_be_copied() if device == "cpu" else f"it runs on {device}")

        self._check = check

    def use_regions(self, region_queries: RegionQueries) -> None:
        """Answer for the regions of a script."""

        def check(query: RecompileQuery) -> RecompileAnswer:
            prepared = region_queries.prepare(query)
            if isinstance(prepared, RecompileAnswer):
                return prepared
            frames, query = prepared
            return replace(_answer(frames, query, _script_cannot_be_copied()), region=query.region)

        self._check = check

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
        none = RecompileAnswer(number=query.number, inputs=query.inputs, region=query.region, problem=NO_ANSWER)
        self._hooks.emit(replace(answers[0] if answers else none, asked=query.inputs))


def _cannot_be_copied() -> str:
    """Return why no copy of this process can call the program, empty if one can."""
    return "" if can_fork() else "on this system, a process that has imported torch cannot be copied"


def _script_cannot_be_copied() -> str:
    if accelerator_initialized():
        return "the script uses an accelerator"
    return OTHER_RANKS if is_one_of_several_ranks() else _cannot_be_copied()


def _answer(check: RecompileCheck, query: RecompileQuery, not_copied: str) -> RecompileAnswer:
    """Return the answer; frames that only a call reaches are checked in a copy of this process.

    `not_copied` is the reason if it cannot be copied.
    """
    answer = check.answer(query)
    if not answer.problem and not not_copied:
        answer = _possible_call(check, query, answer)
    if answer.problem:
        return answer
    verdicts = [frame.verdict for frame in answer.frames]
    if "unknown" not in verdicts or verdicts[0] in NO_MATCH:  # what comes after it, the checked code does not tell
        return answer
    if not_copied:
        return _unchecked(answer, not_copied)
    try:
        called = decode(
            call_in_copy(lambda: encode(check.answer_by_call(query))[HEADER.size :].decode(), CALL_S).encode()
        )
    except (OSError, RuntimeError, ValueError) as error:
        return _unchecked(answer, str(error))
    return called if isinstance(called, RecompileAnswer) else answer


def _possible_call(check: RecompileCheck, query: RecompileQuery, answer: RecompileAnswer) -> RecompileAnswer:
    """Return the answer for a call that does not raise.

    If changed sizes do not fit the others, equal sizes of the other inputs are changed with them; if that does not help
    either, the answer is the exception, unless the call raises with its own sizes, too: values of a script are gone.
    Where they fit, the answer names the inputs with all equal sizes changed.
    """
    if not check.changes_sizes(query.inputs):
        return answer
    linked = check.with_linked_sizes(query.inputs)
    try:
        error = _eager_error(check, query.inputs)
        if not error:
            return replace(answer, with_equal_sizes=linked) if linked != query.inputs else answer
        if linked != query.inputs and not _eager_error(check, linked):
            return replace(check.answer(replace(query, inputs=linked)), changed_with=_changed(query.inputs, linked))
        if _eager_error(check, check.original(query.inputs)):
            return answer
    except (OSError, RuntimeError, ValueError):
        return answer
    return RecompileAnswer(
        number=query.number,
        inputs=query.inputs,
        region=query.region,
        problem=f"a call with these inputs raises {error}",
    )


def _eager_error(check: RecompileCheck, inputs: Sequence[str]) -> str:
    error: str = call_in_copy(lambda: check.eager_error(inputs), CALL_S)
    return error


def _changed(before: Sequence[str], after: Sequence[str]) -> tuple[str, ...]:
    return tuple(new for old, new in zip(before, after, strict=True) if old != new)


def _unchecked(answer: RecompileAnswer, reason: str) -> RecompileAnswer:
    """Return an answer that says why frames are unknown that only a call reaches."""
    first, *later = answer.frames
    unchecked = f"what only a call reaches cannot be checked in a copy of the process: {reason}"
    note = "; ".join(filter(None, (first.note, unchecked)))
    return replace(answer, frames=(replace(first, note=note), *later))
