"""Seeded cache misses: the part of the key and the line that are named, against those that were changed.

    python -m tests.benchmarks.cache_misses [--only KIND] [--trace]

Each program runs twice with the same caches, the second time with one statement changed, so that the second run misses.
Right is an explanation whose first part is the one that the change concerns, and whose line is the changed one. With
`--trace`, the explanation is that of two TORCH_TRACEs. The code is generated, but not compiled. Takes two minutes.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from tcexplore import events as ev
from tcexplore.cli.open_command import read_trace
from tcexplore.cli.options import TraceChoice
from tcexplore.session import Snapshot
from tcexplore.session.cache_misses import cache_misses
from tcexplore.studies.runs import Runs
from tests.benchmarks.study_runs import study_runs

SCRIPT = """\
import contextlib
import torch
import torch.nn.functional as F
from torch._inductor.custom_graph_pass import CustomGraphPass


class Pass(CustomGraphPass):
    def __init__(self, name):
        self.name = name

    def __call__(self, graph):
        pass

    def uuid(self):
        return self.name


torch._inductor.config.fx_graph_cache = True
torch._functorch.config.enable_autograd_cache = True
torch._inductor.config.max_fusion_size = 64
torch._inductor.config.post_grad_custom_post_pass = Pass("first")
torch._functorch.config.activation_memory_budget = 1.0
torch.compiler.config.cache_key_tag = "first"
torch.use_deterministic_algorithms(False)
torch.set_float32_matmul_precision("highest")
torch.set_num_threads(1)
torch.manual_seed(0)
WIDTH = 32


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up = torch.nn.Linear(16, WIDTH)
        self.down = torch.nn.Linear(WIDTH, 16)

    def forward(self, x):
        y = F.relu(self.up(x.float()))
        y = y * 1.5
        y = y + torch.tensor([2.0])
        return self.down(y)


model = Model()
x = torch.randn(8, 16)
torch.set_default_dtype(torch.float32)
compiled = torch.compile(model, dynamic=False)
with contextlib.ExitStack() as stack:
    stack.enter_context(torch.set_grad_enabled(False))
    stack.enter_context(torch._inductor.config.patch(size_asserts=True))
    stack.enter_context(torch.autocast("cpu", dtype=torch.bfloat16, enabled=False))
    compiled(x)
"""

AGAIN = """\
    compiled(torch.randn(24, 16))
"""
RESET = """\
    torch._dynamo.reset()
    torch._inductor.config.max_fusion_size = 48
    compiled(x)
