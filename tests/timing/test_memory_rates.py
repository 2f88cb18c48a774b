"""The rates at which a device reads and writes its memory."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tcexplore.timing import memory_rates
from tcexplore.timing.memory_rates import measure_memory_rates

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def few_elements(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_rates, "CPU_ELEMENTS", 4096)


def test_a_write_takes_as_long_as_a_read_and_at_most_twice_as_long():
    rates = measure_memory_rates(CPU)
    assert rates is not None
    assert 0.49 <= rates.written_bytes_per_s / rates.read_bytes_per_s <= 1.01


def test_the_last_cache_is_the_largest_one_that_the_system_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for index, text in enumerate(("32K\n", "1024K\n", "32768K\n", "unknown\n")):
        (tmp_path / f"index{index}").mkdir()
        (tmp_path / f"index{index}" / "size").write_text(text)
    monkeypatch.setattr(memory_rates, "CPU_CACHES", tmp_path)
    rates = measure_memory_rates(CPU)
    assert rates is not None
    assert rates.cache_bytes == 32 << 20
    monkeypatch.setattr(memory_rates, "CPU_CACHES", tmp_path / "none")
    rates = measure_memory_rates(CPU)
    assert rates is not None
    assert rates.cache_bytes is None


def test_a_device_that_cannot_run_the_ops_has_no_rates(monkeypatch: pytest.MonkeyPatch):
    def fail(*_: object, **__: object) -> None:
        raise torch.OutOfMemoryError("out of memory")

    monkeypatch.setattr(torch, "ones", fail)
    assert measure_memory_rates(CPU) is None
