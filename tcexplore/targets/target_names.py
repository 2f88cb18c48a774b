"""Names that `--target` accepts, listed without reading the device files: the command line needs them at startup."""

from __future__ import annotations

from functools import cache
from pathlib import Path

NATIVE = "native"
"""The device in this machine; no target in the table has this name."""

DEVICES = Path(__file__).parent / "devices"
"""One file per device."""


@cache
def target_names() -> tuple[str, ...]:
    """Return the names of all bundled targets, sorted."""
    return tuple(sorted(file.stem for file in DEVICES.glob("*.toml")))
