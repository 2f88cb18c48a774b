"""`python -m tests.benchmarks.bisect_faults [NAME…]`: seeded faults of the compiler that the bisect study locates.

Each model file breaks one stage in its own process, as a wrong registration or patch of the user would. The table has
the stage that is broken and the one that the study names; the exit status is the number of differences.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from pathlib import Path

from tcexplore.events import Event, Job
from tcexplore.studies.bisect import STUDY, BisectOptions, BisectStep, first_failure
from tcexplore.studies.runs import Runs
from tcexplore.studies.study import StudyState, run_study
from tcexplore.supervisor import Supervisor
from tests.studies.faults import MORE_FAULTS

TIMEOUT_S = 120.0


def ignore(_: Event) -> None:
    """Drop the events of the workers."""


async def located(folder: Path, source: str, supervisor: Supervisor) -> str:
    """Return the name of the first failing stage; empty without one."""
    file = folder / "model.py"
    file.write_text(source)
    job = Job(run=1, file=str(file), source=source, time_for=0.0, profile=False)
    state = StudyState[BisectOptions, BisectStep](job, BisectOptions(), TIMEOUT_S)
    async with Runs(supervisor.study_queue) as runs:
        await run_study(STUDY, state, runs, lambda _: None, lambda _: None)
    failing = first_failure(state.results)
    return failing.stage.name if failing else ""


async def main(names: list[str]) -> int:
    """Print the table; return the number of differences."""
    wrong, supervisor = 0, Supervisor(ignore, prime=False)
    await supervisor.start()
    try:
        with tempfile.TemporaryDirectory() as folder:
            for name, (stage, source) in MORE_FAULTS.items():
                if names and name not in names:
                    continue
                start = time.monotonic()
                result = await located(Path(folder), source, supervisor)
                wrong += result != stage
                mark = "✔" if result == stage else "✖"
                print(f"{mark} {name:<30} {stage:<42} {result or 'no failure':<42} {time.monotonic() - start:5.1f} s")
    finally:
        await supervisor.close()
    return wrong


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1:])))
