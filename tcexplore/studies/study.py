"""The parts of every study: options, state, plan, document, JSON and exit status."""

from __future__ import annotations

import argparse
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from tcexplore.documents.document import Document
from tcexplore.events import Event, Job, Standby
from tcexplore.events.config import ANY_REGION
from tcexplore.model_python import ModelPython
from tcexplore.session import Snapshot
from tcexplore.session.compile_time import compile_time
from tcexplore.studies.progress import BudgetSpentError
from tcexplore.studies.registry import StudyName
from tcexplore.studies.runs import RefusedError, Runs, failure_status

Options = TypeVar("Options")
Result = TypeVar("Result")
Announce = Callable[[str], None]

RUN_TIMEOUT_S = 180.0
"""Default time limit of each run of a study."""

COMPILES = 5
"""Compiles of a file that a run of a study may take: it compiles the original, too, and compares both."""

RUN_TIMING_S = 1.0
"""Seconds of timing in each run of a study; a verdict may take longer."""


def run_timeout(own: Snapshot | None) -> float:
    """Return the time limit of a run in seconds: more for a file whose own run compiled for long."""
    return max(RUN_TIMEOUT_S, COMPILES * compile_time(own).seconds) if own is not None else RUN_TIMEOUT_S


def on_captured_call(job: Job) -> Job:
    """Return the job whose program, if its file is a script, is a captured call of a region."""
    return replace(job, config=replace(job.config, region=job.config.region or ANY_REGION))


def study_job(job: Job) -> Job:
    """Return the job that a study varies: without code for another target, assembly, or commands while it runs."""
    config = replace(job.config, target="native", assembly=False, opcheck=False)
    return replace(job, time_for=RUN_TIMING_S, retargetable=False, profile=False, config=config)


@dataclass(slots=True)
class StudyState(Generic[Options, Result]):
    """All that is known of a study so far."""

    job: Job
    """The job that the study varies."""
    options: Options
    timeout: float = RUN_TIMEOUT_S
    """Time limit of each run, in seconds."""
    budget_s: float | None = None
    """Time limit of the whole study, in seconds; None for no limit."""
    own: Snapshot | None = None
    """The model file's own run in the app, which a study need not repeat; None on the command line."""
    results: list[Result] = field(default_factory=list)
    planned: list[Job] = field(default_factory=list)
    """All jobs, finished ones included, of a study whose plan is known in advance."""
    machine: Standby | None = None
    """The first message of the worker; None before one is ready."""
    step: str = "waiting for a worker"
    """The current step, as text."""
    step_began: float | None = None
    """When it began, in seconds of the monotonic clock; None before the first one, and on the command line."""
    steps: str = ""
    """How many steps are done, and the time left: `3 of 12 · about 40 s left`."""
    steps_done: int | None = None
    """How many steps are done; None if they are unknown, or of several kinds."""
    run: Snapshot | None = None
    """The run under way."""
    active: frozenset[Any] = frozenset()
    """What is under way in a study that has several runs at once."""
    stopped: bool = False
    """Whether the user stopped the study."""
    over: bool = False
    """Whether no more results will come."""
    error: str = ""
    """The exception that ended the study."""
    refused: str = ""
    """Why the study cannot study this file, and what to do."""
    skipped: tuple[str, ...] = ()
    """Steps that were left out because the budget was spent."""
    written: tuple[str, ...] = ()
    """Files and folders that `Study.write` wrote."""
    toggled: frozenset[str] = frozenset()
    """Folds of the document that the user opened or closed."""


class PromptField(NamedTuple):
    """One line of a prompt."""

    label: str
    value: str
    """The initial text."""
    check: Callable[[str], object]
    """Raises `ValueError` with a message for the user if the text is invalid."""
    selected: tuple[int, int] | None = None
    """The part of the initial text that typing replaces; None for all of it."""
    earlier: tuple[str, ...] = ()
    """Texts of earlier prompts, oldest first: the user goes back to them as in a shell."""


class Prompt(NamedTuple):
    """Question that the app asks the user before a study begins."""

    title: str
    fields: tuple[PromptField, ...]
    note: str


