"""A runner that answers each job with prepared events, as a supervisor would from its processes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from io import StringIO
from time import monotonic
from typing import Any

from tcexplore import events as ev
from tcexplore.cli.study_command import study_report
from tcexplore.documents.document import Document
from tcexplore.events.commands import RunCommand
from tcexplore.events.timing_events import TimingVerdict
from tcexplore.report.printed import print_document
from tcexplore.session import Snapshot
from tcexplore.studies.runs import Runs
from tcexplore.studies.study import StudyState, load_study, run_study
from tcexplore.studies.study_json import study_fields

Story = Callable[[ev.Job], Sequence[ev.Event]]

MACHINE = ev.Standby(
    torch="2.13.0", python="3.11.7", device="cpu", seconds=1.0, modes=("default", "max-autotune"),
    backends=("aot_eager", "cudagraphs", "eager", "inductor"),
)  # fmt: skip


class Playback:
    """Calls `story` for the events of each job; a job whose story has no end never ends."""

    def __init__(self, emit: Callable[[ev.Event], None], story: Story, jobs: list[ev.Job] | None = None) -> None:
        """`jobs` collects the jobs of several queues."""
        self.emit = emit
        self.story = story
        self.jobs: list[ev.Job] = [] if jobs is None else jobs
        self.commands: list[RunCommand] = []
        self.closed = self.ended = 0

    async def start(self) -> None:
        self.emit(MACHINE)

    def submit(self, job: ev.Job) -> None:
        self.jobs.append(job)
        for event in self.story(job):
            asyncio.get_running_loop().call_soon(self.emit, replace(event, run=job.run))

    def send(self, command: RunCommand) -> bool:
        self.commands.append(command)
        return True

    def end(self) -> None:
        self.ended += 1

    async def close(self) -> None:
        self.closed += 1


def timed(speedup: float, eager_us: float = 100.0, verdict: TimingVerdict | None = None) -> ev.TimingEstimate:
    """Return an estimate whose interval extends by a hundredth on both sides."""
    known: TimingVerdict = verdict or ("faster" if speedup > 1.05 else "slower" if speedup < 0.95 else "no difference")
    return ev.TimingEstimate(
        eager_us=eager_us, eager_spread_us=1.0, compiled_us=eager_us / speedup, compiled_spread_us=1.0,
        speedup=speedup, low=speedup - 0.01, high=speedup + 0.01, noise_floor=0.01, pairs=15, verdict=known,
        threads=2, device="cpu",
    )  # fmt: skip


GRAPH = ev.GraphCaptured(graph="0/0", ops=1, nodes=(), code="")
"""A captured graph: without one, no compiler stage is exercised."""


def failed(message: str = "lowering failed") -> ev.Failed:
    return ev.Failed(stage="inductor", blame="compiler", type="InductorError", message=message)


JOB = ev.Job(run=1, file="/tmp/model.py", source="import torch\n")


async def played(
    name: str,
    story: Story,
    options: object = None,
    job: ev.Job = JOB,
    timeout: float = 5.0,  # noqa: ASYNC109
    budget_s: float | None = None,
    own: Snapshot | None = None,
    clock: Callable[[], float] = monotonic,
) -> tuple[StudyState[Any, Any], Playback]:
    """Run a study with a story to its end; return its state and its first queue, which has the jobs of all.

    `clock` is the one that the budget is measured with.
    """
    players: list[Playback] = []

    def runner(emit: Callable[[ev.Event], None]) -> Playback:
        players.append(Playback(emit, story, players[0].jobs if players else None))
        return players[-1]

    study = load_study(name)
    state = StudyState[Any, Any](job, study.options_from(()) if options is None else options, timeout, budget_s, own)

    def announce(step: str) -> None:
        state.step = step

    async with Runs(runner) as runs:
        runs.steps.clock = clock
        await run_study(study, state, runs, announce, lambda _: None)
    state.over, state.run = True, None
    return state, players[0]


def printed(name: str, state: StudyState[Any, Any], width: int = 120) -> str:
    """Return what the command prints."""
    page = StringIO()
    print_document(lambda columns: study_report(load_study(name), state, columns), page, width)
    return page.getvalue()


def shown(name: str, state: StudyState[Any, Any], width: int = 100) -> str:
    """Return the rows that the screen shows."""
    return text(load_study(name).document(state, width))


def text(document: Document) -> str:
    return "\n".join(document.row(index).text for index in range(len(document)))


def json_of(name: str, state: StudyState[Any, Any]) -> dict[str, Any]:
    return study_fields(load_study(name), state)
