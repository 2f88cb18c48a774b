"""Compare the recompile check with real calls: `python -m tests.benchmarks.recompile_check [CASES] [SEED]`.

Makes random changes of shape, dtype, layout and value to the inputs of many models, compiled with and without
recompile limits, `dynamic` and `isolate_recompiles`, as runs and as regions of a script. For each call, the predicted
verdict, the matching entry, the first failed guard and the dynamic sizes must match torch's actual behavior.
"""

from __future__ import annotations

import logging
import sys
import time
from collections import Counter

import torch

from tests.capture.recompile_check_models import CHECKED_MODELS, OPTION_MODELS
from tests.capture.recompile_check_truth import agrees, check_cases


def main(count: int = 300, seed: int = 0) -> int:
    """Print the number of agreements and every disagreement; return the number of disagreements."""
    torch._logging.set_logs(dynamo=logging.CRITICAL)
    started, verdicts, disagreements = time.perf_counter(), Counter[str](), 0
    models = (*CHECKED_MODELS, *OPTION_MODELS)
    for model in models:
        for case in check_cases(model, -(-count // len(models)), seed):
            verdicts[case.observed.verdict] += 1
            if not agrees(case):
                disagreements += 1
                print(f"{case.model} {case.inputs}\n  predicted {case.predicted}\n  observed  {case.observed}")
    total, seconds = sum(verdicts.values()), time.perf_counter() - started
    counts = ", ".join(f"{verdict} {times}" for verdict, times in verdicts.most_common())
    print(f"torch {torch.__version__}: {total - disagreements} of {total} answers agree ({counts}), {seconds:.0f} s")
    return disagreements


if __name__ == "__main__":
    sys.exit(1 if main(*map(int, sys.argv[1:])) else 0)
