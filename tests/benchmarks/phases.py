"""How much of the calls that compile do the phases account for? Every sample and three transformers, both ways.

    python -m tests.benchmarks.phases [--only NAME,…] [--ways forward,train] [--warm]

Each run has a worker of its own and starts with empty caches; `--warm` makes each run a second time, and that one
counts. `wall` is the time of the calls that compiled, on the clock around them; `spans` is what torch's own outermost
spans add up to, `run` the time in which what was compiled ran, and `frames` that of Dynamo's callback outside the
spans, both measured in those very calls. Must: the coverage that tcexplore shows, which is all three over `wall`, is
95 % or more. Exits with 1 where it is less. About four minutes on two quiet cores.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from tcexplore import events as ev
from tcexplore.session import Snapshot
from tcexplore.session.compile_time import compile_time
from tcexplore.studies.study_runs import Runs
from tcexplore.supervisor import Supervisor
from tests.benchmarks.timing_models import Model, samples, transformers

LEAST = 0.95
WITHIN_S = 300.0


def main() -> None:
    options = arguments()
    load = " ".join(f"{value:.1f}" for value in os.getloadavg())
    print(f"{os.cpu_count()} cores, load before {load}, {'warm' if options.warm else 'empty'} caches")
    print(f"{'model':20} {'way':8} {'wall':>8} {'spans':>8} {'run':>8} {'frames':>8} {'covered':>8}  slowest phases")
    began = time.perf_counter()
    with TemporaryDirectory() as folder:
        found = [share for share in asyncio.run(shares(options, Path(folder))) if share is not None]
    print(f"{len(found)} runs, covered at the least {min(found):.1%}; {time.perf_counter() - began:.0f} s")
    holds = min(found) >= LEAST
    print(f"must: {LEAST:.0%} in each  {'holds' if holds else 'FAILS'}")
    sys.exit(0 if holds else 1)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", type=lambda said: said.split(","), default=[], help="models, by name")
    parser.add_argument("--ways", type=lambda said: said.split(","), default=["forward", "train"])
    parser.add_argument("--warm", action="store_true", help="the second run of each is the one that counts")
    return parser.parse_args()


def models(only: list[str]) -> Iterator[Model]:
    for model in (*samples(), *transformers()):
        if not only or model.name in only:
            yield model


async def shares(options: argparse.Namespace, folder: Path) -> list[float | None]:
    """The share covered of each run; prints its line."""
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(folder / "cache")
    found = []
    async with Runs(Supervisor) as runs:
        for model in models(options.only):
            file = folder / f"{model.name}.py"
            file.write_text(model.source)
            for way in options.ways:
                config = ev.Config(train=way == "train")
                job = ev.Job(run=0, file=str(file), source=model.source, config=config, time_for=0.0, examine=False)
                for _ in range(1 + options.warm):
                    outcome = await runs.run(job, WITHIN_S)
                found.append(line(model.name, way, outcome.snapshot))
    return found


def line(name: str, way: str, snapshot: Snapshot) -> float | None:
    """Print one run; its share, None where nothing was compiled by a call, or the run failed."""
    found = compile_time(snapshot)
    if found.coverage is None or snapshot.failure is not None:
        failed = snapshot.failure
        print(f"{name:20} {way:8} {failed.message if failed else 'no call of the run compiles anything'}", flush=True)
        return None
    inside = sorted((span for root in found.roots for span in root.children), key=lambda span: -span.seconds)
    slowest = ", ".join(f"{span.name} {span.seconds:.2f} s" for span in inside[:2])
    print(
        f"{name:20} {way:8} {found.wall_seconds:6.2f} s {found.seconds:6.2f} s {found.graph_seconds or 0:6.3f} s "
        f"{found.frame_seconds or 0:6.3f} s {found.coverage:8.1%}  {slowest}",
        flush=True,
    )
    return found.coverage


if __name__ == "__main__":
    main()
