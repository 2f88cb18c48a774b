"""The device table, and a user's own TARGET.toml."""

from __future__ import annotations

from pathlib import Path

import pytest

from tcexplore.targets.device_table import TargetError, find, targets

NAMES = ("h100", "h200", "a100", "l4", "rtx4090", "b200", "mi300x")


def test_every_promised_target_is_there_with_its_sources():
    known = targets()
    assert known.keys() == set(NAMES)
    assert all(target.sources for target in known.values())


def test_only_what_was_read_off_hardware_says_so():
    assert [key for key, target in targets().items() if target.read_from_hardware] == ["h100", "h200"]


@pytest.mark.parametrize("name", NAMES)
def test_the_facts_of_a_device_agree_with_each_other(name: str):
    target = find(name)
    properties, limits, peaks = target.properties, target.occupancy, target.peaks
    assert limits.max_warps * properties.warp_size == properties.max_threads_per_multi_processor
    assert properties.shared_memory_per_block_optin <= properties.shared_memory_per_multiprocessor
    # Double data rate: two transfers a clock; HBM and GDDR parts are quoted within a few per cent of this.
    transfers = 4 if name == "mi300x" else 2
    implied = transfers * properties.memory_clock_rate * 1e3 * properties.memory_bus_width / 8
    assert implied == pytest.approx(peaks.memory, rel=0.05)
    assert peaks.fp32 < (peaks.bf16 or 1e99)


def test_own_target_starts_from_a_known_one(tmp_path: Path):
    file = tmp_path / "h20.toml"
    file.write_text(
        'like = "h200"\nsources = ["mine"]\n[properties]\nmulti_processor_count = 78\n[peaks]\nbf16 = 148e12\n'
    )
    own = find(str(file))
    assert (own.key, own.properties.multi_processor_count, own.capability) == ("h20", 78, (9, 0))
    assert own.peaks.bf16 == 148e12
    assert own.sources == ("mine",)
    assert not own.read_from_hardware


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = [", "is not TOML"),
        ('like = "h201"', "no target called 'h201'"),
        ('like = "h200"\nspeed = 3', "does not know speed"),
        ('like = "h200"\n[properties]\nwarps = 3', "does not know warps"),
        ('like = "h200"\n[properties]\nwarp_size = "32"', "warp_size is '32'; it is a whole number"),
        ('like = "h200"\n[peaks]\nmemory = true', "memory is True; it is a number"),
        ('like = "h200"\nbackend = "metal"', "either 'cuda' or 'hip'"),
        ('like = "h200"\nproperties = 3', "is a table of values"),
        ('backend = "cuda"', "lacks"),
    ],
)
def test_a_wrong_file_is_explained(tmp_path: Path, text: str, said: str):
    file = tmp_path / "own.toml"
    file.write_text(text)
    with pytest.raises(TargetError, match=said):
        find(str(file))


def test_an_unknown_name_and_a_missing_file_are_explained(tmp_path: Path):
    with pytest.raises(TargetError, match="use one of a100, b200, h100"):
        find("v100")
    with pytest.raises(TargetError, match="cannot read"):
        find(str(tmp_path / "none.toml"))


def test_a_target_is_found_again_by_what_it_is_named(tmp_path: Path):
    file = tmp_path / "mine.toml"
    file.write_text('like = "l4"')
    own = find(str(file))
    assert find(own.named) == own
    assert all(find(target.named) is target for target in targets().values())


def test_no_file_may_pass_for_the_device_in_the_machine(tmp_path: Path):
    file = tmp_path / "native.toml"
    file.write_text('like = "l4"')
    with pytest.raises(TargetError, match="give the file another name"):
        find(str(file))
