"""Runs of a study in a folder of their own, for benchmarks that judge many programs one after the other.

Such a benchmark takes parts of names, to judge only these programs. With `--outcomes FILE` it notes each outcome in a
file, and leaves out what has one there; with `--stop-after SECONDS` it then starts no other program. So it can be run
in pieces; the total is over all outcomes, and says how many programs have none yet. With `--at-once N`, N programs run
side by side, so their seconds are those of a busy machine.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from tcexplore import events as ev
from tcexplore.session import Snapshot
from tcexplore.studies.runs import Runs
from tcexplore.supervisor import Supervisor


class Outcome(NamedTuple):
    """What came of a program."""

    right: bool
    result: str
    """What is counted, such as `found` or a verdict."""
    said: str = ""


class Program(NamedTuple):
    """A program that is judged."""

    name: str
    job: Callable[[Path], ev.Job]
    """Writes the model file into a folder; returns the job."""
    outcome: Callable[[Snapshot], Outcome]


@contextlib.asynccontextmanager
async def study_runs() -> AsyncIterator[tuple[Runs, str]]:
    """Yield the runs and a temporary folder for their model files; end all workers afterwards."""
    supervisor = Supervisor(lambda _: None, prime=False)
    await supervisor.start()
    try:
        with tempfile.TemporaryDirectory() as folder:
            async with Runs(supervisor.study_queue) as runs:
                yield runs, folder
    finally:
        await supervisor.close()


def reasons(run: Snapshot) -> str:
    """Return why a run has no judgement."""
    texts = [run.failure.message] if run.failure else [one.reason for one in run.missing_facts]
    return " ".join(texts)[:200]


def study_options() -> argparse.ArgumentParser:
    """Return the options of such a benchmark."""
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", metavar="PART", help="judge only programs whose name has this part")
    parser.add_argument("--outcomes", type=Path, metavar="FILE", help="note outcomes here; leave out what has one")
    parser.add_argument("--stop-after", type=float, metavar="SECONDS", default=float("inf"))
    parser.add_argument("--at-once", type=int, metavar="N", default=1, help="programs that run side by side")
    return parser


async def judge(
    programs: Iterable[Program], options: argparse.Namespace | None = None, *, seconds_each: float = 180
) -> None:
    """Judge the programs that the command line selects; print each outcome and the totals."""
    options = options or study_options().parse_args()
    wanted = [one for one in programs if not options.names or any(part in one.name for part in options.names)]
    known = noted_outcomes(options.outcomes)
    waiting = iter([one for one in wanted if one.name not in known])
    began = time.perf_counter()

    async def judge_rest(runs: Runs, folder: str) -> None:
        for program in waiting:
            if time.perf_counter() - began > options.stop_after:
                return
            started = time.perf_counter()
            run = (await runs.run(program.job(Path(folder)), seconds_each)).snapshot
            outcome = known[program.name] = program.outcome(run)
            seconds = time.perf_counter() - started
            print(f"{'✔' if outcome.right else '✖'} {seconds:5.1f} s  {program.name}: {outcome.said}", flush=True)
            if options.outcomes:
                with options.outcomes.open("a") as file:
                    print(json.dumps([program.name, *outcome]), file=file)

    async with study_runs() as (runs, folder):
        await asyncio.gather(*(judge_rest(runs, folder) for _ in range(options.at_once)))
    print_totals([known.get(program.name) for program in wanted])


def noted_outcomes(file: Path | None) -> dict[str, Outcome]:
    """Return the outcomes in a file, by program."""
    if file is None or not file.exists():
        return {}
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    return {name: Outcome(*outcome) for name, *outcome in lines}


def print_totals(outcomes: list[Outcome | None]) -> None:
    """Print how many outcomes are right, what they are, and how many programs have none yet."""
    done = [one for one in outcomes if one is not None]
    results = ", ".join(f"{count} {result}" for result, count in Counter(one.result for one in done).most_common())
    missing = f"; {len(outcomes) - len(done)} programs not run yet" if len(done) < len(outcomes) else ""
    print(f"right: {sum(one.right for one in done)} of {len(done)} ({results}){missing}")
