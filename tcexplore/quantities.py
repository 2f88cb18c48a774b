"""Quantities in words."""

from __future__ import annotations

_UNITS = (("h", 3600.0, 7200.0), ("min", 60.0, 600.0), ("s", 1.0, 1.0), ("ms", 1e-3, 1e-3), ("µs", 1e-6, 0.0))
"""Unit, its seconds, and from how many seconds on it is used."""


def count(number: int, noun: str) -> str:
    """`1 graph break`, `2 graph breaks`, `1,234 guards`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def size(number: int) -> str:
    """A number of bytes with a binary unit: `768 B`, `2.0 KiB`, `1.5 MiB`."""
    amount, unit = float(number), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if amount < 1024 or unit == "TiB":
            break
        amount /= 1024
    return f"{amount:.0f} B" if unit == "B" else f"{amount:.1f} {unit}"


def duration(seconds: float) -> str:
    """A time to three digits with a unit: `41.2 µs`, `3.10 ms`, `12.0 s`, from ten minutes on `10.0 min`, `2.00 h`."""
    if seconds < 0:
        return f"-{duration(-seconds)}"
    unit, scale = next((unit, scale) for unit, scale, least in _UNITS if seconds >= least)
    value = seconds / scale
    decimals = 0 if value >= 100 else 1 if value >= 10 else 2
    return f"{value:.{decimals}f} {unit}"


def rounded(number: int) -> str:
    """Three figures of a number that has no more to it: `12,300`."""
    return f"{round(number, -max(0, len(str(number)) - 3)):,}"
