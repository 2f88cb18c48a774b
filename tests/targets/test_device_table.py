"""The device table, and a user's own TARGET.toml."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tcexplore.targets.device_table import TargetError, all_targets, find_target
from tests.faults.terminal_bytes import control_characters

NAMES = ("h100", "h200", "a100", "l4", "rtx4090", "b200", "b300", "rtx5090", "gb10", "mi300x", "mi355x")


def test_every_bundled_target_has_sources():
    known = all_targets()
    assert known.keys() == set(NAMES)
    assert all(target.sources for target in known.values())


def test_only_hopper_properties_were_read_from_hardware():
    assert [key for key, target in all_targets().items() if target.read_from_hardware] == ["h100", "h200"]


@pytest.mark.parametrize("name", NAMES)
def test_the_properties_of_a_device_are_consistent(name: str):
    target = find_target(name)
    properties, limits, peaks = target.properties, target.occupancy, target.peaks
    assert limits.max_warps * properties.warp_size == properties.max_threads_per_multi_processor
    assert properties.shared_memory_per_block_optin <= properties.shared_memory_per_multiprocessor
    assert peaks.fp32 < (peaks.bf16 or 1e99)
    if properties.memory_clock_rate and properties.memory_bus_width:
        # Double data rate: two transfers a clock; HBM and GDDR parts are quoted within a few percent of this.
        transfers = 4 if target.backend == "hip" else 2
        implied = transfers * properties.memory_clock_rate * 1e3 * properties.memory_bus_width / 8
        assert implied == pytest.approx(peaks.memory, rel=0.05)
    else:
        assert "memory_clock_rate" in target.missing


def test_facts_without_a_source_are_listed_as_missing():
    assert find_target("h100").missing == ()
    assert find_target("gb10").missing == ("clock_rate", "tf32", "bf16")


def test_a_user_target_extends_a_bundled_one(tmp_path: Path):
    file = tmp_path / "h20.toml"
    file.write_text(
        'like = "h200"\nsources = ["mine"]\n[properties]\nmulti_processor_count = 78\n[peaks]\nbf16 = 148e12\n'
    )
    own = find_target(str(file))
    assert (own.key, own.properties.multi_processor_count, own.capability) == ("h20", 78, (9, 0))
    assert own.peaks.bf16 == 148e12
    assert own.sources == ("mine",)
    assert not own.read_from_hardware


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = [", "is not TOML"),
        ('like = "h201"', "like is 'h201'; it must be one of a100"),
        ('like = "h200"\nspeed = 3', "has unknown keys: speed"),
        ('like = "h200"\n[properties]\nwarps = 3', "has unknown keys: warps"),
        ('like = "h200"\n[properties]\nwarp_size = "32"', "warp_size is '32'; it must be an integer"),
        ('like = "h200"\n[peaks]\nmemory = true', "memory is True; it must be a number"),
        ('like = "h200"\nbackend = "metal"', "must be 'cuda' or 'hip'"),
        ('like = "h200"\nproperties = 3', "must be a table"),
        ('like = "own.toml"', "like is 'own.toml'; it must be one of"),
        ("like = 3", "like is 3; it must be one of"),
        ('like = "h200"\narch = 1.5', "arch is 1.5; it must be text"),
        ('like = "h200"\n[properties]\nname = [1]', r"name is \[1\]; it must be text"),
        ('like = "h200"\n[properties]\nwarp_size = 0', "warp_size is 0; it must be positive"),
        ('like = "h200"\n[peaks]\nmemory = nan', "memory is nan; it must be positive"),
        ('like = "h200"\n[peaks]\nmemory = inf', "memory is inf; it must be positive, and finite"),
        ('like = "h200"\n[occupancy]\nshared_reserved = -1', "shared_reserved is -1; it must be 0 or more"),
        ("a = " + "[" * 5000, "is not TOML"),
        ('backend = "cuda"', "lacks"),
    ],
)
def test_an_invalid_file_is_rejected_with_the_reason(tmp_path: Path, text: str, message: str):
    file = tmp_path / "own.toml"
    file.write_text(text)
    with pytest.raises(TargetError, match=message):
        find_target(str(file))


def test_an_unknown_name_and_a_missing_file_are_rejected_with_the_reason(tmp_path: Path):
    with pytest.raises(TargetError, match="use one of a100, b200, b300"):
        find_target("v100")
    with pytest.raises(TargetError, match="cannot read"):
        find_target(str(tmp_path / "none.toml"))


def test_a_pipe_is_no_target(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe.toml")
    with pytest.raises(TargetError, match="not a regular file"):
        find_target(str(tmp_path / "pipe.toml"))


def test_text_of_a_user_target_is_cleaned(tmp_path: Path):
    file = tmp_path / "a\x1b[2J.toml"
    file.write_text('like = "h200"\nsources = ["\\u001b[2J"]\n[properties]\nname = "\\u009b2J\\u202e"\n')
    own = find_target(str(file))
    texts = (own.key, own.properties.name, *own.sources)
    assert all(control_characters(text) == [] for text in texts), texts


def test_a_reference_finds_its_target(tmp_path: Path):
    file = tmp_path / "mine.toml"
    file.write_text('like = "l4"')
    own = find_target(str(file))
    assert find_target(own.reference) == own
    assert all(find_target(target.reference) is target for target in all_targets().values())


def test_a_file_named_native_is_rejected(tmp_path: Path):
    file = tmp_path / "native.toml"
    file.write_text('like = "l4"')
    with pytest.raises(TargetError, match="give the file another name"):
        find_target(str(file))
