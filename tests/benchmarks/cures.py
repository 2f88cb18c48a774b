"""`python -m tests.benchmarks.cures [breaks|cures] [NAME…]`: graph breaks found and cured.

Breaks: the samples, small programs with one kind of break each, and ten `transformers` architectures; what tcexplore
finds against torch's own trace of the same file, read from `TORCH_TRACE` in a process of its own. All, none twice, none
invented. Cures: the same programs and samples; for how many of the breaks that have a cure one is offered, and how many
of those offered remove the break and keep the results. The seed is the runs' own, 0.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tcexplore.events import Config, Job
from tcexplore.fixes.attempted_fixes import AttemptedFixes
from tcexplore.session import Snapshot
from tcexplore.studies.fixes.fixes_plan import FixAttempts, treat
from tcexplore.studies.study_runs import Runs
from tcexplore.supervisor import Supervisor
from tcexplore.watch import read_source
from tests.fixes.architectures import ARCHITECTURES
from tests.fixes.programs import INCURABLE, PROGRAMS

SAMPLES = Path(__file__).parents[2] / "samples"
WITHIN_S = 300.0


def files(folder: Path) -> Iterator[tuple[str, Path]]:
    """A name for each file, and the file."""
    yield from ((f"sample {path.stem}", path) for path in sorted(SAMPLES.glob("*.py")) if _has_model(path))
    for kind, texts in (("program", PROGRAMS), ("transformers", ARCHITECTURES)):
        for name, text in texts.items():
            # With the kind before it, for `logging.py` would stand in the way of Python's own.
            path = folder / kind / f"{kind}_{name.replace(' ', '_')}.py"
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
            yield f"{kind} {name}", path


def _has_model(path: Path) -> bool:
    text = path.read_text()
    return "\nmodel = " in text and "\ninputs" in text


def by_torch(path: Path) -> set[tuple[str, int]]:
    """Where torch's own trace has a break."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.fixes.reference", str(path)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return {(file, line) for file, line in json.loads(done.stdout.splitlines()[-1])["places"]}


def by_us(run: Snapshot) -> list[tuple[str, int]]:
    return [(found.location.file, found.location.line) if found.location else ("", 0) for found in run.breaks]


async def found(folder: Path, only: list[str]) -> int:
    """Print what each side finds; returns how many places differ or stand there twice."""
    places = wrong = many = 0
    async with Runs(Supervisor) as runs:
        for name, path in files(folder):
            if only and name not in only:
                continue
            job = Job(run=1, file=str(path), source=path.read_text(), config=Config(backend="eager"), time_for=0.0)
            run = (await runs.run(job, WITHIN_S)).snapshot
            ours, theirs = by_us(run), by_torch(path)
            kinds = [found.kind for found in run.breaks]
            twice = [key for key, n in Counter(zip(ours, kinds, strict=True)).items() if n > 1]
            missed, invented = theirs - set(ours), set(ours) - theirs
            bad = len(missed) + len(invented) + len(twice) + (run.failure is not None)
            places, wrong, many = places + len(theirs), wrong + bad, many + 1
            said = f"  missed {missed} invented {invented} twice {twice} {run.failure or ''}" if bad else ""
            print(f"{'✖' if bad else '✔'} {name}: {len(theirs)} places{said}", flush=True)
    print(f"{many} files, {places} places that break by torch's own trace: {wrong} missed, invented or twice")
    return wrong


async def cured(folder: Path, only: list[str]) -> int:
    """Print what was tried for each break; returns how many offered cures did not hold."""
    with_cure = offered = proven = 0
    async with Runs(Supervisor) as runs:
        for name, path in files(folder):
            if name.startswith("transformers") or (only and name not in only):
                continue
            incurable = name.removeprefix("program ") in INCURABLE
            job = Job(run=1, file=str(path), source=path.read_text())
            async for one in treat(FixAttempts(job, read_source), runs, WITHIN_S, 0.0):
                if not isinstance(one, AttemptedFixes):
                    continue
                with_cure += not incurable
                offered += one.cure is not None
                proven += one.cure is not None and one.cure.proven
                tried = "; ".join(f"{p.change.cure.name}: {p.why or 'proven'}" for p in one.proofs) or "no cure"
                print(f"{'✔' if one.cure else '·' if incurable else '✖'} {name}, {one.found.kind}: {tried}", flush=True)
    print(f"{with_cure} breaks that have a cure, {offered} offered one, {proven} of those proven")
    return offered - proven


def main(what: str = "", *only: str) -> int:
    """Both, or the one that is asked for."""
    with tempfile.TemporaryDirectory() as folder:
        wrong = 0
        if what in ("", "breaks"):
            wrong += asyncio.run(found(Path(folder), list(only)))
        if what in ("", "cures"):
            wrong += asyncio.run(cured(Path(folder), list(only)))
    return wrong


if __name__ == "__main__":
    sys.exit(1 if main(*sys.argv[1:]) else 0)
