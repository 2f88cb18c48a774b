"""`python -m tests.benchmarks.fixes [breaks|fixes|hostile|scripts|costs] [NAME…]`: breaks found, fixed, costed.

Breaks: in the samples, small programs with one kind of break each, and ten `transformers` architectures, tcexplore's
breaks against those of torch's own trace of the same file, read from `TORCH_TRACE` in another process. It counts breaks
that are missed, false or duplicate. Fixes: for the same programs and samples, the share of fixable breaks for which
a fix is offered, and of those the share that is verified. Hostile: programs whose obvious fix is wrong, and a few
whose fix is right; each verified fix is compared with the original by `tests.fixes.independent`, on inputs that
tcexplore does not know. The seed is that of all runs, 0. Scripts: the fixable programs as scripts that call
`torch.compile` themselves, with the same comparison. Costs: the cost of a break from its gap, and from its verified
fix, against the difference of both compiled files timed in a plain script; it counts breaks outside the interval.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from tcexplore.events import Config, Job
from tcexplore.session import Snapshot
from tcexplore.session.ranked_breaks import rank_breaks
from tcexplore.studies.fix import STUDY, AttemptedFix, BreakFixes, FixOptions, by_break, fix_gain
from tcexplore.studies.runs import Runs
from tcexplore.studies.study import StudyState, run_study
from tcexplore.supervisor import Supervisor
from tests.fixes.architectures import ARCHITECTURES
from tests.fixes.hostile import HOSTILE, WRONG
from tests.fixes.programs import FIXABLE, NOT_FIXABLE, PROGRAMS

SAMPLES = Path(__file__).parents[2] / "samples"
TIMEOUT_S = 300.0
BACKEND = os.environ.get("BACKEND", "aot_eager")
"""Backend for the hostile programs."""


def files(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield a name for each file, and its path."""
    yield from ((f"sample {path.stem}", path) for path in sorted(SAMPLES.glob("*.py")) if _has_model(path))
    for kind, texts in (("program", PROGRAMS), ("transformers", ARCHITECTURES)):
        for name, text in texts.items():
            # The prefix keeps `logging.py` from shadowing Python's module.
            path = folder / kind / f"{kind}_{name.replace(' ', '_')}.py"
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
            yield f"{kind} {name}", path


def _has_model(path: Path) -> bool:
    text = path.read_text()
    return "\nmodel = " in text and "\ninputs" in text


def by_torch(path: Path) -> set[tuple[str, int]]:
    """Return the places of the breaks in torch's own trace."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.fixes.reference", str(path)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return {(file, line) for file, line in json.loads(done.stdout.splitlines()[-1])["places"]}


def by_us(run: Snapshot) -> list[tuple[str, int]]:
    return [(b.location.file, b.location.line) if b.location else ("", 0) for b in run.breaks]


async def compare_breaks(folder: Path, only: list[str]) -> int:
    """Print the breaks of each file by both sides; return how many are missed, false or duplicate."""
    places = wrong = many = 0
    async with Runs(Supervisor) as runs:
        for name, path in files(folder):
            if only and name not in only:
                continue
            job = Job(run=1, file=str(path), source=path.read_text(), config=Config(backend="eager"), time_for=0.0)
            run = (await runs.run(job, TIMEOUT_S)).snapshot
            ours, theirs = by_us(run), by_torch(path)
            kinds = [broken.kind for broken in run.breaks]
            repeated = [key for key, n in Counter(zip(ours, kinds, strict=True)).items() if n > 1]
            missed, invented = theirs - set(ours), set(ours) - theirs
            bad = len(missed) + len(invented) + len(repeated) + (run.failure is not None)
            places, wrong, many = places + len(theirs), wrong + bad, many + 1
            details = f"  missed {missed} invented {invented} repeated {repeated} {run.failure or ''}" if bad else ""
            print(f"{'✖' if bad else '✔'} {name}: {len(theirs)} places{details}", flush=True)
    print(f"{many} files, {places} breaks in torch's own trace: {wrong} missed, invented or repeated")
    return wrong


async def try_fixes(folder: Path, only: list[str]) -> int:
    """Print the fixes of each break; return how many fixable breaks have no verified fix."""
    fixable = verified = 0
    async with Runs(Supervisor) as runs:
        for name, path in files(folder):
            if name.startswith("transformers") or (only and name not in only):
                continue
            not_fixable = name.removeprefix("program ") in NOT_FIXABLE
            job = Job(run=1, file=str(path), source=path.read_text(), time_for=0.0)
            state: StudyState[FixOptions, AttemptedFix | Snapshot] = StudyState(job, FixOptions(), TIMEOUT_S)
            await run_study(STUDY, state, runs, lambda _: None, lambda _: None)
            for one in by_break(state.results):
                fixable += not not_fixable
                verified += one.verified is not None
                tried = "; ".join(f"{v.change.fix.name}: {v.objection or 'verified'}" for v in one.verifications)
                mark = "✔" if one.verified else "·" if not_fixable else "✖"
                print(f"{mark} {name}, {one.graph_break.kind}: {tried or 'no fix'}", flush=True)
    print(f"{fixable} fixable breaks, {verified} with a verified fix")
    return max(0, fixable - verified)


async def try_hostile(folder: Path, only: list[str]) -> int:
    """Print a table of verified and refused fixes; return how many verified ones are wrong."""
    counts: Counter[str] = Counter()
    async with Runs(Supervisor) as runs:
        for number, (name, text) in enumerate(HOSTILE.items()):
            if only and name not in only:
                continue
            path = folder / f"hostile_{number}.py"
            path.write_text(text)
            job = Job(run=1, file=str(path), source=text, time_for=0.0, config=Config(backend=BACKEND))
            state: StudyState[FixOptions, AttemptedFix | Snapshot] = StudyState(job, FixOptions(), TIMEOUT_S)
            await run_study(STUDY, state, runs, lambda _: None, lambda _: None)
            breaks = by_break(state.results)
            for one in breaks or (None,):
                outcome, details = _outcome(one, path)
                counts[outcome] += 1
                print(f"{outcome:10} {name}{'' if name in WRONG else ' (right)'}: {details}", flush=True)
    print("; ".join(f"{n} {outcome}" for outcome, n in counts.most_common()))
    return counts["WRONG"]


LOOP = """

