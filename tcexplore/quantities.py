"""Formatting of quantities: counts, sizes and durations, and of lists that are cut."""

from __future__ import annotations

from collections.abc import Sequence

_UNITS = (("h", 3600.0, 7200.0), ("min", 60.0, 600.0), ("s", 1.0, 1.0), ("ms", 1e-3, 1e-3), ("µs", 1e-6, 0.0))
"""Units, their seconds, and the smallest durations in seconds to use them for."""


def count(number: int, noun: str, plural: str = "") -> str:
    """Format a number with a noun: `1 graph break`, `2 graph breaks`, `1,234 guards`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {plural or f'{noun}s'}"


def first_of(texts: Sequence[str], most: int, joint: str = ", ", rest: str = " and ") -> str:
    """Return the first texts, and how many more there are: `0/0, 1/0 and 3 more`."""
    left = len(texts) - most
    return joint.join(texts[:most]) + (f"{rest}{left} more" if left > 0 else "")


def factor(ratio: float, decimals: int = 2) -> str:
    """Format how many times faster or slower something is, from a ratio of 1.31 or 0.76: `1.31×`."""
    return f"{max(ratio, 1 / ratio):.{decimals}f}×"


def factor_range(low: float, high: float, *, slower: bool = False) -> str:
    """Format the interval of such a ratio: `[1.25, 1.38]`; if it is of something slower, of how many times slower."""
    return f"[{1 / high:.2f}, {1 / low:.2f}]" if slower else f"[{low:.2f}, {high:.2f}]"


def speedup_range(value: float, low: float, high: float) -> str:
    """Format a speedup with its interval: `1.46× [1.31, 1.60]`."""
    return f"{value:.2f}× {factor_range(low, high)}"


def size(number: int) -> str:
    """Format a number of bytes with a binary unit: `768 B`, `2.0 KiB`, `1.5 MiB`."""
    amount, unit = float(number), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if amount < 1024 or unit == "TiB":
            break
        amount /= 1024
    return f"{amount:.0f} B" if unit == "B" else f"{amount:.1f} {unit}"


def duration(seconds: float) -> str:
    """Format a duration with three digits: `41.2 µs`, `3.10 ms`, `12.0 s`, from ten minutes on `10.0 min`, `2.00 h`."""
    if seconds < 0:
        return f"-{duration(-seconds)}"
    unit, scale = next((unit, scale) for unit, scale, smallest in _UNITS if seconds >= smallest)
    value = seconds / scale
    decimals = 0 if value >= 100 else 1 if value >= 10 else 2
    return f"{value:.{decimals}f} {unit}"


def rounded(number: int) -> str:
    """Format an estimate with three significant digits: `12,300`."""
    return f"{round(number, -max(0, len(str(number)) - 3)):,}"
