"""What `--target` takes, told without reading any device: the command line says it at every start."""

from __future__ import annotations

from functools import cache
from pathlib import Path

NATIVE = "native"
"""The device that is in the machine; never a target of the table."""

DEVICES = Path(__file__).parent / "devices"
"""A file for each device that ships."""


@cache
def names() -> tuple[str, ...]:
    """The devices that ship, in the order of the alphabet."""
    return tuple(sorted(file.stem for file in DEVICES.glob("*.toml")))
