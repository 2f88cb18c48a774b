"""A runner that answers each job with a story, as a supervisor would from its processes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace

from tcexplore import events as ev

Story = Callable[[ev.Job], Sequence[ev.Event]]

MACHINE = ev.Standby(
    torch="2.13.0", python="3.11.7", device="cpu", seconds=1.0, modes=("default", "max-autotune"),
    backends=("aot_eager", "cudagraphs", "eager", "inductor"),
)  # fmt: skip


class Playback:
    """`story` is asked for the events of each job; a job whose story has no end is never over."""

    def __init__(self, emit: Callable[[ev.Event], None], story: Story) -> None:
        self.emit = emit
        self.story = story
        self.jobs: list[ev.Job] = []
        self.closed = 0

    async def start(self) -> None:
        self.emit(MACHINE)

    def submit(self, job: ev.Job) -> None:
        self.jobs.append(job)
        for event in self.story(job):
            asyncio.get_running_loop().call_soon(self.emit, replace(event, run=job.run))

    async def close(self) -> None:
        self.closed += 1


def timed(speedup: float, eager_us: float = 100.0, verdict: str = "") -> ev.TimingEstimate:
    """A verdict with an interval of a hundredth either way."""
    said = verdict or ("faster" if speedup > 1.05 else "slower" if speedup < 0.95 else "no difference")
    return ev.TimingEstimate(
        eager_us=eager_us, eager_spread_us=1.0, compiled_us=eager_us / speedup, compiled_spread_us=1.0,
        speedup=speedup, low=speedup - 0.01, high=speedup + 0.01, noise_floor=0.01, pairs=15, verdict=said,
        threads=2, device="cpu",
    )  # fmt: skip


def failed(message: str = "lowering failed") -> ev.Failed:
    return ev.Failed(stage="inductor", blame="compiler", type="InductorError", message=message)


JOB = ev.Job(run=1, file="/tmp/model.py", source="import torch\n")