"""


class Kind(NamedTuple):
    """One change. `before` and `after` are statements of the program."""

    name: str
    before: str
    after: str
    part: str
    """Parts of the key that the change concerns, as a regular expression."""


KINDS = (
    Kind("another op", "y = F.relu(self.up(x.float()))", "y = F.gelu(self.up(x.float()))", "gm"),
    Kind("another constant", "y = y * 1.5", "y = y * 2.5", "gm"),
    Kind("another tensor constant", "y = y + torch.tensor([2.0])", "y = y + torch.tensor([3.0])", "gm"),
    Kind("an op more", "return self.down(y)", "return self.down(y).sin()", "gm"),
    Kind("another batch size", "x = torch.randn(8, 16)", "x = torch.randn(9, 16)", r"example_inputs\[\d+\]"),
    Kind("another dtype", "x = torch.randn(8, 16)", "x = torch.randn(8, 16).double()", r"example_inputs\[\d+\]"),
    Kind("another stride", "x = torch.randn(8, 16)", "x = torch.randn(16, 8).t()", r"example_inputs\[\d+\]"),
    Kind("another width of a layer", "WIDTH = 32", "WIDTH = 48", r"example_inputs\[\d+\]"),
    Kind("dynamic sizes", "compiled = torch.compile(model, dynamic=False)",
         "compiled = torch.compile(model, dynamic=True)", r"example_inputs\[\d+\]"),
    Kind("a setting of Inductor", "torch._inductor.config.max_fusion_size = 64",
         "torch._inductor.config.max_fusion_size = 32", r"inductor_config\[max_fusion_size\]"),
    Kind("config.patch", "stack.enter_context(torch._inductor.config.patch(size_asserts=True))",
         "stack.enter_context(torch._inductor.config.patch(size_asserts=False))", r"inductor_config\[size_asserts\]"),
    Kind("options of torch.compile", "compiled = torch.compile(model, dynamic=False)",
         'compiled = torch.compile(model, dynamic=False, options={"epilogue_fusion": False})',
         r"inductor_config\[epilogue_fusion\]"),
    Kind("mode of torch.compile", "compiled = torch.compile(model, dynamic=False)",
         'compiled = torch.compile(model, dynamic=False, mode="max-autotune-no-cudagraphs")',
         r"inductor_config\[(max_autotune|coordinate_descent_tuning)\]"),
    Kind("a custom pass", 'torch._inductor.config.post_grad_custom_post_pass = Pass("first")',
         'torch._inductor.config.post_grad_custom_post_pass = Pass("second")', "post_grad_custom_post_pass"),
    Kind("a setting of AOTAutograd", "torch._functorch.config.activation_memory_budget = 1.0",
         "torch._functorch.config.activation_memory_budget = 0.5", r"functorch_config\[activation_memory_budget\]"),
    Kind("cache_key_tag", 'torch.compiler.config.cache_key_tag = "first"',
         'torch.compiler.config.cache_key_tag = "second"', "cache_key_tag"),
    Kind("deterministic algorithms", "torch.use_deterministic_algorithms(False)",
         "torch.use_deterministic_algorithms(True)", "deterministic_algorithms(_settings)?"),
    Kind("precision of matmul", 'torch.set_float32_matmul_precision("highest")',
         'torch.set_float32_matmul_precision("medium")', "cuda_matmul_settings"),
    Kind("threads", "torch.set_num_threads(1)", "torch.set_num_threads(2)",
         r"cpp_runtime_thread_count|inductor_config\[cpp.threads\]"),
    Kind("default dtype", "torch.set_default_dtype(torch.float32)", "torch.set_default_dtype(torch.float64)",
         "default_dtype"),
    Kind("gradients on", "stack.enter_context(torch.set_grad_enabled(False))",
         "stack.enter_context(torch.set_grad_enabled(True))", r"grad_enabled|fx_kwargs\[is_inference\]"),
    Kind("autocast", 'stack.enter_context(torch.autocast("cpu", dtype=torch.bfloat16, enabled=False))',
         'stack.enter_context(torch.autocast("cpu", dtype=torch.bfloat16, enabled=True))', r"autocast_state.*"),
    Kind("another size in the same run", "", AGAIN, r"example_inputs\[\d+\]"),
    Kind("a setting in the same run", "", RESET, r"inductor_config\[max_fusion_size\]"),
)  # fmt: skip


def changed(kind: Kind) -> tuple[str, int]:
    """Return the changed program, and the number of the changed line."""
    if not kind.before:
        line = next(line for line in kind.after.split("\n") if "config" in line or "randn" in line)
        return SCRIPT + kind.after, (SCRIPT + kind.after).split("\n").index(line) + 1
    lines = SCRIPT.split("\n")
    (number,) = (n for n, line in enumerate(lines) if line.strip() == kind.before)
    indent = lines[number][: len(lines[number]) - len(lines[number].lstrip())]
    lines[number] = indent + kind.after
    return "\n".join(lines), number + 1


class Traced:
    """Runs programs by themselves, with TORCH_TRACE."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)
        self._count = 0

    async def run(self, source: str, caches: str) -> Snapshot:
        self._count += 1
        file, trace = self._folder / f"program{self._count}.py", self._folder / f"trace{self._count}"
        file.write_text(source)
        variables = {**os.environ, "TORCH_TRACE": str(trace), "TORCHINDUCTOR_CACHE_DIR": caches}
        command = [sys.executable, str(file)]
        # A changed default dtype fails in the call, after it compiled.
        await asyncio.to_thread(subprocess.run, command, env=variables, stderr=subprocess.DEVNULL)
        return read_trace(TraceChoice((str(trace),))).snapshot


class Live:
    """Runs programs in tcexplore's workers."""

    def __init__(self, runs: Runs, folder: str) -> None:
        self._runs = runs
        self._file = str(Path(folder, "program.py"))

    async def run(self, source: str, caches: str) -> Snapshot:
        config = ev.Config(no_eager_steps=True, no_captured_calls=True)
        job = ev.Job(
            run=1, file=self._file, source=source, config=config, caches=caches, time_for=0.0, examine=False,
            structure_only=True,
        )  # fmt: skip
        return (await self._runs.run(job, 120.0)).snapshot


def judge(kind: Kind, run: Snapshot, before: Snapshot | None) -> bool:
    """Print whether the explanation of a run names the right part and line."""
    misses = cache_misses(run, *([before] if before is not None else ()))
    named = [miss.differences[0] for miss in misses if miss.differences]
    line = changed(kind)[1]
    parts = [one.part for one in named]
    lines = [one.location.line if one.location is not None else None for one in named]
    right = bool(named) and all(re.fullmatch(kind.part, part) for part in parts) and set(lines) == {line}
    text = "right" if right else f"WRONG: {parts or run.failure or 'no miss'} line {lines}, not {kind.part} line {line}"
    print(f"{kind.name:28} {text}", flush=True)
    return right


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="kinds whose names contain this")
    parser.add_argument("--trace", action="store_true", help="explain TORCH_TRACEs instead of live runs")
    given = parser.parse_args()
    kinds = [kind for kind in KINDS if not given.only or given.only in kind.name]
    async with study_runs() as (runs, folder):
        runner = Traced(folder) if given.trace else Live(runs, folder)
        with tempfile.TemporaryDirectory() as caches:
            base = await runner.run(SCRIPT, caches)
            right = 0
            for kind in kinds:
                run = await runner.run(changed(kind)[0], caches)
                right += judge(kind, run, base if kind.before else None)
    print(f"{right} of {len(kinds)} kinds: part and line named right; load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    asyncio.run(main())
