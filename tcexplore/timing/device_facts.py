"""Current facts about the GPU, from NVML if torch finds it, else from torch."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import torch

from tcexplore.capture.hooks import Hooks
from tcexplore.events import DeviceFacts

THROTTLE_REASONS = (
    ("nvmlClocksThrottleReasonApplicationsClocksSetting", "the application clock setting"),
    ("nvmlClocksThrottleReasonSwPowerCap", "the power limit"),
    ("nvmlClocksThrottleReasonHwSlowdown", "hardware slowdown"),
    ("nvmlClocksThrottleReasonSyncBoost", "clock synchronization with other GPUs"),
    ("nvmlClocksThrottleReasonSwThermalSlowdown", "heat"),
    ("nvmlClocksThrottleReasonHwThermalSlowdown", "heat (hardware limit)"),
    ("nvmlClocksThrottleReasonHwPowerBrakeSlowdown", "the power brake"),
)
"""NVML's bit names and their descriptions. The bit of an idle GPU is not listed."""


class NvmlError(RuntimeError):
    """NVML is not available; the message gives the reason."""


CLOCKS = "clocks and driver of the device"
"""Name of the fact that NVML provides."""


def emit_device_facts(device: torch.device, hooks: Hooks) -> None:
    """Emit the facts of a device, if it has any, and why NVML gives no clocks."""
    facts = device_facts(device)
    if facts is None:
        return
    hooks.emit(facts)
    if reason := nvml_error(device):
        hooks.report_missing(CLOCKS, "pynvml", reason)


def device_facts(device: torch.device) -> DeviceFacts | None:
    """Return facts about `device`, or None if it is not a CUDA GPU. Raises nothing."""
    if device.type != "cuda":
        return None
    free, total = torch.cuda.mem_get_info(device)
    real = torch.cuda.get_device_properties(device)
    try:
        driver = dict(_driver(*_nvml(device)))
    except NvmlError:
        driver = {}
    return DeviceFacts(
        name=real.name,
        capability=f"{real.major}.{real.minor}",
        memory_total=total,
        memory_free=free,
        memory_reserved=torch.cuda.memory_reserved(device),
        **driver,
    )


def nvml_error(device: torch.device) -> str:
    """Return the reason why clocks and power are unknown, or an empty string if they are known."""
    try:
        _nvml(device)
    except NvmlError as error:
        return str(error)
    return ""


def _nvml(device: torch.device) -> tuple[Any, Any]:
    """Return NVML and its handle of the device, found the same way as torch does. Raises `NvmlError`."""
    handler = getattr(torch.cuda, "_get_pynvml_handler", None)
    if handler is None:
        raise NvmlError("this torch does not use NVML")
    try:
        handle = handler(device)
        import pynvml  # type: ignore[import-not-found,unused-ignore]
    except Exception as error:  # torch and NVML raise various types if library or driver are missing
        reason = str(error).partition("\n")[0]
        raise NvmlError(f"NVML is not available ({reason}); install nvidia-ml-py") from error
    return pynvml, handle


def _driver(nvml: Any, handle: Any) -> Iterator[tuple[str, Any]]:
    """Yield each fact that the driver provides for this GPU."""
    sm, memory = getattr(nvml, "NVML_CLOCK_SM", 1), getattr(nvml, "NVML_CLOCK_MEM", 2)
    queries: tuple[tuple[str, Callable[[], Any]], ...] = (
        ("driver", lambda: _text(nvml.nvmlSystemGetDriverVersion())),
        ("sm_clock", lambda: nvml.nvmlDeviceGetClockInfo(handle, sm)),
        ("sm_clock_max", lambda: nvml.nvmlDeviceGetMaxClockInfo(handle, sm)),
        ("memory_clock", lambda: nvml.nvmlDeviceGetClockInfo(handle, memory)),
        ("memory_clock_max", lambda: nvml.nvmlDeviceGetMaxClockInfo(handle, memory)),
        ("slowed_by", lambda: throttle_reasons(nvml, nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle))),
        ("temperature", lambda: nvml.nvmlDeviceGetTemperature(handle, 0)),
        ("power", lambda: nvml.nvmlDeviceGetPowerUsage(handle) / 1e3),
        ("power_limit", lambda: nvml.nvmlDeviceGetEnforcedPowerLimit(handle) / 1e3),
        ("memory_used", lambda: _used(nvml.nvmlDeviceGetComputeRunningProcesses(handle))),
    )
    for name, query in queries:
        try:
            yield name, query()
        except Exception:  # noqa: BLE001  NVML raises for facts that this GPU or driver does not have
            continue


def throttle_reasons(nvml: Any, bits: int) -> tuple[str, ...]:
    """Describe the driver's reasons for a reduced clock."""
    return tuple(text for name, text in THROTTLE_REASONS if bits & int(getattr(nvml, name, 0)))


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def _used(processes: list[Any]) -> int | None:
    """Return the bytes that the driver counts for this process; None if it has another id, as in a container."""
    return next((process.usedGpuMemory for process in processes if process.pid == os.getpid()), None)
