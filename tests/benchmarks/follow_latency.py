"""Time from a record that a job flushes to its paint: `python -m tests.benchmarks.follow_latency`.

A second process adds the records of a finished trace, 20 a second; the app follows the file. A record counts as painted
after the first refresh of the screen that follows its conversion by more than the interval in which events are batched.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path
from statistics import median, quantiles

from tcexplore.traces.followed_trace import FollowedTrace
from tcexplore.ui.app import ExplorerApp
from tcexplore.ui.follow_engine import FollowEngine
from tests.traces.growing_job import GrowingFile

FIXTURES = Path(__file__).parents[1] / "traces" / "fixtures.tar.xz"
RECORDS = 200
INTERVAL_S = 0.05
BATCHED_S = 0.02


def write(finished: str, folder: str) -> None:
    """Add records one by one, and print the time of each."""
    file = GrowingFile(Path(finished), Path(folder))
    first = file.until("dynamo_start") + 1
    file.write(first)
    time.sleep(1.0)
    for _ in range(RECORDS):
        file.write(1)
        sys.stdout.write(f"{file.written} {time.time()}\n")
        sys.stdout.flush()
        time.sleep(INTERVAL_S)


async def measure(finished: Path, folder: str) -> list[float]:
    """Return the seconds from each record to its paint."""
    engine = FollowEngine(FollowedTrace([folder]), None)
    app = ExplorerApp(lambda: engine)
    painted: list[tuple[int, float]] = []
    async with app.run_test(size=(160, 50)):
        writer = subprocess.Popen(  # noqa: ASYNC220  the writer must not share the loop
            [sys.executable, "-m", __spec__.name, str(finished), folder], stdout=subprocess.PIPE, text=True
        )
        while writer.poll() is None:
            run = next(iter(engine._followed.shown.values()), None)
            at = run.reader.at if run is not None else 0
            if not painted or at > painted[-1][0]:
                await asyncio.sleep(BATCHED_S)
                refreshed = asyncio.Event()
                app.call_after_refresh(refreshed.set)
                await refreshed.wait()
                painted.append((at, time.time()))
            await asyncio.sleep(0.001)
        await engine.close()
    assert writer.stdout is not None
    written = [line.split() for line in writer.stdout]
    delays = []
    for number, at_s in ((int(number), float(stamp)) for number, stamp in written):
        shown = next((when for at, when in painted if at >= number), None)
        if shown is not None:
            delays.append(shown - at_s)
    return delays


def main() -> None:
    """Print the delays."""
    with tempfile.TemporaryDirectory() as fixtures, tempfile.TemporaryDirectory() as folder:
        with tarfile.open(FIXTURES) as archive:
            archive.extractall(fixtures, filter="data")
        finished = next(Path(fixtures, "ddp").glob("*rank_0*.log"))
        delays = asyncio.run(measure(finished, folder))
    ninety = quantiles(delays, n=10)[-1]
    print(f"{len(delays)} of {RECORDS} records: median {median(delays) * 1e3:.0f} ms, 90 % {ninety * 1e3:.0f} ms")


if __name__ == "__main__":
    if len(sys.argv) == 3:
        write(*sys.argv[1:])
    else:
        main()
