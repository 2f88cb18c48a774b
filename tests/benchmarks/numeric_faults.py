"""Share of seeded faults whose op, statement and line `tcexplore numerics` finds.

Run `python -m tests.benchmarks.numeric_faults`, with parts of names as arguments to run only those faults.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tcexplore import events as ev
from tcexplore.session import Snapshot
from tests.benchmarks.study_runs import study_runs
from tests.studies.numeric_faults import FAULTS, NumericFault


def misses(fault: NumericFault, run: Snapshot) -> list[str]:
    """Return what was not found."""
    first = run.first_op
    if first is None or first.kind == "differs":
        missing = "; ".join(
            f"{fact.fact}: {fact.reason[:200]}" for fact in run.missing_facts if "numerics" in fact.fact
        )
        return [f"nothing is wrong; {run.failure.message[:200] if run.failure else ''}{missing}"]
    line = first.location.line if first.location else None
    statement = fault.statement in first.statement and bool(first.statement or fault.stage != "kernel")
    return [
        *([f"op {first.op} ({first.node})"] if first.op.rpartition(".")[2] != fault.op else []),
        *([f"line {line} for {fault.line}"] if line != fault.line else []),
        *([f"statement {first.statement!r}"] if not statement else []),
    ]


def model_file(folder: str, number: int, fault: NumericFault) -> Path:
    """Write the model file of a fault."""
    file = Path(folder, f"model{number}.py")
    file.write_text(fault.source)
    return file


async def main(wanted: Sequence[str]) -> None:
    faults = [fault for fault in FAULTS if not wanted or any(part in fault.name for part in wanted)]
    found = 0
    async with study_runs() as (runs, folder):
        for number, fault in enumerate(faults):
            file = model_file(folder, number, fault)
            config = ev.Config(train=fault.train)
            job = ev.Job(
                run=1, file=str(file), source=fault.source, config=config, time_for=0.0, profile=False,
                examine=False, numerics=True,
            )  # fmt: skip
            began = time.perf_counter()
            run = (await runs.run(job, 180)).snapshot
            wrong = misses(fault, run)
            found += not wrong
            mark = "✔" if not wrong else "✖"
            print(f"{mark} {time.perf_counter() - began:5.1f} s  {fault.name}  {'; '.join(wrong)}", flush=True)
    print(f"found: {found} of {len(faults)}")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
