"""The chosen job of the traces that `open` reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tcexplore.cli.options import TraceChoice
from tcexplore.cli.terminal import print_error

if TYPE_CHECKING:
    from tcexplore.traces.trace_job import OpenedTrace, TraceJob


class TraceChoiceError(Exception):
    """The chosen part of a trace does not exist, or there is a choice to make."""


def choose(
    choice: TraceChoice, *, whole: bool = True, ask: Callable[[Sequence[TraceJob]], int | None] | None = None
) -> tuple[OpenedTrace, TraceJob]:
    """Return the traces, indexed as a `whole` or at their beginnings, and the chosen job. Raises `TraceChoiceError`.

    If the traces are of several jobs, `ask` returns the number of one of them, or None.
    """
    from tcexplore.traces.trace_inputs import trace_inputs
    from tcexplore.traces.trace_job import NothingReadError, open_inputs

    try:
        opened = open_inputs(trace_inputs(choice.paths, print_error), whole=whole)
    except NothingReadError as error:
        raise TraceChoiceError("; ".join(error.problems[:5])) from None
    jobs = opened.jobs
    if choice.job is not None and choice.job > len(jobs):
        raise TraceChoiceError(f"there is no job {choice.job}; {_jobs(jobs)}")
    number = choice.job
    if number is None and len(jobs) > 1:
        number = ask(jobs) if ask is not None else None
        if number is None:
            raise TraceChoiceError(f"{_jobs(jobs)}\nChoose one with --job N.")
    return opened, jobs[(number or 1) - 1]


def ask_job(jobs: Sequence[TraceJob]) -> int | None:
    """Ask the user at the terminal which job to open, by default the newest one; return None for no answer."""
    print_error(_jobs(jobs))
    while True:
        try:
            answer = input(f"Job to open [1 to {len(jobs)}; enter: {len(jobs)}]: ").strip()
        except (EOFError, KeyboardInterrupt):
            return None
        if not answer:
            return len(jobs)
        if answer.isdecimal() and 1 <= int(answer) <= len(jobs):
            return int(answer)


def _jobs(jobs: Sequence[TraceJob]) -> str:
    noun = "job" if len(jobs) == 1 else "jobs"
    lines = [f"  job {number}: {job.describe()}" for number, job in enumerate(jobs, 1)]
    return "\n".join([f"these traces are of {len(jobs)} {noun}:", *lines])
