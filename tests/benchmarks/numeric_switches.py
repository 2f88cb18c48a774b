"""Known reasons why a kernel differs from eager, and whether `tcexplore numerics` names them.

Run `python -m tests.benchmarks.numeric_switches`; `study_runs.py` has its options. A case counts if the first kernel
that differs is bitwise equal with exactly the expected changes.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tcexplore import events as ev
from tcexplore.session import Snapshot
from tests.benchmarks.study_runs import Outcome, Program, judge, reasons

PROGRAM = """
import torch
from torch._inductor import config

{setup}


def model(x, w):
    {body}


torch.manual_seed(0)
inputs = (torch.randn(64, 256, dtype=torch.{dtype}), torch.randn(256, dtype=torch.{dtype}))
"""

CASTS = "intermediates rounded as in eager"
ORDER = "eager's order of summation"
FUNCTIONS = "eager's functions"
ADD = "eager's functions: add"
"""Eager rounds a number that is added to a tensor of float16 or bfloat16 to this dtype; generated code does not."""

SQRT = "eager's functions: sqrt"
"""Eager's square root is off by a unit in the last place at times; that of generated code is rounded right."""

CONTRACT = "no fused multiply-add"
UNSAFE = "no unsafe math optimizations"


class DifferenceCase(NamedTuple):
    """A program whose kernel differs from eager for known reasons."""

    name: str
    body: str
    changes: tuple[str, ...]
    """Beginnings of the changes that are right."""
    dtype: str = "float32"
    setup: str = ""

    @property
    def source(self) -> str:
        return PROGRAM.format(body=self.body, dtype=self.dtype, setup=self.setup)


FAST = 'config.cpp.enable_floating_point_contract_flag = "fast"'

CASES = (
    DifferenceCase("products in bfloat16", "return (x * w + 0.3) * (x - w) * 1.7", (CASTS, ADD), "bfloat16"),
    DifferenceCase("products in float16", "return (x * w + 0.3) * (x - w) * 1.7", (CASTS, ADD), "float16"),
    DifferenceCase("relu and a scale in bfloat16", "return torch.relu(x * 0.3 + w) / 3", (CASTS,), "bfloat16"),
    DifferenceCase("square roots in bfloat16", "return ((x * x + 1).sqrt() * w).abs()", (CASTS,), "bfloat16"),
    DifferenceCase("a maximum in float16", "return torch.maximum(x * w, x + w) * 0.1 - w", (CASTS,), "float16"),
    DifferenceCase("a sum over rows", "return (x * w).sum(-1)", (ORDER,)),
    DifferenceCase("a sum of all", "return (x * x).sum()", (ORDER,)),
    DifferenceCase("a mean", "return (x + w).mean(-1)", (ORDER,)),
    DifferenceCase("a sum over columns", "return (x * w).sum(0)", (ORDER,)),
    DifferenceCase("a sum of squares", "return (x * x).sum(-1).sqrt()", (ORDER, SQRT)),
    DifferenceCase("exp", "return torch.exp(x) + 1", (FUNCTIONS,)),
    DifferenceCase("the error function", "return torch.erf(x) * w", (FUNCTIONS,)),
    DifferenceCase("tanh", "return torch.tanh(x) * w", (FUNCTIONS,)),
    DifferenceCase("a fused multiply-add", "return x * w + x", (CONTRACT,), setup=FAST),
    DifferenceCase("a fused multiply-add after a difference", "return (x - w) * w + x * x", (CONTRACT,), setup=FAST),
    DifferenceCase(
        "rms norm in bfloat16",
        "return (x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-5)).to(x.dtype) * w",
        (CASTS, ORDER), "bfloat16",
    ),
    DifferenceCase("tanh in bfloat16", "return torch.tanh(x * 0.3) * w", (CASTS,), "bfloat16"),
    DifferenceCase("softmax in bfloat16", "return torch.softmax(x * w, -1) * 2", (CASTS, ORDER, FUNCTIONS), "bfloat16"),
    DifferenceCase("gelu in bfloat16", "return torch.nn.functional.gelu(x * w) * 2", (CASTS, FUNCTIONS), "bfloat16"),
    DifferenceCase(
        "layer norm in bfloat16", "return torch.nn.functional.layer_norm(x + w, (256,)) * 2", (CASTS, ORDER), "bfloat16"
    ),
    DifferenceCase("silu in bfloat16", "return torch.nn.functional.silu(x) * w", (CASTS, FUNCTIONS), "bfloat16"),
)  # fmt: skip


def explanation(case: DifferenceCase, run: Snapshot) -> Outcome:
    """Return whether the changes that give eager's bits are among those expected, and what was tried."""
    if run.numerics is None:
        return Outcome(False, "not judged", reasons(run))
    if run.numerics.verdict == "bitwise equal":
        return Outcome(False, "bitwise equal already")
    tried = [f"{one.name} ({one.differing})" for one in run.switches_tried]
    equal = [one for one in run.switches_tried if one.equal]
    if not equal:
        return Outcome(False, "not explained", f"{run.numerics.verdict}; {tried}; {reasons(run)}")
    parts = equal[-1].name.split("; ")
    right = all(part.startswith(case.changes) for part in parts)
    return Outcome(right, "explained" if right else "other changes", f"{parts}; tried {tried}")


def programs() -> Iterator[Program]:
    """Yield the cases."""
    for number, case in enumerate(CASES):

        def job(folder: Path, case: DifferenceCase = case, number: int = number) -> ev.Job:
            file = folder / f"case{number}.py"
            file.write_text(case.source)
            return ev.Job(
                run=1, file=str(file), source=case.source, time_for=0.0, profile=False, examine=False, numerics=True
            )  # fmt: skip

        yield Program(case.name, job, functools.partial(explanation, case))


if __name__ == "__main__":
    asyncio.run(judge(programs()))
