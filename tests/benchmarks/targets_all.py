"""Models lowered for every target, each kernel to SASS or AMDGCN: counts and failures.

python -m tests.benchmarks.targets_all [MODEL ...]
"""

from __future__ import annotations

import sys
import time

from tcexplore.events import Kernel
from tcexplore.targets.assembler import Assembler
from tcexplore.targets.device_table import Target, all_targets
from tests.benchmarks.targets_identity import print_skipped
from tests.targets import kernel_identity as identity
from tests.targets.models import SMALL


def main() -> int:
    names, assembler, failed = sys.argv[1:] or list(SMALL), Assembler(), 0
    for target in all_targets().values():
        began, assembled = time.perf_counter(), 0
        failures: list[str] = []
        for name in names:
            for kind in identity.KINDS:
                kernels, reasons = _assemble(name, kind, target, assembler)
                assembled, failures = assembled + kernels, failures + reasons
        failed += len(failures)
        print(f"{target.key}: {assembled} kernels of {len(names)} models assembled, {len(failures)} failed, "
              f"{time.perf_counter() - began:.0f} s", *failures, sep="\n   ", flush=True)  # fmt: skip
    assembler.close()
    return bool(failed)


def _assemble(name: str, kind: str, target: Target, assembler: Assembler) -> tuple[int, list[str]]:
    last, assembled, failures = "amdgcn" if target.backend == "hip" else "sass", 0, []
    codes = identity.run(name, kind, "cpu", identity.without_device(target, print_skipped))
    if not codes:
        failures.append(f"{name} {kind}: not lowered")
    for kernel, source in identity.kernels(codes):
        record = Kernel(graph="0/0", phase="forward", name=kernel, language="triton", source=source)
        event = next(iter(assembler.assemble(record, target, first=1)))
        stages = getattr(event, "stages", ())
        if stages and stages[-1].name == last and stages[-1].lines:
            assembled += 1
        else:
            failures.append(f"{name} {kind} {kernel}: {getattr(event, 'reason', 'no ' + last)}")
    return assembled, failures


if __name__ == "__main__":
    sys.exit(main())
