"""Facts about a GPU from a fake driver."""

from __future__ import annotations

import os
import sys
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tcexplore.timing.device_facts import THROTTLE_REASONS, device_facts, nvml_error, throttle_reasons

CUDA = torch.device("cuda")
POWER_CAP, HEAT = 4, 32


class Driver(SimpleNamespace):
    nvmlClocksThrottleReasonSwPowerCap = POWER_CAP  # noqa: N815
    nvmlClocksThrottleReasonSwThermalSlowdown = HEAT  # noqa: N815

    def nvmlSystemGetDriverVersion(self) -> bytes:  # noqa: N802
        return b"580.1"

    def nvmlDeviceGetClockInfo(self, _: object, which: int) -> int:  # noqa: N802
        return {1: 1200, 2: 3201}[which]

    def nvmlDeviceGetMaxClockInfo(self, _: object, which: int) -> int:  # noqa: N802
        return {1: 1980, 2: 3201}[which]

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, _: object) -> int:  # noqa: N802
        return POWER_CAP | HEAT | 1

    def nvmlDeviceGetPowerUsage(self, _: object) -> int:  # noqa: N802
        raise RuntimeError("not supported")

    def nvmlDeviceGetComputeRunningProcesses(self, _: object) -> list[Any]:  # noqa: N802
        return [SimpleNamespace(pid=1, usedGpuMemory=7), SimpleNamespace(pid=os.getpid(), usedGpuMemory=9)]


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    real = SimpleNamespace(name="NVIDIA X", major=9, minor=0)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (10, 20))
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: real)
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda _: 5)


@pytest.mark.usefixtures("gpu")
def test_facts_that_the_driver_lacks_are_left_out(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "pynvml", Driver())
    monkeypatch.setattr(torch.cuda, "_get_pynvml_handler", lambda _: "handle", raising=False)
    facts = device_facts(CUDA)
    assert facts is not None
    assert (facts.name, facts.capability, facts.driver) == ("NVIDIA X", "9.0", "580.1")
    assert (facts.sm_clock, facts.sm_clock_max, facts.memory_clock) == (1200, 1980, 3201)
    assert facts.slowed_by == ("the power limit", "heat")
    assert (facts.power, facts.temperature) == (None, None)
    assert (facts.memory_used, facts.memory_reserved, facts.memory_free) == (9, 5, 10)
    assert nvml_error(CUDA) == ""


@pytest.mark.usefixtures("gpu")
def test_without_nvml_facts_come_from_torch_and_the_reason_is_given(monkeypatch: pytest.MonkeyPatch):
    def absent(_: object) -> object:
        raise ModuleNotFoundError("No module named 'pynvml'")

    monkeypatch.setattr(torch.cuda, "_get_pynvml_handler", absent, raising=False)
    facts = device_facts(CUDA)
    assert facts is not None
    assert (facts.driver, facts.sm_clock, facts.memory_total) == ("", None, 20)
    assert "No module named 'pynvml'" in nvml_error(CUDA)
    monkeypatch.delattr(torch.cuda, "_get_pynvml_handler")
    assert nvml_error(CUDA) == "this torch does not use NVML"


def test_a_cpu_has_no_facts_and_an_idle_gpu_is_not_throttled():
    assert device_facts(torch.device("cpu")) is None
    assert throttle_reasons(Driver(), 1) == ()
    assert len({text for _, text in THROTTLE_REASONS}) == len(THROTTLE_REASONS)
