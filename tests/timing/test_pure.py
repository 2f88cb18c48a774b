"""Modules of timing that do not import torch."""

from __future__ import annotations

import subprocess
import sys


def test_statistics_never_import_torch():
    modules = (
        "timing_verdict",
        "estimate",
        "samples",
        "sampler",
        "steady_state",
        "workload",
    )
    program = (
        f"import sys, {', '.join(f'tcexplore.timing.{name}' for name in modules)}; assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
