"""CPU use of other processes, and the frequency governor; requires no privileges."""

from __future__ import annotations

import os
import time
from pathlib import Path

STAT = Path("/proc/stat")
GOVERNOR = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")

WINDOW_S = 60.0
SHORTEST_WINDOW_S = 0.2


class OtherProcesses:
    """The number of cores that other processes use, averaged over at most the last minute."""

    def __init__(self, stat: Path = STAT) -> None:
        self._stat = stat
        self._since, self._busy, self._own = self._readings()

    def busy_cores(self) -> float | None:
        """Return the cores in use by others, by `/proc/stat` or else the load average; None if unknown."""
        now, busy, own = self._readings()
        seconds = now - self._since
        if busy is None or self._busy is None:
            return _from_load_average()
        if seconds < SHORTEST_WINDOW_S:
            return None
        others = max(0.0, (busy - self._busy) - (own - self._own)) / seconds
        if seconds > WINDOW_S:
            self._since, self._busy, self._own = now, busy, own
        return others

    def _readings(self) -> tuple[float, float | None, float]:
        return time.monotonic(), _busy_seconds(self._stat), time.process_time()


def frequency_governor(path: Path = GOVERNOR) -> str:
    """Return the first core's frequency governor, or an empty string if unknown."""
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def core_count() -> int:
    """Return the number of cores of the machine, regardless of this process's affinity."""
    return os.cpu_count() or 1


def _busy_seconds(stat: Path) -> float | None:
    """Return the CPU seconds of all processes since boot, summed over the cores."""
    try:
        label, user, nice, system, _idle, _wait, irq, softirq, *_ = stat.read_text().split("\n", 1)[0].split()
        ticks = sum(map(int, (user, nice, system, irq, softirq)))
        return ticks / float(os.sysconf("SC_CLK_TCK")) if label == "cpu" else None
    except (OSError, ValueError):
        return None


def _from_load_average() -> float | None:
    try:
        return max(0.0, os.getloadavg()[0] - 1)
    except (OSError, AttributeError):
        return None
