"""Models lowered for every target of the table, each kernel down to SASS or AMDGCN: how many, and what was lost.

python -m tests.benchmarks.targets_all [MODEL ...]
"""

from __future__ import annotations

import sys
import time

from tcexplore.events import Kernel
from tcexplore.targets.assembler import Assembler
from tcexplore.targets.device_table import Target, all_targets
from tests.benchmarks import targets_identity as identity
from tests.benchmarks.targets_models import SMALL


def main() -> int:
    names, assembler, lost = sys.argv[1:] or list(SMALL), Assembler(), 0
    for target in all_targets().values():
        began, made, failed = time.perf_counter(), 0, []
        for name in names:
            for kind in identity.KINDS:
                kernels, reasons = _assembled(name, kind, target, assembler)
                made, failed = made + kernels, failed + reasons
        lost += len(failed)
        print(f"{target.key}: {made} kernels of {len(names)} models assembled, {len(failed)} lost, "
              f"{time.perf_counter() - began:.0f} s", *failed, sep="\n   ", flush=True)  # fmt: skip
    assembler.close()
    return bool(lost)


def _assembled(name: str, kind: str, target: Target, assembler: Assembler) -> tuple[int, list[str]]:
    last, made, failed = "amdgcn" if target.backend == "hip" else "sass", 0, []
    codes = identity.run(name, kind, "cpu", identity.without_device(target))
    if not codes:
        failed.append(f"{name} {kind}: not lowered")
    for kernel, source in identity.kernels(codes):
        record = Kernel(graph="0/0", phase="forward", name=kernel, language="triton", source=source)
        event = next(iter(assembler.assemble(record, target, first=1)))
        stages = getattr(event, "stages", ())
        if stages and stages[-1].name == last and stages[-1].lines:
            made += 1
        else:
            failed.append(f"{name} {kind} {kernel}: {getattr(event, 'reason', 'no ' + last)}")
    return made, failed


if __name__ == "__main__":
    sys.exit(main())
