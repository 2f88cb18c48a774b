"""Triton code generated without a GPU, compared with a real one's: `record` on the GPU machine, `compare` elsewhere.

    python -m tests.benchmarks.targets_identity record FILE [MODEL ...]
    python -m tests.benchmarks.targets_identity compare FILE [MODEL ...] [--diff] [--target NAME]
    python -m tests.benchmarks.targets_identity assemble FILE [--count N]

Both need the same torch, triton and transformers for the sources to be comparable; `compare` reports differences.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import gc
import gzip
import json
import random
import re
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import torch

from tests.targets.kernel_identity import (
    KINDS,
    digest,
    externs,
    kernels,
    normalized,
    read,
    run,
    versions,
    without_device,
)
from tests.targets.models import MODELS


def write(file: Path, facts: dict[str, Any]) -> None:
    file.write_bytes(gzip.compress(json.dumps(facts, separators=(",", ":")).encode(), 9, mtime=0))


def driver_resources() -> dict[str, list[dict[str, Any]]]:
    """Return the driver's report on every Triton kernel compiled so far, by the digest of its source."""
    from torch._inductor.runtime.triton_heuristics import CachingAutotuner

    resources: dict[str, list[dict[str, Any]]] = {}
    for tuner in [o for o in gc.get_objects() if issubclass(type(o), CachingAutotuner)]:
        results = [_resource(r) for r in getattr(tuner, "compile_results", ())]
        with contextlib.suppress(OSError):
            resources[digest(normalized(Path(tuner.filename).read_text()))] = results
    return resources


def _resource(result: Any) -> dict[str, Any]:
    kernel, config = result.kernel, result.config
    return {
        "config": {**config.kwargs, "num_warps": config.num_warps, "num_stages": config.num_stages},
        "registers": getattr(kernel, "n_regs", None),
        "spills": getattr(kernel, "n_spills", None),
        "shared": getattr(kernel.metadata, "shared", None),
    }


def record(file: Path, names: list[str]) -> int:
    """Run every model on this machine's GPU and record generated code, attention choices and resources."""
    from tests.targets.attention_cases import cases, choice_of

    facts: dict[str, Any] = {"versions": versions(), "device": _device(), "models": {}}
    facts["attention"] = [choice_of(case, "cuda") for case in cases()]
    sources: dict[str, str] = {}
    for name in names:
        for kind in KINDS:
            began = time.perf_counter()
            try:
                codes = run(name, kind, "cuda")
            except Exception as error:  # noqa: BLE001  one failing model must not lose the recording
                print(f"{name} {kind}: FAILED {type(error).__name__}: {str(error)[:300]}", flush=True)
                continue
            generated_kernels = kernels(codes)
            sources.update({digest(source): source for _, source in generated_kernels})
            facts["models"][f"{name} {kind}"] = {
                "kernels": [digest(source) for _, source in generated_kernels],
                "extern": externs(codes),
            }
            print(f"{name} {kind}: {len(generated_kernels)} kernels {time.perf_counter() - began:.1f} s", flush=True)
        facts["resources"] = driver_resources()
        write(file, {**facts, "sources": sources})
    matched = len(facts["resources"].keys() & sources.keys())
    print(f"{len(sources)} sources, resources of {matched} of {len(facts['resources'])} compiled", flush=True)
    return 0


def _device() -> dict[str, Any]:
    properties = torch.cuda.get_device_properties(0)
    names = [n for n in dir(properties) if not n.startswith("_")]
    values = {n: getattr(properties, n) for n in names}
    return {
        "properties": {n: v for n, v in values.items() if isinstance(v, int | str | float)},
        "capability": torch.cuda.get_device_capability(),
        "cudnn": torch.backends.cudnn.version(),
        "cuda": torch.version.cuda,
        "priority": torch._C._get_sdp_priority_order(),
    }


def print_skipped(event: Any) -> None:
    """Print why a graph was not lowered."""
    if type(event).__name__ == "TargetSkipped":
        print(f"   not lowered: {event.op} {event.reason}"[:600], flush=True)


