"""Seeded causes: two runs of one program that differ in one known thing, and whether the difference names it.

Each seed changes a setting, a pass, a decomposition, a lowering, the library that is called, the scheduler, the program
or its breaks. The change is in the text of the file, or in the configuration of the run. The cause of the changed
kernels is named right if kind and name are. Settings are tried, as `tcexplore diff` does.

Run: python -m tests.benchmarks.difference_causes [--only NAME,…]
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from tcexplore import events as ev
from tcexplore.session import Snapshot
from tcexplore.session.run_difference import Cause, RunDifference, run_difference
from tcexplore.studies.runs import Runs
from tcexplore.studies.setting_trials import try_settings
from tests.benchmarks.study_runs import study_runs

LIMIT_S = 120.0


class Seed(NamedTuple):
    """A change, and the cause that should be named."""

    name: str
    kind: str
    cause: str
    """A part of the name of the cause."""
    body: str
    """Body of the model, of `x` and `w`."""
    setting: str = ""
    """Of the later run."""
    patch: str = ""
    """Code at the top of the later file."""
    later: str = ""
    """Body of the later file, if it is another."""
    config: ev.Config = ev.Config()
    always: tuple[str, ...] = ()
    """Settings of both runs."""


POINTS = "a = (x * 2 + 1).sigmoid(); b = a.relu() - 3; return b, b.sum(-1), a.amax(0)"
CONFIG = "torch._inductor.config."

REGISTER = """
from torch._inductor import decomposition
def other(*args, **kwargs):
    {body}
decomposition.decompositions[torch.ops.{op}] = other
"""

FALLBACK = """
import torch._inductor.lowering as lowering
lowering.make_fallback(torch.ops.{op}, warn=False, override_decomp=True)
"""

CALLED = """
import torch._inductor.lowering as lowering
import torch._inductor.kernel.bmm, torch._inductor.kernel.mm
lowering.lowerings[torch.ops.{op}] = lowering.fallback_handler(torch.ops.{op})
"""

CUSTOM_PASS = """
def {name}(graph):
    for node in list(graph.nodes):
        if node.target is torch.ops.aten.{old}:
            node.target = torch.ops.aten.{new}
import torch._inductor.config
torch._inductor.config.{stage} = {name}
"""

SEEDS = (
    # ---- settings and defaults
    Seed("fusion size", "setting", "max_fusion_size", POINTS, f"{CONFIG}max_fusion_size=1"),
    Seed("no vector instructions", "setting", "cpp.simdlen", POINTS, f"{CONFIG}cpp.simdlen=0"),
    Seed("pattern matcher", "setting", "pattern_matcher", "return torch.mm(x, w.t()) + w[0, :1]",
         f"{CONFIG}pattern_matcher=False"),
    Seed("no buffers in place", "setting", "inplace_buffers", "return torch.mm(x, w).relu() + 1",
         f"{CONFIG}inplace_buffers=False"),
    Seed("joint passes", "setting", "use_joint_graph_passes", "return (x * 1.0 + 0.0).relu() + torch.zeros_like(x)",
         f"{CONFIG}use_joint_graph_passes=False"),
    Seed("eager's random numbers", "setting", "fallback_random", "return torch.rand_like(x) + x",
         f"{CONFIG}fallback_random=True"),
    Seed("loop unrolling of reductions", "setting", "unroll_reductions_threshold", "return (x[:, :4] * 2).sum(-1)",
         f"{CONFIG}unroll_reductions_threshold=1"),
    Seed("mode max-autotune", "setting", "max_autotune",
         "return torch.bmm(x.view(8, 32, 128), w.view(8, 128, 16)).relu()", config=ev.Config(mode="max-autotune"),
         # Otherwise, the library is faster on some machines, and no kernel differs.
         always=(f"{CONFIG}max_autotune_gemm_backends=CPP",)),
    # ---- passes
    Seed("post-grad pass of the user", "pass", "post_grad", "return (x * 2).sigmoid() + 1",
         patch=CUSTOM_PASS.format(name="to_tanh", old="sigmoid.default", new="tanh.default",
                                  stage="post_grad_custom_post_pass")),
    Seed("joint pass of the user", "pass", "joint", "return (x * 2).relu() + 1",
         patch=CUSTOM_PASS.format(name="to_abs", old="relu.default", new="abs.default",
                                  stage="joint_custom_post_pass")),
    # ---- decompositions
    Seed("silu decomposed by hand", "decomposition", "silu", "return torch.nn.functional.silu(x) * 2",
         patch=REGISTER.format(op="aten.silu.default", body="x, = args; return x * torch.sigmoid(x)")),
    Seed("softmax decomposed by hand", "decomposition", "softmax", "return x.softmax(-1) + 1",
         patch=REGISTER.format(op="aten._softmax.default",
                               body="x, d, _ = args; e = torch.exp(x); return e / e.sum(d, True)")),
    # ---- lowerings
    Seed("gather falls back", "lowering", "gather", "return x.gather(0, (w.abs() * 50).long()) * 2",
         patch=FALLBACK.format(op="aten.gather")),
    Seed("erf falls back", "lowering", "erf", "return (x + 1).erf() * 2", patch=FALLBACK.format(op="aten.erf")),
    # ---- libraries
    Seed("another function for mm", "library", "aten.mm", "return torch.mm(x, w).relu()",
         patch=CALLED.format(op="aten.mm.default")),
    # ---- the scheduler
    Seed("no fusion of pairs", "fusion", "", POINTS, patch="""
