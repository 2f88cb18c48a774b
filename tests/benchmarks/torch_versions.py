"""Ten models with two versions of torch: the share of the difference of time whose cause is named.

Each model runs in both environments, timed and profiled, and settings that differ are tried, as `tcexplore diff` does.
Only differences beyond the intervals of both profiles count. What rests on exclusion is printed apart: equal code that
takes another time with another torch.

Run: python -m tests.benchmarks.torch_versions PYTHON_A PYTHON_B [--only mlp,…] [--time-for 2]
"""

from __future__ import annotations

import argparse
import asyncio
import os
from collections import Counter
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from tcexplore import events as ev
from tcexplore.cli.run_once import run_once
from tcexplore.environments import named_python
from tcexplore.model_python import ModelPython
from tcexplore.session import Snapshot
from tcexplore.session.run_difference import RunDifference, run_difference
from tcexplore.studies.setting_trials import try_settings

LIMIT_S = 300.0

SAMPLES = Path(__file__).parents[2] / "samples"
FROM_SAMPLES = ("attention", "conv_bn", "fusion", "mlp", "transformer_block")

BODIES = {
    "softmax": ("return (x * 0.5).softmax(-1) + x.mean(-1, True)", "torch.randn(512, 2048)"),
    "gelu": ("return torch.nn.functional.gelu(x).sum(0), torch.nn.functional.silu(x)", "torch.randn(1024, 1024)"),
    "variance": ("return (x - x.mean(-1, True)) / (x.var(-1, keepdim=True) + 1e-5).sqrt()", "torch.randn(512, 2048)"),
    "gather": ("return x[torch.arange(0, 1024, 2)].cumsum(-1) + x.argmax(-1, True)[:512]", "torch.randn(1024, 1024)"),
    "products": ("return torch.bmm(x, x.transpose(1, 2)).relu().sum(-1)", "torch.randn(16, 128, 256)"),
}
TEXT = "import torch\n\n\ndef model(x):\n    {body}\n\n\ntorch.manual_seed(0)\ninputs = ({inputs},)\n"


def files(folder: str) -> dict[str, Path]:
    """Return the model files by name."""
    known = {name: SAMPLES / f"{name}.py" for name in FROM_SAMPLES}
    for name, (body, inputs) in BODIES.items():
        known[name] = Path(folder, f"{name}.py")
        known[name].write_text(TEXT.format(body=body, inputs=inputs))
    return known


async def compare(
    file: Path, source: str, pythons: tuple[ModelPython, ModelPython], time_for: float
) -> RunDifference | str:
    """Return the difference of both environments, or why there is none."""
    job = ev.Job(run=1, file=str(file), source=source, time_for=time_for, examine=False, timing_processes=0)
    runs = [(await run_once(job, LIMIT_S, None, python)).snapshot for python in pythons]
    for run, python in zip(runs, pythons, strict=True):
        if run.failure is not None:
            return f"torch {python.torch}: {run.failure.type}: {run.failure.message}"
        if run.call_account is None:
            return f"torch {python.torch}: not profiled: {run.timing_skipped} {run.missing_facts}"

    async def compile_with(config: ev.Config) -> Snapshot:
        trial = replace(job, config=config, time_for=0.0, structure_only=True)
        return (await run_once(trial, LIMIT_S, None, pythons[1])).snapshot

    result = run_difference(*runs)
    async for tried in try_settings(result, compile_with):
        result = tried
    return result


def report(name: str, difference: RunDifference) -> tuple[float, float, float]:
    """Print the difference of a model; return the time that differs, is attributed, and is so by exclusion, in µs."""
    total = difference.total_us or (0.0, 0.0)
    real = [part for part in difference.parts if part.us and not part.is_noise]
    whole = sum(abs(part.us or 0) for part in real)
    known, excluded = difference.attributed_share or 0.0, difference.excluded_share or 0.0
    print(f"{name}: {total[0]:,.0f} → {total[1]:,.0f} µs; {whole:,.0f} µs differ, {known:.0%} attributed, "
          f"{excluded:.0%} by exclusion", flush=True)  # fmt: skip
    for part in [part for part in difference.parts if part in real or part in difference.changed][:6]:
        cause = part.cause
        text = f"{cause.kind} ({cause.basis}) · {cause.text}" if cause else "NO CAUSE"
        text += f" · through {cause.through.text}" if cause and cause.through else ""
        print(f"    {part.us or 0:+,.0f} µs{' (noise)' if part.is_noise else ''}  {part.name[:70]}: {text}")
    return whole, whole * known, whole * excluded


async def main(pythons: tuple[ModelPython, ModelPython], only: list[str], time_for: float) -> None:
    whole = known = excluded = 0.0
    shares: list[float] = []
    causes: Counter[str] = Counter()
    with TemporaryDirectory() as folder:
        known_files = files(folder)
        sources = {name: file.read_text() for name, file in known_files.items()}
        for name, file in known_files.items():
            if only and name not in only:
                continue
            difference = await compare(file, sources[name], pythons, time_for)
            if isinstance(difference, str):
                print(f"{name}: {difference}")
                continue
            differs, attributed, by_exclusion = report(name, difference)
            whole, known, excluded = whole + differs, known + attributed, excluded + by_exclusion
            if differs:
                shares.append(attributed / differs)
            causes.update(part.cause.kind for part in difference.parts if part.cause and part.us and not part.is_noise)
    print(f"torch {pythons[0].torch} → {pythons[1].torch}: load {os.getloadavg()[0]:.1f}")
    if whole:
        print(f"attributed: {known / whole:.0%} of the time that differs, {excluded / whole:.0%} by exclusion only; "
              f"least share of a model {min(shares):.0%}; causes {dict(causes)}")  # fmt: skip


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pythons", nargs=2)
    parser.add_argument("--only", default="")
    parser.add_argument("--time-for", type=float, default=2.0)
    given = parser.parse_args()
    first, second = (named_python(path) for path in given.pythons)
    asyncio.run(main((first, second), [name for name in given.only.split(",") if name], given.time_for))
