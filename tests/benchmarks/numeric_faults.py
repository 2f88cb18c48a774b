"""Share of seeded faults whose op, statement and line `tcexplore numerics` finds.

Run `python -m tests.benchmarks.numeric_faults`; `study_runs.py` has its options. With `--device cuda` the faults are in
kernels of Triton.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

from tcexplore import events as ev
from tcexplore.session import Snapshot
from tests.benchmarks.study_runs import Outcome, Program, judge, reasons, study_options
from tests.studies.numeric_faults import FAULTS, NumericFault


def misses(fault: NumericFault, run: Snapshot, device: str) -> list[str]:
    """Return what was not found."""
    first = run.first_op
    if first is None or first.kind == "differs":
        return [f"nothing is wrong; {reasons(run)}"]
    line = first.location.line if first.location else None
    statement = fault.statement_on(device) in first.statement and bool(first.statement or fault.stage != "kernel")
    return [
        *([f"op {first.op} ({first.node})"] if first.op.rpartition(".")[2] != fault.op else []),
        *([f"line {line} for {fault.line}"] if line != fault.line else []),
        *([f"statement {first.statement!r}"] if not statement else []),
    ]


def programs(device: str = "cpu") -> Iterator[Program]:
    """Yield the programs with a fault."""
    for number, fault in enumerate(FAULTS):

        def job(folder: Path, fault: NumericFault = fault, number: int = number) -> ev.Job:
            file = folder / f"model{number}.py"
            file.write_text(fault.source)
            config = ev.Config(train=fault.train, device=None if device == "cpu" else device)
            return ev.Job(
                run=1, file=str(file), source=fault.source, config=config, time_for=0.0,
                profile=False, examine=False, numerics=True,
            )  # fmt: skip

        def outcome(run: Snapshot, fault: NumericFault = fault) -> Outcome:
            wrong = misses(fault, run, device)
            return Outcome(not wrong, "missed" if wrong else "found", "; ".join(wrong))

        yield Program(fault.name, job, outcome)


if __name__ == "__main__":
    parser = study_options()
    parser.add_argument("--device", default="cpu", help="device of model and inputs (default: cpu)")
    options = parser.parse_args()
    asyncio.run(judge(programs(options.device), options))
