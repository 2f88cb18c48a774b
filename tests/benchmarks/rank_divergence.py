"""Verdicts on real Gloo ranks: `python -m tests.benchmarks.rank_divergence [NAME…]`.

Each seeded program differs in one way on rank 1 of 2 to 4 ranks: the main screen must name the kind, the ranks, the
line, the condition if there is one, and both sides. The SPMD programs do the same on all ranks: with one
cache, with a cache for each rank, and with a warm cache for some ranks, which may find more in it. The last rank of
some programs begins up to 10 s later; the ranks are compared once more with its clock 50 s ahead.
The traces stay in the folder that `--keep` names. With `DEVICE=cuda`, two ranks run on two GPUs, with NCCL.
`--only equal` or `--only seeds` chooses one of both; `--again` judges the traces in `--keep` without running anything.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from tcexplore.documents.locations import places
from tcexplore.documents.rank_alert import alert_row
from tcexplore.documents.strip import verdict_row
from tcexplore.events.rank_events import Divergence, RanksCompared, name_ranks
from tcexplore.session import Session
from tcexplore.traces.rank_comparison import compare_ranks
from tcexplore.traces.trace_inputs import trace_inputs
from tcexplore.traces.trace_job import TraceJob, open_inputs
from tcexplore.traces.trace_run import TraceRun

LIMIT_S = 300
"""Seconds after which the ranks of a program end."""

GPU = os.environ.get("DEVICE") == "cuda"
IMPORTED = ("torch.distributed",) if GPU else ("torch.distributed", "torch._inductor.compile_fx")
"""Modules that the launcher imports: Inductor initializes CUDA, which forked ranks could not use then."""

PROGRAMS = Path(__file__).parents[1] / "traces" / "programs"

LAUNCH = """
import importlib, json, os, runpy, signal, sys
for name in sys.argv[1:]:  # once for all ranks of all programs
    importlib.import_module(name)
from torch._logging import _internal
for line in sys.stdin:
    job, ranks = json.loads(line), []
    for rank in range(job["world"]):
        pid = os.fork()
        if not pid:
            signal.alarm(job["limit"])  # a rank may wait for one that failed
            cache = job["caches"][rank % len(job["caches"])]
            os.environ.update(job["environment"], RANK=str(rank), LOCAL_RANK=str(rank), TORCHINDUCTOR_CACHE_DIR=cache)
            _internal.LOG_TRACE_HANDLER.root_dir = job["trace"]
            sys.argv = job["argv"]
            os.dup2(2, 1)
            runpy.run_path(sys.argv[0], run_name="__main__")
            os._exit(0)
        ranks.append(pid)
    print(max(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) != 0 for pid in ranks), flush=True)