from torch._inductor.choices import InductorChoices
InductorChoices.can_fuse = staticmethod(lambda *_, **__: False)
"""),
    # ---- the program
    Seed("another op", "program", "tanh", "return (x * 2).sigmoid() + 1", later="return (x * 2).tanh() + 1"),
    Seed("another constant", "program", "mul", "return (x * 2).sigmoid() + 1", later="return (x * 3).sigmoid() + 1"),
    Seed("a graph break", "graph break", "", "y = x * 2; return y.sigmoid() + 1",
         later="y = x * 2; print(end=''); return y.sigmoid() + 1"),
    Seed("a break that a setting avoids", "setting", "capture_scalar_outputs",
         "y = x * 2; s = y.sum().item(); return y + s", "torch._dynamo.config.capture_scalar_outputs=True"),
)  # fmt: skip

TEXT = """import torch
{patch}

def model(x, w):
    {body}


torch.manual_seed(0)
inputs = (torch.randn(256, 128), torch.randn(128, 128))
"""


def job_of(folder: str, seed: Seed, *, later: bool) -> ev.Job:
    """Write a side of a seed; return its job."""
    body = seed.later if later and seed.later else seed.body
    source = TEXT.format(patch=seed.patch if later else "", body=body)
    file = Path(folder, "later" if later else "earlier", "model.py")
    file.parent.mkdir(exist_ok=True)
    file.write_text(source)
    config = seed.config if later else ev.Config()
    own = (seed.setting,) if later and seed.setting else ()
    config = replace(config, settings=(*seed.always, *own))
    return ev.Job(run=1, file=str(file), source=source, config=config, time_for=0.0, structure_only=True)


async def compare(runs: Runs, folder: str, seed: Seed) -> RunDifference | str:
    """Return the difference of both sides, with its settings tried, or why there is none."""
    sides: list[Snapshot] = []
    for later in (False, True):
        side = (await runs.run(job_of(folder, seed, later=later), LIMIT_S)).snapshot
        if side.failure is not None:
            return f"{side.failure.type}: {side.failure.message}"
        sides.append(side)
    job = job_of(folder, seed, later=True)

    async def compile_with(config: ev.Config) -> Snapshot:
        return (await runs.run(replace(job, config=config), LIMIT_S)).snapshot

    result = run_difference(*sides)
    async for tried in try_settings(result, compile_with):
        result = tried
    return result


def named(seed: Seed, cause: Cause | None) -> bool:
    """Return whether a cause is the seeded one."""
    return cause is not None and cause.kind == seed.kind and seed.cause in cause.name


async def main(only: Sequence[str]) -> None:
    seeds = [seed for seed in SEEDS if not only or seed.name in only]
    right = 0
    async with study_runs() as (runs, folder):
        for seed in seeds:
            result = await compare(runs, folder, seed)
            if isinstance(result, str):
                print(f"✖ {seed.name}: {result}")
                continue
            causes = [part.cause for part in result.changed]
            good = bool(causes) and named(seed, causes[0])
            right += good
            print(f"{'✔' if good else '✖'} {seed.name}: expected {seed.kind} {seed.cause}", flush=True)
            for part in result.changed[:3]:
                cause = part.cause
                text = f"{cause.kind} ({cause.basis}) · {cause.text}" if cause else "no cause"
                print(
                    f"    {part.name}: {text}" + (f" · through {cause.through.text}" if cause and cause.through else "")
                )
            if not causes:
                print("    no kernel differs; settings:", *(s.text for s in result.settings))
    print(f"{right} of {len(seeds)} causes are named right")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="")
    given = parser.parse_args()
    asyncio.run(main([name for name in given.only.split(",") if name]))
