"""Headlines of jobs that hang: `python -m tests.benchmarks.rank_hangs [NAME…] [--nccl]`. It needs py-spy.

Each job has real Gloo ranks, or NCCL ranks on two GPUs, of which rank 1 hangs in one way. It is followed as in the app;
within 15 s after the hang began, the headline of the main screen must name rank 1, what it does, its line, and the line
of the collective in which the others wait. The reason of an exception, which ends the job, is in the row below.

In other jobs, rank 1 is only late: no headline of these may name a difference until the job has ended.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tcexplore import events as ev
from tcexplore.documents.rank_alert import alert_row, newest_comparison
from tcexplore.documents.strip import verdict_row
from tcexplore.session import Session
from tcexplore.traced_job import TracedJob
from tcexplore.traces.collective_records import recorder_variables
from tcexplore.traces.followed_trace import FollowedTrace
from tcexplore.ui.follow_engine import FollowEngine

PROGRAM = Path(__file__).parents[1] / "traces" / "programs" / "hangs.py"

LIMIT_S = 15.0
START_S = 120.0
"""Seconds within which a job must begin to hang, or end if a rank is only late."""

AFTER_END_S = 6.0
"""Seconds after the end of a job in which its headline may still change."""


class HangSeed(NamedTuple):
    """A job that hangs, and what its headline must say of rank 1."""

    name: str
    ranks: int
    says: str
    reached: bool = True
    """Whether the others are said to wait at the line of the collective."""
    late_s: float = 0.0
    """Seconds after which rank 1 goes on as the others did."""
    on_gpu: bool = False


SEEDS = (
    HangSeed("collective", 2, "waits in `broadcast"),
    HangSeed("collective", 4, "waits in `broadcast"),
    HangSeed("barrier", 2, "waits in `barrier`"),
    HangSeed("groups", 2, "all ranks wait in `all_reduce"),
    HangSeed("loading", 2, "it waits"),
    HangSeed("loading", 4, "it waits"),
    HangSeed("dataloader", 2, "it waits"),
    HangSeed("lock", 2, "it waits"),
    HangSeed("socket", 2, "it waits"),
    HangSeed("sleep", 2, "it waits"),
    HangSeed("loop", 2, "it runs"),
    HangSeed("stopped", 4, "it is stopped"),
    HangSeed("compile", 2, "it compiles"),
    HangSeed("autotuning", 2, "it compiles"),
    HangSeed("exception", 2, "ValueError: the loss is not finite", reached=False),
    HangSeed("sleep", 2, "", late_s=20),
    HangSeed("loop", 2, "", late_s=20),
    HangSeed("compile", 2, "", late_s=20),
    HangSeed("autotuning", 2, "", late_s=20),
)


def line_ending(comment: str) -> int:
    """Return the line of the program that ends with a comment, 0 if there is none."""
    lines = PROGRAM.read_text().split("\n")
    return next((number for number, line in enumerate(lines, 1) if line.endswith(f"# {comment}")), 0)


def lacks(headline: str, seed: HangSeed) -> list[str]:
    """Return what the headline of a hang does not say.

    It is a warning at first if a process still works, as one does that waits for a GPU.
    """
    own, reached = line_ending(f"hang: {seed.name}"), line_ending("reached")
    works = "it compiles" in headline or "it runs" in headline or (seed.on_gpu and "has not reached" not in headline)
    wanted = ["✖ " if not works or not seed.reached else "◐ ", seed.says]
    wanted += [] if seed.name == "groups" else ["rank 1"]
    wanted += [f"line {own}"] if own else []
    wanted += [f"line {reached}"] if seed.reached else []
    return [text for text in wanted if text not in headline]


class Job:
    """The ranks of a job that runs."""

    def __init__(self, seed: HangSeed, folder: Path) -> None:
        self.trace = folder / "trace"
        self.trace.mkdir()
        self.began = folder / "began"
        self.launched: TracedJob | None = None
        self._ranks: list[subprocess.Popen[bytes]] = []
        with socket.create_server(("localhost", 0)) as free:
            port = free.getsockname()[1]
        variables = {
            "TORCH_TRACE": str(self.trace), "HANG_BEGAN": str(self.began), "WORLD_SIZE": str(seed.ranks),
            "MASTER_ADDR": "localhost", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1",
            # A choice that an earlier job measured would be taken from its cache: nothing would hang.
            "TORCHINDUCTOR_CACHE_DIR": str(folder / "cache"),
            "TORCHINDUCTOR_COMPILE_THREADS": "1", "HANG_S": str(seed.late_s),
            "HANG_BACKEND": "nccl" if seed.on_gpu else "gloo", **recorder_variables(str(self.trace), {}),
        }  # fmt: skip
        program = [str(PROGRAM), "--hang", seed.name]
        if not seed.reached:  # its launcher ends the other ranks
            os.environ.update(variables)
            run = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(seed.ranks), "--master-port"]
            self.launched = TracedJob([*run, str(port), *program], str(self.trace))
            self.launched.start(capture=True)
            return
        for rank in range(seed.ranks):
            environment = {**os.environ, **variables, "RANK": str(rank), "LOCAL_RANK": str(rank)}
            self._ranks.append(
                subprocess.Popen([sys.executable, *program], env=environment, start_new_session=True,
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            )  # fmt: skip

    @property
    def over(self) -> bool:
        return all(process.poll() is not None for process in self._ranks)

    def end(self) -> None:
        if self.launched is not None:
            self.launched.end()
        for process in self._ranks:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


async def headline_of(seed: HangSeed, job: Job) -> tuple[str, float]:
    """Return the headline that is right, or the last one after the limit, and its seconds after the hang began."""
    session = Session()

    def deliver(item: ev.Job | ev.Event) -> None:
        nonlocal session
        session = session.begin(item) if isinstance(item, ev.Job) else session.apply(item)

    engine = FollowEngine(FollowedTrace([str(job.trace)]), None, job.launched)
    await engine.start(deliver)
    started, hung, headline = time.monotonic(), 0.0, ""
    try:
        while time.monotonic() < (hung + LIMIT_S if hung else started + START_S):
            await asyncio.sleep(0.2)
            hung = hung or (time.monotonic() if job.began.exists() else 0.0)
            if session.shown is not None:
                headline = f"{verdict_row(session, 400).text}  {alert_row(session).text}"
            if hung and not lacks(headline, seed):
                break
        return headline, time.monotonic() - hung if hung else -1.0
    finally:
        await engine.close()


async def differences_of(job: Job) -> list[str]:
    """Return the headlines of differences that are shown until some seconds after the end of a job."""
    session, headlines = Session(), []

    def deliver(item: ev.Job | ev.Event) -> None:
        nonlocal session
        session = session.begin(item) if isinstance(item, ev.Job) else session.apply(item)

    engine = FollowEngine(FollowedTrace([str(job.trace)]), None)
    await engine.start(deliver)
    began, ended = time.monotonic(), 0.0
    try:
        while time.monotonic() < (ended + AFTER_END_S if ended else began + START_S):
            await asyncio.sleep(0.1)
            ended = ended or (time.monotonic() if job.over else 0.0)
            comparison = newest_comparison(session, session.shown)
            if comparison is not None and comparison.divergence is not None:
                headline = f"{comparison.divergence.kind} {comparison.divergence.compile_id}"
                headlines += [headline] if headline not in headlines else []
    finally:
        await engine.close()
    return headlines if ended else [*headlines, "the job did not end"]


def judge(seed: HangSeed, job: Job) -> tuple[str, bool]:
    """Return what a job showed, and whether that is right."""
    if seed.late_s:
        differences = asyncio.run(differences_of(job))
        return f"late by {seed.late_s:g} s: {differences or 'no difference'}", not differences
    headline, seconds = asyncio.run(headline_of(seed, job))
    missing = lacks(headline, seed)
    return f"{headline[:200]}: " + (f"after {seconds:.1f} s" if not missing else f"without {missing}"), not missing


def main() -> None:
    """Print each headline, and how many are right."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.rank_hangs")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--nccl", action="store_true")
    given = parser.parse_args()
    seeds = [seed for seed in SEEDS if not given.names or seed.name in given.names]
    if given.nccl:
        seeds = list(dict.fromkeys(seed._replace(ranks=2, on_gpu=True) for seed in seeds))
    right = 0
    for seed in seeds:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            job = Job(seed, Path(folder))
            try:
                shown, holds = judge(seed, job)
            finally:
                job.end()
        right += holds
        print(f"{seed.name} on {seed.ranks} ranks: {shown}: {'ok' if holds else 'WRONG'}", flush=True)
    print(f"{right} of {len(seeds)} headlines right")


if __name__ == "__main__":
    main()
