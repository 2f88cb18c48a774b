"""Fusions that are turned around: the estimate from bytes against the measured call, and the time of the answer.

For each program, the first fusion that Inductor made is kept apart, and the first pair that it refused is fused, or two
kernels that it never compared. The answer is timed from its question, with the run of the file known, as in the app, to
the first interval, or to torch's reason. `--only` names programs, `--rows` sets the size of a tensor: a row has 8 KB.

Run: python -m tests.benchmarks.fusion_choices [--only softmax,…] [--rows 4096] [--device cuda] [--time-for 3]
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

from tcexplore import events as ev
from tcexplore.session import Snapshot
from tcexplore.studies.fusion import STUDY, FusionOptions, FusionTrial, predict, traffic
from tcexplore.studies.runs import Runs
from tcexplore.studies.study import StudyState, run_study
from tests.benchmarks.study_runs import study_runs

LARGE = "LARGE"
ROWS, GPU_ROWS = 4096, 65536
"""Rows of 2,048 floats: 32 MB, more than the caches of most CPUs, and 512 MB: with less, launches decide on a GPU."""

PROGRAMS = {
    "normalize": ("a = (x * 2 + 1).sigmoid(); return a / a.sum(-1, keepdim=True)", (LARGE,)),
    "softmax": ("return (x * 0.5).softmax(-1) * y", (LARGE, LARGE)),
    "layer norm": ("return torch.nn.functional.layer_norm(x + y, (2048,)) * 2", (LARGE, LARGE)),
    "two outputs": ("return x + y, (x * y).sum(-1)", (LARGE, LARGE)),
    "unrelated": ("return x.relu() + 1, y.abs() * 2", (LARGE, LARGE)),
    "unrelated sums": ("return x.sum(-1), (y * 2).amax(-1)", (LARGE, LARGE)),
    "two sums": ("return x.sum(-1), x.amax(-1)", (LARGE,)),
    "sums over both dimensions": ("return x.sum(0), x.sum(1)", (LARGE,)),
    "centered": ("return ((x - x.mean(-1, True)) ** 2).sum(-1) + y[:, 0]", (LARGE, LARGE)),
}

HEAD = "import torch\n\n\ndef model({names}):\n    {body}\n\n\ntorch.manual_seed(0)\ninputs = ({inputs},)\n"


def job_of(folder: str, name: str, config: ev.Config, time_for: float, rows: int) -> ev.Job:
    """Write a program; return its job."""
    body, inputs = PROGRAMS[name]
    device = f", device={config.device!r}" if config.device else ""
    tensor = f"torch.randn({rows}, 2048{device})"
    given = ", ".join(inputs).replace(LARGE, tensor)
    source = HEAD.format(names=", ".join("xyz"[: len(inputs)]), body=body, inputs=given)
    file = Path(folder, f"{name.replace(' ', '_')}.py")
    file.write_text(source)
    return ev.Job(run=1, file=str(file), source=source, config=config, time_for=time_for)


def questions(run: Snapshot) -> Iterator[tuple[str, ...]]:
    """Yield the parts of the first fusion and of the first refusal, or two kernels that were never compared."""
    for fused in (True, False):
        decision = next((one for one in run.code.fusion if one.fused == fused), None)
        if decision is not None:
            yield decision.a, decision.b
    if not run.code.fusion and len(run.code.kernels) > 1:
        first, second, *_ = run.code.kernels
        yield first.name, second.name


State = StudyState[FusionOptions, FusionTrial]


async def ask(runs: Runs, job: ev.Job, own: Snapshot, parts: tuple[str, ...]) -> tuple[State, float]:
    """Return the study of a question, and the seconds until its first answer."""
    state = State(job, FusionOptions(parts), 120.0, own=own)
    began, answered = time.perf_counter(), 0.0

    def note(trial: FusionTrial) -> None:
        nonlocal answered
        if not answered and (trial.timing is not None or trial.applied is False):
            answered = time.perf_counter() - began

    await run_study(STUDY, state, runs, lambda _: None, note)
    return state, answered


def line(state: State) -> tuple[str, bool | None]:
    """Return what is known of a result, and whether its estimate is within a tenth; None if nothing was timed."""
    if not state.results:
        return state.refused or "no result", None
    trial = state.results[-1]
    if trial.timing is None:
        return STUDY.result_line(trial), None
    timing, estimated = trial.timing, predict(trial, traffic(trial)).us
    if estimated is None:
        return f"no estimate; {STUDY.result_line(trial)}", None
    off = estimated[1] / timing.after_us - 1
    return (
        f"estimated {estimated[1]:.0f} µs, measured {timing.after_us:.0f} ({off:+.0%}); {STUDY.result_line(trial)}",
        (abs(off) <= 0.1),
    )


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(PROGRAMS))
    parser.add_argument("--device", default=None)
    parser.add_argument("--time-for", type=float, default=3.0)
    parser.add_argument("--rows", type=int, default=None)
    given = parser.parse_args()
    config = ev.Config(device=given.device, threads=None if given.device else 1)
    rows = given.rows or (GPU_ROWS if given.device else ROWS)
    close: list[bool] = []
    seconds: list[float] = []
    async with study_runs() as (runs, folder):
        for name in given.only:
            job = job_of(folder, name, config, given.time_for, rows)
            run = (await runs.run(job, 120.0)).snapshot
            for parts in questions(run):
                state, answered = await ask(runs, job, run, parts)
                text, near = line(state)
                close += [near] if near is not None else []
                seconds += [answered] if state.results else []
                print(f"{name}, {' '.join(parts)}: {answered:.1f} s; {text}", flush=True)
    print(f"{sum(close)} of {len(close)} estimates within a tenth")
    print(f"answers after {min(seconds):.1f} to {max(seconds):.1f} s")


if __name__ == "__main__":
    asyncio.run(main())
