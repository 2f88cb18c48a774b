"""The shipped samples for every target of the table, each kernel down to SASS or AMDGCN: how many, and what was lost.

One run of a sample is switched from target to target, as `T` does; a sample that is a script is run for each of them.

python -m tests.benchmarks.targets_samples [SAMPLE ...]
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path

from tcexplore.events import (
    Config,
    Event,
    GraphCaptured,
    Job,
)
from tcexplore.events.commands import Retarget
from tcexplore.session import Snapshot
from tcexplore.session.snapshot import start_snapshot
from tcexplore.supervisor import Supervisor
from tcexplore.targets.device_table import Target, all_targets

SAMPLES = Path(__file__).parents[2] / "samples"
PATIENCE_S = 600


class Sample:
    """One sample's run, and its snapshot as it grows."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.supervisor = Supervisor(self._receive)
        self.snapshot: Snapshot | None = None
        self.traces = 0
        self._news = asyncio.Event()
        self._runs = 0

    def _receive(self, event: Event) -> None:
        if self.snapshot is not None:
            self.snapshot = self.snapshot.apply(event)
            self.traces += isinstance(event, GraphCaptured) and event.run == self.snapshot.run
        self._news.set()

    async def code(self, target: Target) -> Snapshot:
        """The run with its code for `target`, made by the run that is alive or by a new one."""
        if self.snapshot is None or not self.supervisor.send(Retarget(target=target.reference)):
            await self._run(Config(target=target.reference))
        await self._until(lambda s: s.status != "running" or (s.has_code(target.key) and s.phase == "timing"))
        assert self.snapshot is not None
        return self.snapshot.with_target(target.key)

    async def _run(self, config: Config) -> None:
        self._runs += 1
        job = Job(run=self._runs, file=str(self.file), source=self.file.read_text(), config=config, examine=False,
                  retargetable=True)  # fmt: skip
        self.snapshot = start_snapshot(job)
        self.supervisor.submit(job)
        await self._until(lambda s: s.status != "running" or s.phase == "timing")

    async def _until(self, holds: Callable[[Snapshot], bool]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while self.snapshot is None or not holds(self.snapshot):
                self._news.clear()
                await self._news.wait()


def told(snapshot: Snapshot, target: Target) -> tuple[int, int, list[str]]:
    """Triton kernels that came down to machine code, all of them, and a sentence for each thing that was lost."""
    last = "amdgcn" if target.backend == "hip" else "sass"
    wanted = [kernel for kernel in snapshot.code.kernels if kernel.language == "triton"]
    made = {
        (e.graph, e.phase, e.kernel)
        for e in snapshot.code.assembled
        if e.stages[-1].name == last and e.stages[-1].lines
    }
    lost = [f"graph {e.graph} at {e.op or 'no op that is named'}: {e.reason}" for e in snapshot.code.not_lowered]
    lost += [f"{e.kernel}: {e.reason}" for e in snapshot.code.not_assembled]
    lost += [f"the run: {snapshot.failure.message}"] if snapshot.failure else []
    return sum((k.graph, k.phase, k.name) in made for k in wanted), len(wanted), lost


async def main() -> int:
    files = sorted(SAMPLES.glob("*.py"))
    chosen = [file for file in files if file.stem in sys.argv[1:] or not sys.argv[1:]]
    table, losses, all_made, all_wanted = list(all_targets().values()), [], 0, 0
    print(f"{'sample':20}", *(f"{target.key:>9}" for target in table), "  graphs traced", flush=True)
    for file in chosen:
        sample, cells = Sample(file), []
        await sample.supervisor.start()
        try:
            for target in table:
                made, wanted, lost = told(await sample.code(target), target)
                cells.append(f"{made}/{wanted}" if wanted or lost else "none")
                losses += [f"{file.stem} for {target.key}: {sentence}" for sentence in lost]
                all_made, all_wanted = all_made + made, all_wanted + wanted
        finally:
            await sample.supervisor.close()
        print(f"{file.stem:20}", *(f"{cell:>9}" for cell in cells), f"  {sample.traces}", flush=True)
    print(f"{all_made} of {all_wanted} kernels down to machine code", *losses, sep="\n   ")
    return int(all_made < all_wanted or bool(losses))


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