def compare(file: Path, names: list[str], target: str, diff: bool) -> int:
    """Lower every model for the recorded device without a GPU, and count the kernels with identical source."""
    from tcexplore.targets.device_table import find_target

    facts = read(file)
    if facts["versions"] != versions():
        print(f"recorded with {facts['versions']}, running {versions()}: sources may differ because of the versions")
    backend, known = without_device(find_target(target), print_skipped), facts["sources"]
    totals = {kind: [0, 0] for kind in KINDS}
    for key, real in facts["models"].items():
        name, kind = key.split()
        if name not in names:
            continue
        began = time.perf_counter()
        codes = run(name, kind, "cpu", backend)
        lowered = kernels(codes)
        same = _count_common(real["kernels"], [digest(s) for _, s in lowered])
        totals[kind][0] += same
        totals[kind][1] += len(real["kernels"])
        calls = "" if externs(codes) == real["extern"] else "  extern calls differ"
        mark = "" if same == len(real["kernels"]) == len(lowered) else f"  <- {len(lowered)} lowered"
        seconds = time.perf_counter() - began
        print(f"{key}: {same} of {len(real['kernels'])} identical {seconds:.1f} s{mark}{calls}", flush=True)
        if diff:
            _show([known[d] for d in real["kernels"]], [s for _, s in lowered], real["extern"], externs(codes))
    print({kind: f"{same} of {all_}" for kind, (same, all_) in totals.items()})
    return 0


def _count_common(real: list[str], lowered: list[str]) -> int:
    return (Counter(real) & Counter(lowered)).total()


def _show(real: list[str], lowered: list[str], extern: list[str], called: list[str]) -> None:
    missing, added = [k for k in real if k not in lowered], [k for k in lowered if k not in real]
    for a, b in zip(missing, added, strict=False):
        print(
            "\n".join(
                list(difflib.unified_diff(a.splitlines(), b.splitlines(), "gpu", "lowered", lineterm="", n=0))[:14]
            )
        )
    if extern != called:
        print("\n".join(list(difflib.unified_diff(extern, called, "gpu", "lowered", lineterm="", n=0))[:14]))


def assemble(file: Path, count: int) -> int:
    """Assemble `count` recorded kernels on this machine and compare them with the driver's report."""
    from tcexplore.events import Kernel
    from tcexplore.targets.assembler import Assembler
    from tcexplore.targets.device_table import find_target

    facts, assembler, target = read(file), Assembler(), find_target("h200")
    chosen = random.Random(1).sample(sorted(facts["resources"]), count)
    matches: Counter[str] = Counter()
    for key in chosen:
        source, real = facts["sources"][key], {_config(r["config"]): r for r in facts["resources"][key]}
        name = re.findall(r"^def (triton_\w+)\(", source, re.M)[-1]
        kernel = Kernel(graph="0/0", phase="forward", name=name, language="triton", source=source)
        for event in assembler.assemble(kernel, target):
            recorded = real.get(getattr(event, "config", ""))
            matches.update(_agreement(event, recorded))
    assembler.close()
    print(f"{count} kernels: {dict(matches)}")
    return 0


def _config(options: dict[str, Any]) -> str:
    return ", ".join(f"{key}={value}" for key, value in options.items())


def _agreement(event: Any, real: dict[str, Any] | None) -> dict[str, int]:
    if not hasattr(event, "resources"):
        print(f"   not assembled: {event.kernel} {event.reason}")
        return {"not assembled": 1}
    if real is None:
        return {"configurations not recorded": 1}
    resources = event.resources
    return {
        "configurations": 1,
        "registers": resources.registers == real["registers"],
        "spills": resources.stack == 4 * real["spills"],
        "shared": resources.shared_dynamic == real["shared"],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("record", "compare", "assemble"))
    parser.add_argument("file", type=Path)
    parser.add_argument("models", nargs="*")
    parser.add_argument("--target", default="h200")
    parser.add_argument("--diff", action="store_true")
    parser.add_argument("--count", type=int, default=100)
    args = parser.parse_args()
    names = args.models or list(MODELS)
    if args.action == "assemble":
        return assemble(args.file, args.count)
    return record(args.file, names) if args.action == "record" else compare(args.file, names, args.target, args.diff)


if __name__ == "__main__":
    sys.exit(main())
