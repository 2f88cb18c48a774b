"""Kernels of every language on 20 programs: which are opaque, without source, op, line or the name of their language.

Programs that a CPU can compile run in the given environment, best with torch 2.15, `jax` for Pallas and `ninja` for
extensions. Triton kernels are lowered for a GPU that is not present. For the languages that need a GPU to generate
anything (CuTe DSL, FlyDSL, NVGEMM, CUDA, ROCm, Metal, Halide), modules in the form of torch's code generators are read
as `tcexplore open` reads them; a line needs the graph records of a trace, so these are judged by source, op and nodes.

Run: python -m tests.benchmarks.kernel_languages [--python PYTHON] [--only NAME;…] [--timed]
"""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from tcexplore import events as ev
from tcexplore.cli.run_once import run_once
from tcexplore.environments import named_python
from tcexplore.model_python import OWN_PYTHON, ModelPython
from tcexplore.session import Snapshot
from tcexplore.session.kernel_facts import measured_time
from tcexplore.targets.target_names import NATIVE
from tcexplore.traces.kernel_records import read_wrapper
from tests.traces.generated_modules import MODULES, OLD_METAL, Module, written

LIMIT_S = 240.0


class Program(NamedTuple):
    """A program that is compiled."""

    body: str
    """Body of the model, of `x`."""
    head: str = ""
    inputs: str = "torch.randn(64, 128)"
    target: str = NATIVE
    expected: str = ""
    """Language, or kind of the user's op, of one of its kernels."""


PALLAS = 'import torch._inductor.config\ntorch._inductor.config.cpu_backend = "pallas"\n'

INLINE = """
from torch.utils.cpp_extension import load_inline
SOURCE = "#include <torch/extension.h>\\ntorch::Tensor doubled(torch::Tensor x) { return x * 2; }"
extension = load_inline("doubling", cpp_sources=SOURCE, functions=["doubled"])

@torch.library.custom_op("mylib::doubled", mutates_args=())
def doubled(x: torch.Tensor) -> torch.Tensor:
    return extension.doubled(x)

@doubled.register_fake
def _(x):
    return torch.empty_like(x)
"""

LIBRARY = """
from torch.utils.cpp_extension import load_inline
SOURCE = '''#include <torch/library.h>
at::Tensor tripled(const at::Tensor& x) { return x * 3; }
TORCH_LIBRARY(tripling, m) { m.def("tripled(Tensor x) -> Tensor"); }
TORCH_LIBRARY_IMPL(tripling, CPU, m) { m.impl("tripled", tripled); }
'''
load_inline("tripling", cpp_sources=SOURCE, is_python_module=False)

@torch.library.register_fake("tripling::tripled")
def _(x):
    return torch.empty_like(x)
"""

CUSTOM = """
@torch.library.custom_op("mylib::shifted", mutates_args=())
def shifted(x: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(x.numpy() + 1)

@shifted.register_fake
def _(x):
    return torch.empty_like(x)
"""

TRITON = """
import triton
import triton.language as tl

@triton.jit
def scaled(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + i, tl.load(x_ptr + i, mask=i < n) * 2, mask=i < n)
"""

LAUNCH = "y = torch.empty_like(x); scaled[(8,)](x, y, x.numel(), BLOCK=1024); return y.relu() + 1"

TRITON_OP = (
    TRITON
    + """
@torch.library.triton_op("mylib::scaled_op", mutates_args=())
def scaled_op(x: torch.Tensor) -> torch.Tensor:
    y = torch.empty_like(x)
    torch.library.wrap_triton(scaled)[(8,)](x, y, x.numel(), BLOCK=1024)
    return y
"""
)

FLEX = "from torch.nn.attention.flex_attention import flex_attention\n"

PROGRAMS = {
    "Pallas, pointwise": Program("return (x * 2 + 1).sigmoid()", PALLAS, expected="pallas"),
    "Pallas, reduction": Program("return (x * 2).sum(-1), x.amax(0)", PALLAS, expected="pallas"),
    "Pallas, softmax": Program("return x.softmax(-1) * 2", PALLAS, expected="pallas"),
    "Pallas, product": Program("return (x @ x.t()).relu() + 1", PALLAS, expected="pallas"),
    "C++ extension behind a custom op": Program("return doubled(x.relu()) + 1", INLINE, expected="C++ extension"),
    "C++ extension with TORCH_LIBRARY": Program("return torch.ops.tripling.tripled(x.relu()) + 1", LIBRARY,
                                                expected="C++ extension"),
    "custom op in Python": Program("return shifted(x.relu()) * 2", CUSTOM, expected="custom op"),
    "FlexAttention": Program("return flex_attention(x, x, x)", FLEX, "torch.randn(1, 2, 128, 64)",
                             expected="FlexAttention"),
    "Triton kernel for a GPU": Program(LAUNCH, TRITON, target="h100", expected="Triton kernel"),
    "Triton op for a GPU": Program("return scaled_op(x.relu()) + 1", TRITON_OP, target="h100",
                                   expected="Triton kernel"),
}  # fmt: skip