"""


class Recorded:
    """Stands for a launcher if the traces of an earlier run are judged again."""

    def record(self, *_: object, **__: object) -> bool:
        return True


class Launcher:
    """Forks the ranks of programs from one process."""

    def __init__(self) -> None:
        environment = {**os.environ, "TORCH_TRACE": "/", "OMP_NUM_THREADS": "1", "TORCHINDUCTOR_COMPILE_THREADS": "1"}
        self._process = subprocess.Popen(
            [sys.executable, "-c", LAUNCH, *IMPORTED],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._port = 20000 + os.getpid() % 20000

    def record(self, argv: list[str], world: int, trace: Path, caches: list[Path], **variables: str) -> bool:
        """Run a program on ranks of this machine, and write its trace; return whether all ranks succeeded."""
        self._port += 1
        variables |= {"WORLD_SIZE": str(world), "MASTER_ADDR": "localhost", "MASTER_PORT": str(self._port)}
        job = {"argv": [str(PROGRAMS / argv[0]), *argv[1:]], "world": world, "trace": str(trace),
               "caches": [str(cache) for cache in caches], "environment": variables, "limit": LIMIT_S}  # fmt: skip
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        passed = self._process.stdout.readline() == "False\n"
        if not passed:
            print(f"{argv} FAILED")
        return passed


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
    Seed("break", "break", 'print("sum"', 2),
    Seed("break", "break", 'print("sum"', 2, "fsdp"),
    Seed("guard", "guard", "if self.label:", 2),
    Seed("guard", "guard", "if self.label:", 2, "ddp"),
    Seed("config", "config", "torch._dynamo.config.assume_static", 2),
    Seed("environment", "environment", "torch.set_num_threads", 2),
    Seed("cache", "cache", "def forward", 2),
    Seed("autotuning", "autotuning", "x = self.linear(x)", 2),
    Seed("collectives", "collective order", "", 2),
    Seed("version", "library version", "", 3),
    Seed("missing", "missing rank", "", 2),
    Seed("missing", "missing rank", "", 4),
    Seed("unfinished", "unfinished rank", "def forward", 2),
)
SPMD = ("ddp", "shard", "dynamic", "breaks", "groups", "scalar", "scatter", "fsdp", "tensor_parallel", "sequence",
        "experts", "restarts", "nested_breaks", "sizes", "floats")  # fmt: skip
BRANCHES = {
    "data": "branch", "one_sided": "branch", "collective_in_branch": "branch", "statement": "branch",
    "without_else": "branch", "chain": "branch", "loop": "branch", "early_return": "branch", "expression": "branch",
    "helper": "branch", "break_on_one": "break", "order": "collective order", "size": "shape", "kind": "dtype",
}  # fmt: skip
"""Seeds of `branches.py` with the kind of the verdict."""
CONDITIONS = frozenset(BRANCHES) - {"break_on_one", "size", "kind"}
"""Seeds whose cause is a condition, which the main screen must name."""


class Branch(NamedTuple):
    """A seed of `branches.py`, and how many ranks run it."""

    name: str
    ranks: int = 2


MORE_RANKS = {"data": 3, "statement": 4, "loop": 3, "order": 4, "early_return": 3, "helper": 3, "size": 4, "kind": 3}
BRANCH_JOBS = (*map(Branch, BRANCHES), *(Branch(*job) for job in MORE_RANKS.items()))


class Equal(NamedTuple):
    """A program that does the same on all ranks, and how its ranks run."""

    name: str
    caches: str
    """`shared`, `own`, or `mixed`: only some ranks have a warm cache."""
    delay_s: int
    """Seconds by which the last rank begins later."""


DELAYS = (0, 2, 10)
LATER_S = 50
"""Seconds by which the clock of the last rank is put ahead, in a copy of the trace."""

EQUAL = tuple(
    Equal(name, caches, DELAYS[(number + place) % len(DELAYS)])
    for number, name in enumerate(SPMD)
    for place, caches in enumerate(("shared", "own", "mixed"))
)


class Verdict(NamedTuple):
    """What the main screen says of a job."""

    kind: str = ""
    """Empty if the ranks agree."""
    ranks: tuple[int, ...] = ()
    line: str = ""
    """The user's line that is named."""
    condition: str = ""
    lacks: tuple[str, ...] = ()
    """What of the verdict is not on the screen."""


def verdict(trace: Path) -> Verdict:
    """Return the verdict on the ranks of a trace."""
    (job,) = open_inputs(trace_inputs([str(trace)])).jobs
    compared = compare_ranks(job)
    divergence = compared.divergence
    if divergence is None:
        return Verdict()
    at = divergence.location
    line = Path(at.file).read_text().split("\n")[at.line - 1].strip() if at else ""
    lacks = tuple(not_on_screen(job, compared, divergence))
    return Verdict(divergence.kind, divergence.ranks, line, divergence.condition or "", lacks)


def not_on_screen(job: TraceJob, compared: RanksCompared, divergence: Divergence) -> Iterator[str]:
    """Yield the parts of a verdict that the two lines at the top of the main screen lack, 160 columns wide."""
    run = TraceRun(job.ranks[0], 1, len(job.ranks))
    start = run.start()
    session = Session().begin(start)
    for event in (event for batch in run.batches() for event in batch):
        session = session.apply(event)
    session = session.apply(replace(compared, run=1))
    headline, cause = verdict_row(session).text, alert_row(session).text
    print(f"    {headline[:110]}\n    {cause}")
    names = places(start.file)
    wanted = [divergence.kind.upper(), *([names.describe(divergence.location)] if divergence.location else [])]
    yield from (text for text in wanted if text not in headline)
    wanted = [divergence.condition or divergence.detail[1:], *(name_ranks(side.ranks) for side in divergence.sides)]
    yield from (text for text in wanted if text not in cause)


RECORD_HEAD = re.compile(r"(?m)^([VIWE])(\d{4} \d\d:\d\d:\d\d\.\d+) ")


def delayed(trace: Path, into: Path, rank: int, seconds: float) -> Path:
    """Copy a trace with the clock of one rank ahead."""
    shutil.copytree(trace, into)
    form = "%Y%m%d %H:%M:%S.%f"

    def later(head: re.Match[str]) -> str:
        at = datetime.strptime(f"2000{head[2]}", form) + timedelta(seconds=seconds)
        return f"{head[1]}{at.strftime('%m%d %H:%M:%S.%f')} "

    for path in into.glob(f"*_rank_{rank}_*"):
        path.write_text(RECORD_HEAD.sub(later, path.read_text()))
    return into


