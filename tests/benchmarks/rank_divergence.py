"""Verdicts on real Gloo ranks: `python -m tests.benchmarks.rank_divergence [NAME…]`.

Each seeded program differs in one way on rank 1 of 2 to 4 ranks; the SPMD programs do the same on all ranks.
The traces stay in the folder that `--keep` names.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from tcexplore.traces.rank_comparison import compare_ranks
from tcexplore.traces.trace_inputs import trace_inputs
from tcexplore.traces.trace_job import open_inputs

PROGRAMS = Path(__file__).parents[1] / "traces" / "programs"

LAUNCH = """
import importlib, os, runpy, sys
world, script, caches, sys.argv = int(sys.argv[1]), sys.argv[2], sys.argv[3].split(","), sys.argv[2:3] + sys.argv[4:]
for name in ("torch.distributed", "torch._inductor.compile_fx"):  # once for all ranks
    importlib.import_module(name)
ranks = []
for rank in range(world):
    pid = os.fork()
    if not pid:
        os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), TORCHINDUCTOR_CACHE_DIR=caches[rank % len(caches)])
        runpy.run_path(script, run_name="__main__")
        sys.stdout.flush()
        os._exit(0)
    ranks.append(pid)
sys.exit(max(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) != 0 for pid in ranks))
"""


class Seed(NamedTuple):
    """A program with one difference, and what the verdict must name."""

    name: str
    kind: str
    code: str
    """Beginning of the line of the verdict."""
    ranks: int = 2
    wrap: str = ""


SEEDS = (
    Seed("branch", "branch", "x = x.sin()", 4),
    Seed("branch", "branch", "x = x.sin()", 2, "ddp"),
    Seed("shape", "shape", "x = self.linear(x)", 3),
    Seed("shape", "shape", "x = self.linear(x)", 2, "fsdp"),
    Seed("dtype", "dtype", "x = self.linear(x)", 2),
    Seed("break", "break", 'print("sum"', 3),
    Seed("break", "break", 'print("sum"', 2, "fsdp"),
    Seed("guard", "guard", "if self.label:", 2),
    Seed("guard", "guard", "if self.label:", 3, "ddp"),
    Seed("config", "config", "torch._dynamo.config.assume_static", 4),
    Seed("environment", "environment", "torch.set_num_threads", 2),
    Seed("cache", "cache", "def forward", 3),
    Seed("autotuning", "autotuning", "def forward", 2),
    Seed("collectives", "collective order", "", 2),
    Seed("version", "library version", "", 3),
    Seed("missing", "missing rank", "", 4),
)
SPMD = ("ddp", "shard", "dynamic", "breaks", "groups", "scalar", "scatter", "fsdp", "tensor_parallel")


def record(script: str, arguments: list[str], world: int, trace: Path, caches: list[Path]) -> None:
    """Run a program on ranks of this machine, and write its trace."""
    environment = {
        **os.environ, "TORCH_TRACE": str(trace), "WORLD_SIZE": str(world), "OMP_NUM_THREADS": "1",
        "MASTER_ADDR": "localhost", "MASTER_PORT": str(20000 + os.getpid() % 20000),
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
    }  # fmt: skip
    command = [sys.executable, "-c", LAUNCH, str(world), str(PROGRAMS / script), ",".join(map(str, caches)), *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        print(done.stderr[-2000:])


def verdict(trace: Path) -> tuple[str, tuple[int, ...], str]:
    """Return the kind, the ranks and the text of the line of the verdict; an empty kind if the ranks agree."""
    divergence = compare_ranks(open_inputs(trace_inputs([str(trace)])).jobs[0]).divergence
    if divergence is None:
        return "", (), ""
    at = divergence.location
    line = Path(at.file).read_text().split("\n")[at.line - 1].strip() if at else ""
    print(f"    {divergence.detail}; {' | '.join(side.text for side in divergence.sides)}")
    return divergence.kind, divergence.ranks, line


def run_seed(seed: Seed, folder: Path) -> bool:
    """Return whether the verdict names the seed."""
    caches = [folder / f"cache{rank}" for rank in range(seed.ranks)]
    arguments, os.environ["WRAP"] = ["--seed", seed.name], seed.wrap
    if seed.name == "cache":
        record("seeded.py", arguments, seed.ranks, folder / "before", [caches[1]])
    record("seeded.py", arguments, seed.ranks, folder / "trace", caches)
    kind, ranks, line = verdict(folder / "trace")
    holds = (kind, ranks) == (seed.kind, (1,)) and line.startswith(seed.code)
    outcome = "ok" if holds else "WRONG"
    print(f"{seed.name} {seed.wrap} on {seed.ranks} ranks: {kind}, ranks {ranks}, {line!r}: {outcome}")
    return holds


def run_spmd(program: str, world: int, folder: Path) -> bool:
    """Return whether the ranks agree; they share a cache, so some find what others have just written."""
    record("spmd.py", ["--program", program], world, folder / "trace", [folder / "cache"])
    kind = verdict(folder / "trace")[0]
    print(f"{program} on {world} ranks: {'ok' if not kind else f'FALSE: {kind}'}")
    return not kind


def main() -> None:
    """Print each verdict, and how many are right."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.rank_divergence")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--keep", type=Path)
    given = parser.parse_args()
    right = total = 0
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as temporary:
        items: tuple[Seed | str, ...] = (*SEEDS, *SPMD)
        for number, item in enumerate(items):
            name = item.name if isinstance(item, Seed) else item
            if given.names and name not in given.names:
                continue
            folder = (given.keep or Path(temporary)) / f"{number:02}_{name}"
            folder.mkdir(parents=True)
            total += 1
            right += run_seed(item, folder) if isinstance(item, Seed) else run_spmd(item, 2 + number % 3, folder)
            sys.stdout.flush()
    print(f"{right} of {total} right, {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