# The loop of the script:
compiled = torch.compile(model, backend="aot_eager")
for step in range(4):
    for call in example if isinstance(example, list) else [example]:
        compiled(**call) if isinstance(call, dict) else compiled(*call)
"""


async def try_scripts(folder: Path, only: list[str]) -> int:
    """Print a table of the fixes of programs as scripts; return how many verified ones are wrong."""
    counts: Counter[str] = Counter()
    data = folder / "data.txt"
    data.write_text("what programs read")
    async with Runs(Supervisor) as runs:
        for number, name in enumerate(FIXABLE):
            if only and name not in only:
                continue
            path, model_file = folder / f"script_{number}.py", folder / f"model_{number}.py"
            program = PROGRAMS[name].replace("__file__", repr(str(data)))  # what a fix edits, no program reads
            path.write_text(re.sub(r"\binputs\b", "example", program) + LOOP)
            model_file.write_text(program)
            job = Job(run=1, file=str(path), source=path.read_text(), time_for=0.0)
            state: StudyState[FixOptions, AttemptedFix | Snapshot] = StudyState(job, FixOptions(), TIMEOUT_S)
            await run_study(STUDY, state, runs, lambda _: None, lambda _: None)
            for one in by_break(state.results) or (None,):
                outcome, details = _outcome(one, model_file, _without_loop)
                counts[outcome] += 1
                print(f"{outcome:10} {name}: {details}", flush=True)
    print("; ".join(f"{n} {outcome}" for outcome, n in counts.most_common()))
    return counts["WRONG"]


def _without_loop(script: str) -> str:
    """Return a script as the model file that it was made of."""
    return re.sub(r"\bexample\b", "inputs", script.partition(LOOP)[0])


TIME = """
import runpy, statistics, sys, time
import torch

torch.manual_seed(0)
scope = runpy.run_path(sys.argv[1])
function, inputs = torch.compile(scope["model"]), scope["inputs"]
calls = inputs if isinstance(inputs[0], tuple) else [inputs]
times = []
with torch.no_grad():
    for _ in range(300):
        for call in calls:
            function(*call)
    # Blocks, as tcexplore times them: beside busy programs, the few calls that wait for a core hold most of the time.
    for _ in range(40):
        started, made = time.perf_counter(), 0
        while time.perf_counter() - started < 0.01:
            for call in calls:
                function(*call)
            made += 1
        times.append((time.perf_counter() - started) / made)
with open(sys.argv[2], "w") as result:
    result.write(f"{statistics.median(times) * 1e6}")
