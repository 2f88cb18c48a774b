"""What a driver tells of its GPU, with a driver made up."""

from __future__ import annotations

import os
import sys
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tcexplore.timing import device_facts as room
from tcexplore.timing.device_facts import device_facts, slowed_by, why_unknown

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
def test_what_the_driver_does_not_tell_is_left_out(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "pynvml", Driver())
    monkeypatch.setattr(torch.cuda, "_get_pynvml_handler", lambda _: "handle", raising=False)
    found = device_facts(CUDA)
    assert found is not None
    assert (found.name, found.capability, found.driver) == ("NVIDIA X", "9.0", "580.1")
    assert (found.sm_clock, found.sm_clock_max, found.memory_clock) == (1200, 1980, 3201)
    assert found.slowed_by == ("the power limit", "heat")
    assert (found.power, found.temperature) == (None, None)
    assert (found.memory_used, found.memory_reserved, found.memory_free) == (9, 5, 10)
    assert why_unknown(CUDA) == ""


@pytest.mark.usefixtures("gpu")
def test_without_nvml_torch_alone_is_asked_and_the_reason_said(monkeypatch: pytest.MonkeyPatch):
    def absent(_: object) -> object:
        raise ModuleNotFoundError("No module named 'pynvml'")

    monkeypatch.setattr(torch.cuda, "_get_pynvml_handler", absent, raising=False)
    found = device_facts(CUDA)
    assert found is not None
    assert (found.driver, found.sm_clock, found.memory_total) == ("", None, 20)
    assert "No module named 'pynvml'" in why_unknown(CUDA)
    monkeypatch.delattr(torch.cuda, "_get_pynvml_handler")
    assert why_unknown(CUDA) == "this torch does not ask NVML"


def test_a_cpu_has_none_of_it_and_an_idle_gpu_is_not_slowed_down():
    assert device_facts(torch.device("cpu")) is None
    assert slowed_by(Driver(), 1) == ()
    assert len({said for _, said in room.REASONS}) == len(room.REASONS)
