"""`python -m tests.benchmarks.recompile_check [CASES] [SEED]`: "would it recompile?" against really calling.

Random changes of shape, dtype, layout and value over ten models, each asked about first: the verdict, the entry that
matches, the guard that fails first, and what would be dynamic in the new graph have to be what torch then does.
"""

from __future__ import annotations

import logging
import sys
import time
from collections import Counter

import torch

from tests.capture.recompile_check_models import SUBJECTS
from tests.capture.recompile_check_truth import agree, cases


def main(many: int = 300, seed: int = 0) -> int:
    """Print the figure, and every case in which the answers differ; returns how many those are."""
    torch._logging.set_logs(dynamo=logging.CRITICAL)
    started, verdicts, differ = time.perf_counter(), Counter[str](), 0
    for subject in SUBJECTS:
        for case in cases(subject, many // len(SUBJECTS), seed):
            verdicts[case.did.verdict] += 1
            if not agree(case):
                differ += 1
                print(f"{case.subject} {case.inputs}\n  said {case.said}\n  did  {case.did}")
    made = sum(verdicts.values())
    told = ", ".join(f"{verdict} {times}" for verdict, times in verdicts.most_common())
    print(f"torch {torch.__version__}: {made - differ} of {made} answers the same ({told}), "
          f"{time.perf_counter() - started:.0f} s")  # fmt: skip
    return differ


if __name__ == "__main__":
    sys.exit(1 if main(*map(int, sys.argv[1:])) else 0)
