"""The conditions that samples were taken under."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """Under which conditions the samples were taken; `unsettled` is how far apart the gate's last rounds were.

    `slow` is set once the time for a first answer is over: fewer pairs then have to do.
    """

    threads: int
    device: str
    train: bool
    calls: int
    block: int
    block_compiled: int
    cores: int = 1
    busy_cores: float | None = None
    governor: str = ""
    restored: bool = False
    unsettled: float = 0.0
    slow: bool = False
    device_eager_us: float | None = None
    device_compiled_us: float | None = None
    core_apart: int | None = None
    """The core that was left to the terminal app; None where there were none to spare."""
