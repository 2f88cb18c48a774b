from __future__ import annotations

import pytest
import torch

from tcexplore.capture.inductor.call_profile import measure_device_busy
from tcexplore.timing.timed_machine import device_name, make_span_timer, make_synchronizer
from tcexplore.timing.timing_run import measure_timing
from tests.timing.simulation import Recorder, workload

CPU = torch.device("cpu")


def test_a_cpu_has_a_name_but_no_device_timer():
    assert device_name(CPU) == "cpu"
    assert make_span_timer(CPU, None) is None


@pytest.mark.torch
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_many_small_launches_are_launch_bound_and_one_long_kernel_is_not():
    cuda = torch.device("cuda")
    small, large = torch.ones(16, device=cuda), torch.ones(4096, 4096, device=cuda)

    def launches() -> None:
        for _ in range(50):
            small.add_(1)

    def product() -> None:
        torch.mm(large, large)

    recorder = Recorder()
    measure_timing(workload(product, launches, device=cuda), recorder, 1.0)
    last = recorder.last
    assert last.eager_device_span_us == pytest.approx(last.eager_us, rel=0.3)
    assert last.compiled_device_span_us is not None
    busy_us = measure_device_busy(launches, lambda: None)
    assert busy_us < last.compiled_device_span_us, "the gaps between kernels"
    assert last.with_kernels(None, busy_us).launch_bound
    assert last.device.startswith("cuda: ")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_the_synchronizer_waits_for_queued_work():
    cuda = torch.device("cuda")
    large = torch.ones(8192, 8192, device=cuda)
    done = torch.cuda.Event()
    torch.mm(large, large)
    done.record()
    make_synchronizer(cuda)()
    assert done.query()