class Study(ABC, Generic[Options, Result]):
    """One kind of study. The command line and the app both run `plan` and show `document`."""

    name: ClassVar[StudyName]
    title: ClassVar[str]
    """Its title on the screen."""
    description: ClassVar[str]
    """The description in `tcexplore NAME --help`."""
    examples: ClassVar[tuple[str, ...]] = ("model.py",)
    """Examples of the command's arguments, for `--help`."""
    exit_note: ClassVar[str] = ""
    """Exit statuses beyond those that all studies have, for `--help`."""
    compile_options: ClassVar[frozenset[str]] = frozenset({"mode", "backend", "dynamic"})
    """Options of torch.compile that the command has; a study leaves out those that it varies."""
    timed: ClassVar[bool] = False
    """Whether its runs are timed, so that the command has `--time-for`."""
    live: ClassVar[bool] = False
    """Whether its document also shows the run under way."""
    studies_scripts: ClassVar[bool] = False
    """Whether it runs a script that calls torch.compile itself as it is; else a captured call of it is the program."""
    several_machines: ClassVar[bool] = False
    """Whether its runs are in several environments, so that no single machine describes all."""
    compares_environments: ClassVar[bool] = False
    """Whether its command takes `--python` several times."""
    default_options: Any = None
    """The options of a study without a prompt that has none from the command line."""

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Add the command's own options."""

    def options(self, given: argparse.Namespace) -> Options:  # noqa: ARG002
        """Return the options from the command line. Raises `ValueError` with a message."""
        options: Options = self.default_options
        return options

    def prompt(
        self,
        job: Job,  # noqa: ARG002
        own: Snapshot | None,  # noqa: ARG002
        last: StudyState[Options, Result] | None,  # noqa: ARG002
    ) -> Prompt | None:
        """Return what to ask before the study of a job begins, None for nothing.

        `own` is the model file's own run, `last` the study before this one.
        """
        return None

    def options_from(self, answers: Sequence[str]) -> Options:  # noqa: ARG002
        """Return the options from the answers to the prompt."""
        options: Options = self.default_options
        return options

    @abstractmethod
    def plan(self, state: StudyState[Options, Result], runs: Runs, announce: Announce) -> AsyncGenerator[Result, None]:
        """Make the runs one by one, announce each, and yield results.

        A run that fails or times out is a result like another.
        """

    def result_key(self, result: Result) -> Hashable:
        """Return what a result is about: it replaces an earlier one about the same."""
        return id(result)

    def add_result(self, state: StudyState[Options, Result], result: Result) -> None:
        """Add a result to those of the state, or replace an earlier one."""
        known = {self.result_key(one): index for index, one in enumerate(state.results)}
        index = known.get(self.result_key(result), len(state.results))
        state.results[index : index + 1] = [result]

    def settled(self, result: Result, *, stopped: bool) -> Result:  # noqa: ARG002
        """Return a result as it is when the study is over; `stopped` unless the budget was spent."""
        return result

    @abstractmethod
    def document(self, state: StudyState[Options, Result], width: int = 78) -> Document:
        """Return the results so far as a document."""

    @abstractmethod
    def fields(self, state: StudyState[Options, Result]) -> dict[str, Any]:
        """Return the results as JSON, without the fields that all studies have."""

    def across_environments(
        self,
        options: Options,
        job: Job,  # noqa: ARG002
        pythons: Sequence[ModelPython],  # noqa: ARG002
    ) -> tuple[Study[Any, Any], Any]:
        """Return the study of several environments, and its options; this study unless it `compares_environments`."""
        return self, options

    def pythons(self, options: Options) -> tuple[ModelPython, ...]:  # noqa: ARG002
        """Return the environments that its runs need; empty for the one that runs the model file."""
        return ()

    def answer(self, state: StudyState[Options, Result]) -> str:  # noqa: ARG002
        """Return the main result so far in one sentence, for the title of the screen; empty if there is none."""
        return ""

    def facts(self, state: StudyState[Options, Result]) -> tuple[Event, ...]:  # noqa: ARG002
        """Return what the results so far add to the run that the study is of."""
        return ()

    def result_line(self, result: Result) -> str:  # noqa: ARG002
        """Return one line about a result, for the log of the command; empty for none."""
        return ""

    def write(self, state: StudyState[Options, Result]) -> str:  # noqa: ARG002
        """Write the files that the command's options ask for; return an error message, or an empty string."""
        return ""

    def exit_status(self, state: StudyState[Options, Result]) -> int:
        """Return the command's exit status for a study that no signal ended: an error only if no run works."""
        results: Sequence[Any] = state.results
        return min((failure_status(result.run) for result in results), default=0)


async def run_study(
    study: Study[Options, Result],
    state: StudyState[Options, Result],
    runs: Runs,
    announce: Announce,
    on_result: Callable[[Result], None],
) -> None:
    """Run a study to its end, or until its budget is spent, and collect its results in `state`."""
    steps = runs.steps
    steps.budget_s = state.budget_s
    steps.start()
    if not study.studies_scripts:
        state.job = on_captured_call(state.job)
    name = ""

    def announce_step(step: str) -> None:
        nonlocal name
        name, state.steps = step, steps.text()
        announce(step)

    results = study.plan(state, runs, announce_step)
    try:
        async for result in results:
            study.add_result(state, result)
            steps.finish(name)
            state.steps, state.steps_done = steps.text(), steps.done
            if not study.several_machines:
                state.machine = await runs.machine(0)
            on_result(result)
    except BudgetSpentError:
        state.skipped = steps.skipped
    except RefusedError as error:
        state.refused = str(error)
    finally:
        # The plan removes its files when it is closed; do not leave that to the garbage collector.
        await results.aclose()
        stopped = steps.budget_left_s > 0
        state.results = [study.settled(result, stopped=stopped) for result in state.results]


def load_study(name: str) -> Study[Any, Any]:
    """Import a study."""
    study: Study[Any, Any] = import_module(f"tcexplore.studies.{name}").STUDY
    return study
