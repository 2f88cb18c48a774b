"""Coverage of compiling calls by the phases that tcexplore shows, for every sample and three transformers.

    python -m tests.benchmarks.phase_coverage [--only NAME,…] [--ways forward,train] [--warm]

Each run has its own worker and starts with empty caches; with `--warm` each run repeats, and the second one counts.
`wall` is the time of the calls that compile. `spans` is the sum of torch's outermost spans, `run` the time that
compiled graphs ran, and `frames` the time of Dynamo's callback outside the spans, all measured in the same calls.
Required: the coverage that tcexplore shows, the sum of these three over `wall`, is at least 95%, and so
is the critical path, whose segments don't overlap (`path`). Exits with 1 if it is
less. Takes about four minutes on two idle cores.
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
from tcexplore.session.compile_time import compile_time, critical_path
from tcexplore.studies.runs import Runs
from tcexplore.supervisor import Supervisor
from tests.benchmarks.timing_models import Model, samples, transformers

MIN_COVERAGE = 0.95
TIMEOUT_S = 300.0


def main() -> None:
    options = arguments()
    load = " ".join(f"{value:.1f}" for value in os.getloadavg())
    print(f"{os.cpu_count()} cores, load before {load}, {'warm' if options.warm else 'empty'} caches")
    columns = f"{'wall':>8} {'spans':>8} {'run':>8} {'frames':>8} {'covered':>8} {'path':>8}"
    print(f"{'model':20} {'way':8} {columns}  slowest phases")
    began = time.perf_counter()
    with TemporaryDirectory() as folder:
        shares = [share for share in asyncio.run(coverages(options, Path(folder))) if share is not None]
    print(f"{len(shares)} runs, lowest coverage {min(shares):.1%}; {time.perf_counter() - began:.0f} s")
    holds = min(shares) >= MIN_COVERAGE
    print(f"required: {MIN_COVERAGE:.0%} in each  {'holds' if holds else 'FAILS'}")
    sys.exit(0 if holds else 1)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", type=lambda text: text.split(","), default=[], help="models, by name")
    parser.add_argument("--ways", type=lambda text: text.split(","), default=["forward", "train"])
    parser.add_argument("--warm", action="store_true", help="the second run of each is the one that counts")
    return parser.parse_args()


def models(only: list[str]) -> Iterator[Model]:
    for model in (*samples(), *transformers()):
        if not only or model.name in only:
            yield model


async def coverages(options: argparse.Namespace, folder: Path) -> list[float | None]:
    """Return the coverage of each run, and print its line."""
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(folder / "cache")
    shares = []
    async with Runs(Supervisor) as runs:
        for model in models(options.only):
            file = folder / f"{model.name}.py"
            file.write_text(model.source)
            for way in options.ways:
                config = ev.Config(train=way == "train")
                job = ev.Job(run=0, file=str(file), source=model.source, config=config, time_for=0.0, examine=False)
                for _ in range(1 + options.warm):
                    outcome = await runs.run(job, TIMEOUT_S)
                shares.append(line(model.name, way, outcome.snapshot))
    return shares


def line(name: str, way: str, snapshot: Snapshot) -> float | None:
    """Print one run and return its coverage, None if no call compiles or the run fails."""
    times = compile_time(snapshot)
    path = critical_path(snapshot)
    if times.coverage is None or snapshot.failure is not None:
        failure = snapshot.failure
        print(f"{name:20} {way:8} {failure.message if failure else 'no call compiles anything'}", flush=True)
        return None
    inside = sorted((span for root in times.roots for span in root.children), key=lambda span: -span.seconds)
    slowest = ", ".join(f"{span.name} {span.seconds:.2f} s" for span in inside[:2])
    print(
        f"{name:20} {way:8} {times.wall_seconds:6.2f} s {times.seconds:6.2f} s {times.graph_seconds or 0:6.3f} s "
        f"{times.frame_seconds or 0:6.3f} s {times.coverage:8.1%} {path.share or 0:8.1%}  {slowest}",
        flush=True,
    )
    return min(times.coverage, path.share or 0.0)


if __name__ == "__main__":
    main()
