"""The device table: what torch and Triton ask a GPU about itself, for GPUs that are not in this machine.

A file of `devices` holds one: `read_from_hardware` says that torch printed the properties on that device, for this
table. Peaks are never read off a device; they are its vendor's figures without sparsity. A register unit of 256 per
warp is the CUDA Occupancy Calculator's for every architecture here.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

from tcexplore.targets.target_names import DEVICES, NATIVE, names


class TargetError(ValueError):
    """A target is unknown, or its file is not what the table needs; the message is for the user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Properties:
    """What `torch.cuda.get_device_properties` returns: names and units are torch's (bytes, kHz, bits)."""

    name: str
    major: int
    minor: int
    multi_processor_count: int
    total_memory: int
    warp_size: int
    regs_per_multiprocessor: int
    max_threads_per_multi_processor: int
    max_threads_per_block: int
    shared_memory_per_block: int
    shared_memory_per_block_optin: int
    shared_memory_per_multiprocessor: int
    L2_cache_size: int
    clock_rate: int
    memory_clock_rate: int
    memory_bus_width: int
    gcnArchName: str = ""  # noqa: N815 - torch's own name
    is_integrated: int = 0
    is_multi_gpu_board: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Peaks:
    """The most the device can do: bytes/s from its memory, FLOP/s by precision, dense. None where it has no such unit.

    `fp32`, `fp64` are the vector units; `tf32`, `bf16`, `fp8` the matrix units.
    """

    memory: float
    fp32: float
    fp64: float | None = None
    tf32: float | None = None
    bf16: float | None = None
    fp8: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Occupancy:
    """Limits of one multiprocessor that no device query gives: the vendor's table for the architecture.

    `max_blocks` blocks and `max_warps` warps resident; registers are handed out per warp in `register_unit`s, shared
    memory per block in `shared_unit` bytes plus `shared_reserved`; `max_registers` per thread.
    """

    max_blocks: int
    max_warps: int
    register_unit: int
    shared_unit: int
    shared_reserved: int
    max_registers: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A device to generate code for. `read_from_hardware` tells what a real device said from what documents say."""

    key: str
    backend: str
    """Triton's: `cuda` or `hip`."""
    arch: int | str
    """Triton's: `90`, `gfx942`."""
    read_from_hardware: bool
    sources: tuple[str, ...]
    cudnn: int
    """The cuDNN or MIOpen that torch's own wheels bring for it, 0 for none: it decides which kernels torch picks."""
    properties: Properties
    peaks: Peaks
    occupancy: Occupancy
    named: str = ""
    """What `find` knows it by: its key, or the path of its own file."""

    @property
    def capability(self) -> tuple[int, int]:
        """What `torch.cuda.get_device_capability` returns."""
        return self.properties.major, self.properties.minor


def targets() -> dict[str, Target]:
    """Every target that ships, by the name that `--target` takes."""
    return {name: find(name) for name in names()}


def find(name: str) -> Target:
    """The target called `name`, or the one that a TOML file of that path describes. Raises `TargetError`."""
    if name in names():
        return _shipped(name)
    if name.endswith(".toml"):
        return _read(Path(name))
    raise TargetError(f"no target called {name!r}: use one of {', '.join(names())}, or the path of a .toml file")


@cache
def _shipped(name: str) -> Target:
    file = DEVICES / f"{name}.toml"
    return _target(name, tomllib.loads(file.read_text(encoding="utf-8")), file.name)


def _read(path: Path) -> Target:
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise TargetError(f"cannot read the target {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise TargetError(f"{path} is not TOML: {error}") from error
    based = data.pop("like", None)
    if based is not None:
        data = _merged(_plain(find(based)), data)
    if path.stem == NATIVE:
        raise TargetError(f"{path}: {NATIVE!r} is the device in the machine; give the file another name")
    return _target(path.stem, {**data, "named": str(path)}, str(path))


def _plain(target: Target) -> dict[str, Any]:
    def record(value: Any) -> dict[str, Any]:
        return {f.name: v for f in fields(value) if (v := getattr(value, f.name)) is not None}

    nested = {name: record(getattr(target, name)) for name in _PARTS}
    return {**record(target), **nested, "read_from_hardware": False, "sources": list(target.sources)}


def _merged(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    result = dict(base)
    for key, value in over.items():
        result[key] = {**base[key], **value} if key in _PARTS and isinstance(value, dict) else value
    return result


_PARTS: dict[str, type] = {"properties": Properties, "peaks": Peaks, "occupancy": Occupancy}


def _target(key: str, entry: dict[str, Any], file: str) -> Target:
    entry = {"named": key, **{k: v for k, v in entry.items() if k != "key"}}
    parts = {name: _record(cls, entry.pop(name, {}), f"{file}: [{name}]") for name, cls in _PARTS.items()}
    sources = entry.pop("sources", [])
    if not isinstance(sources, list) or not all(isinstance(s, str) for s in sources):
        raise TargetError(f"{file}: sources is a list of texts")
    target: Target = _record(Target, {**entry, **parts, "key": key, "sources": tuple(sources)}, file)
    if target.backend not in ("cuda", "hip"):
        raise TargetError(f"{file}: backend is {target.backend!r}; it is either 'cuda' or 'hip'")
    return target


def _record(cls: type, values: Any, where: str) -> Any:
    if not isinstance(values, dict):
        raise TargetError(f"{where} is a table of values")
    known = {f.name: str(f.type) for f in fields(cls)}
    if unknown := sorted(values.keys() - known.keys()):
        raise TargetError(f"{where} does not know {', '.join(unknown)}")
    for name, value in values.items():
        if ("int" in known[name] or "float" in known[name]) and "str" not in known[name]:
            _number(name, value, known[name], where)
    try:
        return cls(**values)
    except TypeError as error:
        missing = str(error).partition("argument")[2].lstrip("s: ").replace("'", "")
        raise TargetError(f"{where} lacks {missing}") from error


def _number(name: str, value: Any, kind: str, where: str) -> None:
    wanted = (int, float) if "float" in kind else (int,)
    if value is not None and (not isinstance(value, wanted) or isinstance(value, bool)):
        raise TargetError(f"{where} {name} is {value!r}; it is a {'number' if float in wanted else 'whole number'}")
