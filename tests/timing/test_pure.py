"""The half of timing that needs no torch."""

from __future__ import annotations

import subprocess
import sys


def test_the_pure_half_never_imports_torch():
    modules = (
        "sample_statistics",
        "timing_verdict",
        "estimate",
        "timing_notes",
        "pair_order",
        "pace",
        "steady_state",
        "workload",
    )
    program = (
        f"import sys, {', '.join(f'tcexplore.timing.{name}' for name in modules)}; assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
