"""Quantities with units."""

from __future__ import annotations

import pytest

from tcexplore.quantities import count, duration, size


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (count(1, "guard"), "1 guard"),
        (count(0, "guard"), "0 guards"),
        (count(1234, "guard"), "1,234 guards"),
        (size(0), "0 B"),
        (size(1023), "1023 B"),
        (size(2048), "2.0 KiB"),
        (size(3 << 40), "3.0 TiB"),
        (size(5 << 52), "20480.0 TiB"),
        (duration(0), "0.00 µs"),
        (duration(41.23e-6), "41.2 µs"),
        (duration(3.1e-3), "3.10 ms"),
        (duration(0.9999), "1000 ms"),
        (duration(123.4), "123 s"),
        (duration(-2.0), "-2.00 s"),
        (duration(599), "599 s"),
        (duration(1800), "30.0 min"),
        (duration(9000), "2.50 h"),
    ],
)
def test_units(text: str, expected: str):
    assert text == expected
