"""The user's kernels and ops on a GPU: labels, code and provenance, live and with the GPU of the machine hidden.

Each program runs twice: live, and with the GPU hidden and `--target`. Takes about two minutes on a GPU.

python -m tests.benchmarks.gpu_kernels [TARGET]
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from difflib import unified_diff
from itertools import zip_longest
from pathlib import Path
from typing import Any

from tests.user_kernel_programs import CUSTOM, FLEX, STALE, TRITON

PROGRAMS = {"triton": TRITON, "custom_op": CUSTOM, "flex_attention": FLEX, "stale_fake": STALE}
USER_OPS = {
    "triton": {("Triton kernel", "double_kernel"), ("Triton op", "user_kernels.sine")},
    "custom_op": {("custom op", "user_kernels.halve")},
    "flex_attention": {("FlexAttention", "flex_attention")},
    "stale_fake": {("custom op", "user_kernels.pooled")},
}
"""The ops in the graphs of each program. Dynamo breaks the graph at `user_kernels.kept`: its size depends on data."""
ROOT = Path(__file__).parents[2]

Report = dict[str, Any]


def check(file: Path, *options: str, hidden: bool = False) -> Report:
    """Return the JSON report of one run; `hidden` hides the GPU."""
    command = [sys.executable, "-m", "tcexplore", "check", str(file), "--json", "--time-for", "0", *options]
    env = {**os.environ, "PYTHONPATH": str(ROOT)} | ({"CUDA_VISIBLE_DEVICES": ""} if hidden else {})
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    try:
        report: Report = json.loads(done.stdout)
    except json.JSONDecodeError:
        return {"status": f"no report: {done.stderr.strip()[-500:]}", "graphs": [], "kernels": [], "op_checks": []}
    return report


def user_ops(report: Report) -> set[tuple[str, str]]:
    """Return kind and name of the user's ops in the graphs."""
    nodes = (node for graph in report["graphs"] for node in graph["nodes"])
    return {(node["user_op"]["kind"], node["user_op"]["name"]) for node in nodes if node["user_op"]}


def own_kernels(report: Report, target: str) -> dict[str, Report]:
    kernels = (k for k in report["kernels"] if k["user_op"] and k["target"] == target)
    return {kernel["name"]: kernel for kernel in kernels}


def comparable(source: str) -> str:
    """Return a kernel's source without what only names the machine."""
    source = re.sub(r"DeviceProperties\(.*?\)", "", source)
    return re.sub(r"'[0-9A-F]{64}'|\b(True|False)\b", "", source)


def compare(name: str, live: Report, hidden: Report, target: str) -> list[str]:
    """Return a sentence for each difference."""
    problems = []
    if name != "stale_fake":
        problems += [f"{side} {r['status']}: {r.get('error')}" for side, r in (("live", live), ("hidden", hidden))
                     if r["status"] != "ok"]  # fmt: skip
    for side, report in (("live", live), ("hidden", hidden)):
        if (ops := user_ops(report)) != USER_OPS[name]:
            problems.append(f"{side}: user ops {sorted(ops)}, expected {sorted(USER_OPS[name])}")
    native_kernels, target_kernels = own_kernels(live, "native"), own_kernels(hidden, target)
    if native_kernels.keys() != target_kernels.keys():
        problems.append(f"kernels live {sorted(native_kernels)}, hidden {sorted(target_kernels)}")
    for kernel in native_kernels.keys() & target_kernels.keys():
        a, b = native_kernels[kernel], target_kernels[kernel]
        if a["source_lines"] != b["source_lines"]:
            problems.append(f"{kernel}: call sites live {a['source_lines']}, hidden {b['source_lines']}")
        if a["lines"] != b["lines"]:
            pairs = zip_longest(a["lines"] or (), b["lines"] or ())
            problems += [f"{kernel}: line live {x}, hidden {y}" for x, y in pairs if x != y]
        if a["language"] == "triton":
            before, after = (comparable(side["source"]).splitlines() for side in (a, b))
            changes = unified_diff(before, after, "live", "hidden", lineterm="", n=0)
            problems += [f"{kernel}: source {change}" for change in changes]
        if a["language"] == "triton" and not (a["stages"] and a["stages"].get("ptx")):
            problems.append(f"{kernel}: live, no PTX: {a['not_assembled']}")
    if name == "stale_fake" and not any(not c["passed"] and "f64" in c["reason"] for c in live["op_checks"]):
        problems.append(f"the stale fake implementation is not named: {live['op_checks']}")
    return problems


def main() -> int:
    target, failed = (sys.argv[1:] or ["h100"])[0], 0
    with tempfile.TemporaryDirectory() as folder:
        for name, source in PROGRAMS.items():
            file, began = Path(folder) / f"{name}.py", time.perf_counter()
            file.write_text(source)
            live = check(file)
            hidden = check(file, "--target", target, hidden=True)
            problems = compare(name, live, hidden, target)
            failed += len(problems)
            kernels = ", ".join(own_kernels(live, "native")) or "none"
            print(f"{name}: {time.perf_counter() - began:.0f} s, the user's kernels: {kernels}", *problems or ["equal"],
                  sep="\n   ", flush=True)  # fmt: skip
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
