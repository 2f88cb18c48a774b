"""Records that are new in torch 2.15: slow jobs of compile workers, their end, and compiles of torch's native ops.

A backend waits for jobs that sleep, as a slow compile would; torch reports each of them every second.
"""

import functools
import os
import signal
import time

os.environ["TORCHINDUCTOR_COMPILE_WORKER_WATCHDOG_INTERVAL"] = "1"
os.environ["TORCH_LOGS"] = "+native_dsl_compile"

import torch
from torch._inductor.compile_worker.subproc_pool import SubprocPool, _report_phase_and_sleep_for_test
from torch._native.instrumentation import instrument_cutedsl_compile

COMPILING = 2


@instrument_cutedsl_compile("aten::topk")
@functools.lru_cache
def compile_topk(size):
    time.sleep(0.05)
    return size


def slow(graph, _):
    compile_topk(8)
    compile_topk(8)
    pool = SubprocPool(1)
    pool.submit(_report_phase_and_sleep_for_test, COMPILING, 2.5).result()
    # A process that is killed closes its pipe, which torch often notices first, and then it writes no record.
    pool._on_sidecar_death(-signal.SIGKILL)
    pool.process.kill()
    return graph.forward


torch.compile(lambda x: x + 1, backend=slow)(torch.ones(8))
