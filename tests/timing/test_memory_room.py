"""Memory for eager steps."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tcexplore.timing import memory_room
from tcexplore.timing.memory_room import MemoryRoom

CPU = torch.device("cpu")


def use(monkeypatch: pytest.MonkeyPatch, folder: Path, *, resident_mib: int, available_mib: int) -> MemoryRoom:
    """Return the room of a machine with so much memory."""
    meminfo = folder / "meminfo"
    meminfo.write_text(f"MemTotal: 1 kB\nMemAvailable: {available_mib << 10} kB\n")
    monkeypatch.setattr(memory_room, "MEMINFO", meminfo)
    monkeypatch.setattr(memory_room, "_resident", lambda: resident_mib << 20)
    return MemoryRoom(CPU)


def test_eager_steps_begin_only_if_compiled_ones_leave_half_of_the_memory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    assert not use(monkeypatch, tmp_path, resident_mib=400, available_mib=600).reason_not_to_begin()
    reason = use(monkeypatch, tmp_path, resident_mib=600, available_mib=400).reason_not_to_begin()
    assert "600.0 MiB of the 1000.0 MiB" in reason


def test_eager_steps_stop_before_memory_is_used_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    assert not use(monkeypatch, tmp_path, resident_mib=900, available_mib=100).reason_to_stop()
    assert "ran low" in use(monkeypatch, tmp_path, resident_mib=970, available_mib=30).reason_to_stop()


def test_unknown_memory_is_no_reason(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(memory_room, "MEMINFO", tmp_path / "none")
    monkeypatch.setattr(memory_room, "STATUS", tmp_path / "none")
    assert not MemoryRoom(CPU).reason_not_to_begin()
    assert not MemoryRoom(CPU).reason_to_stop()
