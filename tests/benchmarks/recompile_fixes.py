"""`python -m tests.benchmarks.recompile_fixes [NAME…]`: each recompile fix that was tried, applied by hand.

For each program of `tests.fixes.recompiling`: a plain script without tcexplore makes the calls unchanged, and again
with each fix that `check` reports, and counts the compile ids of torch's own callbacks.
A fix is right if that count is `graphs_after`, and its unchanged count `graphs_before`.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tcexplore.events import Job
from tcexplore.session.recompile_fixes import TOGETHER, RecompileFix, recompile_fixes
from tcexplore.studies.runs import Runs
from tcexplore.supervisor import Supervisor
from tests.fixes.recompiling import PROGRAMS

TIMEOUT_S = 300.0

APPLY = """
import json, runpy, sys
import torch
import torch._dynamo

file, changes = sys.argv[1], json.loads(sys.argv[2])
torch.manual_seed(0)
scope = runpy.run_path(file)
model, calls = scope["model"], [call if isinstance(call, tuple) else (call,) for call in scope["inputs"]]
import inspect
target = model.forward if isinstance(model, torch.nn.Module) else model
names = list(inspect.signature(target).parameters)

def index(name):
    return int(name[5:-1]) if name.startswith("args[") else names.index(name)

dynamic = None
for kind, name, dim in changes:
    if kind == "mark_dynamic":
        for call in calls:
            if call[index(name)].shape[dim] > 1:
                torch._dynamo.mark_dynamic(call[index(name)], dim)
    elif kind == "mark_unbacked":
        for call in calls:
            torch._dynamo.decorators.mark_unbacked(call[index(name)], dim)
    elif kind == "dynamic":
        dynamic = True
    elif kind == "tensor":
        at = index(name)
        calls = [(*call[:at], torch.tensor(call[at]), *call[at + 1 :]) for call in calls]
    elif kind == "attribute":
        path, _, last = name.removeprefix("self.").rpartition(".")
        for module in model.modules():
            inner = dict(module.named_modules()).get(path)
            if isinstance(getattr(inner, last, None), (int, float)):
                setattr(inner, last, torch.tensor(getattr(inner, last)))
    elif kind == "unspec_int":
        torch._dynamo.config.allow_unspec_int_on_nn_module = True

compiled_frames = []
torch._dynamo.callback.callback_handler.register_end_callback(lambda args: compiled_frames.append(args.compile_id))
compiled = torch.compile(model, backend="eager", dynamic=dynamic)
with torch.no_grad():
    for call in calls:
        compiled(*call)
print(json.dumps(len(set(compiled_frames))))
"""


def apply(script: Path, file: Path, changes: list[tuple[str, str, int | None]]) -> tuple[int | None, str]:
    """Return what a plain script with these changes compiles, or why it fails."""
    command = [sys.executable, str(script), str(file), json.dumps(changes)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return None, done.stderr.strip().splitlines()[-1][:150]
    return int(done.stdout.splitlines()[-1]), ""


def changes_of(fix: RecompileFix) -> list[tuple[str, str, int | None]]:
    """Return the changes of a fix, as `apply` reads them."""
    if fix.kind == TOGETHER:
        return [(part.kind, part.name, part.dim) for part in fix.parts]
    sizes: list[tuple[str, int | None]] = [(fix.name, fix.dim), *fix.other_sizes]
    marked = fix.kind in ("mark_dynamic", "mark_unbacked")
    return [(fix.kind, *size) for size in (sizes if marked else sizes[:1])]


async def compare(folder: Path, only: list[str]) -> int:
    """Print each fix with what it does by hand; return how many are wrong."""
    script = folder / "apply_changes.py"
    script.write_text(APPLY)
    programs = fixes = wrong = untried = helpful = 0
    async with Runs(Supervisor) as runs:
        for number, (name, text) in enumerate(PROGRAMS.items()):
            if only and name not in only:
                continue
            file = folder / f"program_{number}.py"
            file.write_text(text)
            job = Job(run=1, file=str(file), source=text, time_for=0.0, try_recompile_fixes=True)
            run = (await runs.run(job, TIMEOUT_S)).snapshot
            before, failed = apply(script, file, [])
            programs += 1
            reasons = [missing.reason for missing in run.missing_facts if "recompile" in missing.fact]
            print(f"{name}: {before} compiles {failed} {run.failure or ''} {reasons or ''}", flush=True)
            for fix in recompile_fixes(run):
                fixes += 1
                if not fix.tried:
                    untried += 1
                    print(f"  · {fix.kind} {fix.name}: not tried", flush=True)
                    continue
                after, error = apply(script, file, changes_of(fix))
                helpful += bool(fix.avoids)
                # What a change that breaks graphs compiles is not claimed.
                right = before == fix.graphs_before and (after == fix.graphs_after or bool(fix.problem))
                wrong += not right
                said: Any = f"{fix.graphs_before} → {fix.graphs_after}, avoids {', '.join(fix.avoids) or 'none'}"
                print(f"  {'✔' if right else '✖'} {changes_of(fix)}: {said}; by hand {before} → {after} "
                      f"{fix.problem[:80]} {error}", flush=True)  # fmt: skip
    print(f"{programs} programs, {fixes} fixes, {untried} not tried, {helpful} help: {wrong} wrong")
    return wrong


def main(*only: str) -> int:
    """Try all programs, or some."""
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(compare(Path(folder), list(only)))


if __name__ == "__main__":
    sys.exit(1 if main(*sys.argv[1:]) else 0)