"""
PROCESSES = 4
"""Processes for each side: a setting that a fix makes, such as one of Dynamo, is one of its process."""


def time_by_hand(script: Path, before: Path, after: Path) -> tuple[float, float, float]:
    """Return the share of a call that the second file saves, from the median process of each file.

    Of the processes that come one after the other, also the lowest and the highest share.
    """
    us: dict[Path, list[float]] = {before: [], after: []}
    for _ in range(PROCESSES):
        for file, of_file in us.items():
            # A line that the program writes takes 20 µs more in a pipe that somebody reads than in a run of tcexplore.
            result = script.with_suffix(".us")
            command = [sys.executable, str(script), str(file), str(result)]
            subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
            of_file.append(float(result.read_text()))
    shares = [1 - b / a for a, b in zip(us[before], us[after], strict=True)]
    return 1 - statistics.median(us[after]) / statistics.median(us[before]), min(shares), max(shares)


async def compare_costs(folder: Path, only: list[str]) -> int:
    """Print the cost of each break with its gain by hand; return how many are outside the interval."""
    script, breaks, outside, apart, below = folder / "time_calls.py", 0, 0, 0, 0
    script.write_text(TIME)
    async with Runs(Supervisor) as runs:
        for number, name in enumerate(FIXABLE):
            if only and name not in only:
                continue
            text = PROGRAMS[name].replace("torch.randn(8, 8", "torch.randn(64, 8")
            path, changed = folder / f"cost_{number}.py", folder / f"cost_{number}_fixed.py"
            path.write_text(text)
            job = Job(run=1, file=str(path), source=text, time_for=1.0)
            run = (await runs.run(job, TIMEOUT_S)).snapshot
            gaps = {(c.graph_break.code, c.graph_break.kind): c for c in rank_breaks(run)}
            state: StudyState[FixOptions, AttemptedFix | Snapshot] = StudyState(job, FixOptions(number=1), TIMEOUT_S)
            await run_study(STUDY, state, runs, lambda _: None, lambda _: None)
            for one in by_break(state.results):
                timed = one.verified.after.change_timing if one.verified else None
                gain = fix_gain(timed) if timed else None
                if one.verified is None or gain is None:
                    print(f"· {name}: no timed fix", flush=True)
                    continue
                changed.write_text(one.verified.change.after)
                by_hand, lowest, highest = time_by_hand(script, path, changed)
                gap = gaps.get((one.graph_break.code, one.graph_break.kind))
                at_least = gap.share if gap is not None and gap.share is not None else 0.0
                share, low, high = (us / gain.call_us for us in (gain.us, gain.low_us, gain.high_us))
                inside, overlaps = low <= by_hand <= high, low <= highest and lowest <= high
                breaks, outside = breaks + 1, outside + (not inside)
                apart, below = apart + (not overlaps), below + (highest < at_least)
                marks = ("✔" if inside else "~" if overlaps else "✖") + ("✔" if highest >= at_least else "✖")
                print(f"{marks} {name}: by hand "
                      f"{by_hand:.1%} [{lowest:.1%}, {highest:.1%}], fix {share:.1%} [{low:.1%}, {high:.1%}], "
                      f"gap at least {at_least:.1%}", flush=True)  # fmt: skip
    print(f"{breaks} breaks with a timed fix: {outside} by hand outside of the interval, of which {apart} with both "
          f"intervals apart; below the lower bound of the gap {below}")  # fmt: skip
    return apart + below


def _outcome(one: BreakFixes | None, path: Path, to_model: Callable[[str], str] = str) -> tuple[str, str]:
    """Return whether the fix of a break is verified, refused or wrong, and the reason.

    `to_model` makes a model file of the changed file.
    """
    if one is None:
        return "no break", ""
    if one.verified is None:
        tried = "; ".join(f"{v.change.fix.name}: {v.objection}" for v in one.verifications)
        return ("refused", tried) if tried else ("no fix", one.graph_break.kind)
    changed = path.with_name(f"{path.stem}_changed.py")
    changed.write_text(to_model(one.verified.change.after))
    command = [sys.executable, "-m", "tests.fixes.independent", str(path), str(changed)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    wrong = json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else [done.stderr[-300:]]
    name = f"{one.verified.change.fix.name} on {one.verified.inputs} inputs"
    return ("WRONG", f"{name}: {wrong[:4]}") if wrong else ("verified", name)


def main(part: str = "", *only: str) -> int:
    """Run one part, or all."""
    with tempfile.TemporaryDirectory() as folder:
        wrong = 0
        if part in ("", "breaks"):
            wrong += asyncio.run(compare_breaks(Path(folder), list(only)))
        if part in ("", "fixes"):
            wrong += asyncio.run(try_fixes(Path(folder), list(only)))
        if part in ("", "hostile"):
            wrong += asyncio.run(try_hostile(Path(folder), list(only)))
        if part in ("", "scripts"):
            wrong += asyncio.run(try_scripts(Path(folder), list(only)))
        if part in ("", "costs"):
            wrong += asyncio.run(compare_costs(Path(folder), list(only)))
    return wrong


if __name__ == "__main__":
    sys.exit(1 if main(*sys.argv[1:]) else 0)