def new_cache(launcher: Launcher | Recorded, warm: Path, cache: Path) -> Path:
    """Copy a cache with its compiled kernels but without its graphs, since every rank has to compile those."""
    if isinstance(launcher, Recorded):
        return cache
    shutil.copytree(warm, cache, ignore=shutil.ignore_patterns("fxgraph", "aotautograd"))
    return cache


def run_seed(launcher: Launcher | Recorded, seed: Seed, folder: Path, warm: Path) -> bool:
    """Return whether the verdict names the seed."""
    world = 2 if GPU else seed.ranks
    caches = [new_cache(launcher, warm, folder / f"cache{rank}") for rank in range(world)]
    argv = ["seeded.py", "--seed", seed.name]
    if seed.name == "cache":
        launcher.record(argv, world, folder / "before", [caches[1]])
    launcher.record(argv, world, folder / "trace", caches, WRAP=seed.wrap)
    found = verdict(folder / "trace")
    names = (0, 1) if world == 2 and seed.kind not in ("missing rank", "unfinished rank") else (1,)
    holds = found[:2] == (seed.kind, names) and found.line.startswith(seed.code) and not found.lacks
    print(f"{seed.name} {seed.wrap} on {world} ranks: {found}: {'ok' if holds else 'WRONG'}")
    return holds


def run_branch(launcher: Launcher | Recorded, branch: Branch, folder: Path) -> bool:
    """Return whether the screen names the condition of a seed of `branches.py`, or its op if there is none."""
    launcher.record(["branches.py", "--seed", branch.name], branch.ranks, folder / "trace", [folder / "cache"])
    found = verdict(folder / "trace")
    names = (0, 1) if branch.ranks == 2 else (1,)
    holds = (
        found[:2] == (BRANCHES[branch.name], names)
        and found.line.endswith(f"# seed: {branch.name}")
        and bool(found.condition) >= (branch.name in CONDITIONS)
        and not found.lacks
    )
    print(f"{branch.name} on {branch.ranks} ranks: {found}: {'ok' if holds else 'WRONG'}")
    return holds


def run_equal(launcher: Launcher | Recorded, equal: Equal, world: int, folder: Path, warm: Path) -> bool:
    """Return whether the ranks agree, except for what some find in a warm cache."""
    argv = ["spmd.py", "--program", equal.name]
    number = 1 if equal.caches == "shared" else world
    caches = [new_cache(launcher, warm, folder / f"cache{rank}") for rank in range(number)]
    if equal.caches == "mixed":
        launcher.record(argv, world, folder / "before", caches[1:])
    passed = launcher.record(argv, world, folder / "trace", caches, DELAY=str(equal.delay_s))
    shutil.rmtree(folder / "later", ignore_errors=True)
    later = delayed(folder / "trace", folder / "later", world - 1, LATER_S)
    kinds = [verdict(traced).kind for traced in (folder / "trace", later)]
    holds = passed and set(kinds) <= ({"", "cache"} if equal.caches == "mixed" else {""})
    delays = f"{equal.delay_s} and {equal.delay_s + LATER_S} s later"
    outcome = f"{'ok' if holds else 'FALSE:'} {' and '.join(filter(None, kinds))}"
    print(f"{equal.name} on {world} ranks, {equal.caches} caches, {delays}: {outcome}")
    return holds


def spmd_world(program: str, number: int) -> int:
    """Return the number of ranks of an SPMD program: 2 to 4, a divisor of the sizes that tensor parallelism splits."""
    if GPU:
        return 2
    return 4 if program == "tensor_parallel" else 2 + number % 3


def main() -> None:
    """Print each verdict, and how many are right."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.rank_divergence")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--only", choices=("equal", "seeds"))
    given = parser.parse_args()
    launcher = Recorded() if given.again else Launcher()
    right = total = 0
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as temporary:
        root = given.keep or Path(temporary)
        warm = root / "compiled"
        launcher.record(["seeded.py"], 1, root / "first", [warm])
        items: tuple[Seed | Equal | Branch, ...] = (*SEEDS, *BRANCH_JOBS, *EQUAL)
        for number, item in enumerate(items):
            name = item.name
            other = given.only is not None and isinstance(item, Equal) != (given.only == "equal")
            if other or (given.names and name not in given.names):
                continue
            folder = root / f"{number:02}_{name}"
            folder.mkdir(parents=True, exist_ok=given.again)
            total += 1
            if isinstance(item, Seed):
                right += run_seed(launcher, item, folder, warm)
            elif isinstance(item, Equal):
                right += run_equal(launcher, item, spmd_world(name, number), folder, warm)
            else:
                right += run_branch(launcher, item, folder)
            sys.stdout.flush()
    print(f"{right} of {total} right, {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