TEXT = "import torch\n{head}\n\ndef model(x):\n    {body}\n\n\ntorch.manual_seed(0)\ninputs = ({inputs},)\n"

TEXTS: dict[str, Module] = {**{f"{name}, text": one for name, one in MODULES.items() if name != "triton"},
                            "Metal of torch 2.11, text": OLD_METAL}  # fmt: skip


def job_of(folder: str, name: str, *, timed: bool) -> ev.Job:
    """Write a program; return its job."""
    program = PROGRAMS[name]
    source = TEXT.format(head=program.head, body=program.body, inputs=program.inputs)
    file = Path(folder, "".join(c if c.isalnum() else "_" for c in name) + ".py")
    file.write_text(source)
    job = ev.Job(run=1, file=str(file), source=source, config=ev.Config(target=program.target), examine=False)
    return replace(job, time_for=1.0, timing_processes=0) if timed else replace(job, time_for=0.0, structure_only=True)


def missing(kernel: ev.Kernel) -> list[str]:
    """Return what a kernel lacks."""
    facts = {
        "source": kernel.source.strip(), "op": kernel.ops, "line": kernel.source_lines,
        "language": kernel.language not in ("", "unknown"),
    }  # fmt: skip
    return [name for name, value in facts.items() if not value]


def judged(name: str, run: Snapshot) -> Iterator[str]:
    """Yield what is wrong with a run."""
    if run.failure is not None:
        yield f"not compiled: {run.failure.type}: {run.failure.message}"
        return
    target = PROGRAMS[name].target
    kernels = run.code_for(target).kernels
    kinds = {word for k in kernels for word in (k.language, k.user_op.kind if k.user_op else "")}
    if PROGRAMS[name].expected not in kinds:
        yield f"no kernel of {PROGRAMS[name].expected}, but {sorted(kinds)}"
    for kernel in kernels:
        if lacks := missing(kernel):
            yield f"{kernel.name} ({kernel.language}) lacks {', '.join(lacks)}"


async def main(python: ModelPython, only: list[str], *, timed: bool) -> None:
    chosen = [name for name in (*PROGRAMS, *TEXTS) if not only or name in only]
    opaque = kernels = untimed = 0
    with TemporaryDirectory() as folder:
        for name in chosen:
            if name in TEXTS:
                text = read_wrapper(written(TEXTS[name]))
                kernels += len(text.kernels)
                called = {call.name for call in text.calls}
                complete = all(name in called and source.text.strip() and text.comments[name].ops
                               for name, source in text.kernels.items())  # fmt: skip
                problems = [] if text.kernels and complete else ["no kernel, or one without source, op or call"]
                languages = [source.language for source in text.kernels.values()]
            else:
                run = (await run_once(job_of(folder, name, timed=timed), LIMIT_S, None, python)).snapshot
                problems, own = list(judged(name, run)), run.code_for(PROGRAMS[name].target).kernels
                languages = [kernel.user_op.kind if kernel.user_op else kernel.language for kernel in own]
                kernels += len(own)
                if timed and PROGRAMS[name].target == NATIVE and run.failure is None:
                    lacking = [kernel.name for kernel in own if measured_time(run, kernel) is None]
                    untimed += len(lacking)
                    languages.append(f"without a time: {lacking or 'none'}")
            opaque += len(problems)
            print(f"{'✖' if problems else '✔'} {name}: {', '.join(languages)}", *problems, sep="\n    ", flush=True)
    times = f", {untimed} without a time" if timed else ""
    used = f"torch {python.torch or 'of tcexplore'}, load {os.getloadavg()[0]:.1f}"
    print(f"{opaque} opaque of {kernels} kernels in {len(chosen)} programs{times}; {used}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default="")
    parser.add_argument("--only", default="")
    parser.add_argument("--timed", action="store_true")
    given = parser.parse_args()
    own = named_python(given.python) if given.python else OWN_PYTHON
    asyncio.run(main(own, [name for name in given.only.split(";") if name], timed=given.timed))
