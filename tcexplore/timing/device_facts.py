"""The GPU as its driver describes it now: through NVML where torch finds it, the rest from torch itself."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import torch

from tcexplore.events import DeviceFacts

REASONS = (
    ("nvmlClocksThrottleReasonApplicationsClocksSetting", "the clocks that applications are given"),
    ("nvmlClocksThrottleReasonSwPowerCap", "the power limit"),
    ("nvmlClocksThrottleReasonHwSlowdown", "the hardware's slowdown"),
    ("nvmlClocksThrottleReasonSyncBoost", "the clocks of other GPUs"),
    ("nvmlClocksThrottleReasonSwThermalSlowdown", "heat"),
    ("nvmlClocksThrottleReasonHwThermalSlowdown", "heat, by the hardware"),
    ("nvmlClocksThrottleReasonHwPowerBrakeSlowdown", "the power brake"),
)
"""NVML's names of the bits, and what they say; an idle GPU is not slowed down."""


class NoDriverFactsError(RuntimeError):
    """The driver cannot be asked; the message says why."""


def device_facts(device: torch.device) -> DeviceFacts | None:
    """What is known of `device` now; None for a device that is no CUDA GPU. Raises nothing."""
    if device.type != "cuda":
        return None
    free, total = torch.cuda.mem_get_info(device)
    real = torch.cuda.get_device_properties(device)
    try:
        driver = dict(_driver(*_nvml(device)))
    except NoDriverFactsError:
        driver = {}
    return DeviceFacts(
        name=real.name,
        capability=f"{real.major}.{real.minor}",
        memory_total=total,
        memory_free=free,
        memory_reserved=torch.cuda.memory_reserved(device),
        **driver,
    )


def why_unknown(device: torch.device) -> str:
    """Why the driver does not tell clocks and power; empty where it does."""
    try:
        _nvml(device)
    except NoDriverFactsError as error:
        return str(error)
    return ""


def _nvml(device: torch.device) -> tuple[Any, Any]:
    """NVML and the device's handle in it, found as torch finds them. Raises `NoDriverFactsError`."""
    handler = getattr(torch.cuda, "_get_pynvml_handler", None)
    if handler is None:
        raise NoDriverFactsError("this torch does not ask NVML")
    try:
        handle = handler(device)
        import pynvml  # type: ignore[import-not-found,unused-ignore]
    except Exception as error:
        said = str(error).partition("\n")[0]
        raise NoDriverFactsError(f"NVML cannot be asked ({said}); nvidia-ml-py brings it") from error
    return pynvml, handle


def _driver(nvml: Any, handle: Any) -> Iterator[tuple[str, Any]]:
    """Each fact that the driver gives; one that this GPU has not is left out."""
    sm, memory = getattr(nvml, "NVML_CLOCK_SM", 1), getattr(nvml, "NVML_CLOCK_MEM", 2)
    asked: tuple[tuple[str, Callable[[], Any]], ...] = (
        ("driver", lambda: _text(nvml.nvmlSystemGetDriverVersion())),
        ("sm_clock", lambda: nvml.nvmlDeviceGetClockInfo(handle, sm)),
        ("sm_clock_max", lambda: nvml.nvmlDeviceGetMaxClockInfo(handle, sm)),
        ("memory_clock", lambda: nvml.nvmlDeviceGetClockInfo(handle, memory)),
        ("memory_clock_max", lambda: nvml.nvmlDeviceGetMaxClockInfo(handle, memory)),
        ("slowed_by", lambda: slowed_by(nvml, nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle))),
        ("temperature", lambda: nvml.nvmlDeviceGetTemperature(handle, 0)),
        ("power", lambda: nvml.nvmlDeviceGetPowerUsage(handle) / 1e3),
        ("power_limit", lambda: nvml.nvmlDeviceGetEnforcedPowerLimit(handle) / 1e3),
        ("memory_used", lambda: _used(nvml.nvmlDeviceGetComputeRunningProcesses(handle))),
    )
    for name, ask in asked:
        try:
            yield name, ask()
        except Exception:
            continue


def slowed_by(nvml: Any, reasons: int) -> tuple[str, ...]:
    """The driver's reasons for a clock below the highest, in words."""
    return tuple(said for name, said in REASONS if reasons & int(getattr(nvml, name, 0)))


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def _used(processes: list[Any]) -> int | None:
    """Bytes that the driver counts for this process; in a container it may know it by another number."""
    return next((one.usedGpuMemory for one in processes if one.pid == os.getpid()), None)
