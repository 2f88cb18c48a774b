"""The device table: properties, peaks and occupancy limits of GPUs that may be absent from this machine.

Each file in `devices` describes one. `read_from_hardware` means that torch printed the properties on that device. Peaks
are always the vendor's figures without sparsity. The register unit of 256 per warp is the CUDA Occupancy Calculator's
for every architecture here.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from tcexplore.events import Kernel, clean
from tcexplore.events.target_events import RooflinePoint
from tcexplore.targets.target_names import DEVICES, NATIVE, target_names


class TargetError(ValueError):
    """A target is unknown or its file is invalid; the message is for the user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Properties:
    """The result of `torch.cuda.get_device_properties`, with torch's names and units (bytes, kHz, bits).

    A fact without a source is None.
    """

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
    clock_rate: int | None = None
    memory_clock_rate: int | None = None
    memory_bus_width: int | None = None
    gcnArchName: str = ""  # noqa: N815 - torch's own name
    is_integrated: int = 0
    is_multi_gpu_board: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Peaks:
    """Peak memory bandwidth in bytes/s and dense FLOP/s by precision.

    `fp32`, `fp64` are the vector units; `fp64_matrix`, `tf32`, `bf16` (also float16), `fp8` the matrix units. Except
    for `fp32`, None means that the device has no such unit or that the rate is not known.
    """

    memory: float
    fp32: float
    fp64: float | None = None
    fp64_matrix: float | None = None
    tf32: float | None = None
    bf16: float | None = None
    fp8: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OccupancyLimits:
    """Limits of one multiprocessor that no device query returns, from the vendor's table for the architecture."""

    max_blocks: int
    max_warps: int
    register_unit: int
    """Registers are allocated to a warp in multiples of this."""
    shared_unit: int
    """Shared memory is allocated to a block in multiples of this many bytes."""
    shared_reserved: int
    """Bytes of shared memory per block that the system reserves."""
    max_registers: int
    """Per thread."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A device to generate code for."""

    key: str
    backend: str
    """Triton's name: `cuda` or `hip`."""
    arch: int | str
    """Triton's name: `90`, `gfx942`."""
    read_from_hardware: bool
    """Whether the properties come from a real device rather than from documents."""
    sources: tuple[str, ...]
    cudnn: int
    """Version of cuDNN or MIOpen in torch's wheels for it, 0 for none; it decides which kernels torch picks."""
    properties: Properties
    peaks: Peaks
    occupancy: OccupancyLimits
    reference: str = ""
    """The argument of `find_target`: the key, or the path of the target's file."""

    @property
    def capability(self) -> tuple[int, int]:
        """The result of `torch.cuda.get_device_capability`."""
        return self.properties.major, self.properties.minor

    @property
    def missing(self) -> tuple[str, ...]:
        """Names of the facts that have no source."""
        known = {**_values(self.properties), **_values(self.peaks)}
        return tuple(name for name in _OPTIONAL if known[name] is None)


_OPTIONAL = ("clock_rate", "memory_clock_rate", "memory_bus_width", "tf32", "bf16")


def _values(record: Properties | Peaks) -> dict[str, Any]:
    return {field.name: getattr(record, field.name) for field in fields(record)}


def all_targets() -> dict[str, Target]:
    """Return every bundled target by the name that `--target` accepts."""
    return {name: find_target(name) for name in target_names()}


def find_target(name: str) -> Target:
    """Return the bundled target `name`, or the one in the TOML file at that path. Raises `TargetError`."""
    if name in target_names():
        return _bundled(name)
    if name.endswith(".toml"):
        return _read(Path(name))
    raise TargetError(f"no target called {name!r}: use one of {', '.join(target_names())}, or the path of a .toml file")


@cache
def _bundled(name: str) -> Target:
    file = DEVICES / f"{name}.toml"
    return _target(name, tomllib.loads(file.read_text(encoding="utf-8")), file.name)


def _read(path: Path) -> Target:
    if path.exists() and not path.is_file():
        raise TargetError(f"{path} is not a regular file")  # to read a pipe would not end
    try:
        data = _cleaned(tomllib.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise TargetError(f"cannot read the target {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise TargetError(f"{path} is not TOML: {error}") from error
    base = data.pop("like", None)
    if base is not None:
        if base not in target_names():
            raise TargetError(f"{path}: like is {base!r}; it must be one of {', '.join(target_names())}")
        data = _merged(_as_dict(find_target(base)), data)
    key = clean(path.stem)
    if key == NATIVE:
        raise TargetError(f"{path}: {NATIVE!r} is the device in the machine; give the file another name")
    return _target(key, {**data, "reference": str(path)}, str(path))


def _cleaned(value: Any) -> Any:
    """Return a value from a file with all its text cleaned."""
    if isinstance(value, dict):
        return {clean(key): _cleaned(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_cleaned(item) for item in value]
    return clean(value) if isinstance(value, str) else value


def _as_dict(target: Target) -> dict[str, Any]:
    def record(value: Any) -> dict[str, Any]:
        return {f.name: v for f in fields(value) if (v := getattr(value, f.name)) is not None}

    nested = {name: record(getattr(target, name)) for name in _PARTS}
    return {**record(target), **nested, "read_from_hardware": False, "sources": list(target.sources)}


def _merged(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    result = dict(base)
    for key, value in over.items():
        result[key] = {**base[key], **value} if key in _PARTS and isinstance(value, dict) else value
    return result


_PARTS: dict[str, type] = {"properties": Properties, "peaks": Peaks, "occupancy": OccupancyLimits}


def _target(key: str, entry: dict[str, Any], file: str) -> Target:
    entry = {"reference": key, **{k: v for k, v in entry.items() if k != "key"}}
    parts = {name: _record(cls, entry.pop(name, {}), f"{file}: [{name}]") for name, cls in _PARTS.items()}
    sources = entry.pop("sources", [])
    if not isinstance(sources, list) or not all(isinstance(s, str) for s in sources):
        raise TargetError(f"{file}: sources must be a list of strings")
    target: Target = _record(Target, {**entry, **parts, "key": key, "sources": tuple(sources)}, file)
    if target.backend not in ("cuda", "hip"):
        raise TargetError(f"{file}: backend is {target.backend!r}; it must be 'cuda' or 'hip'")
    return target


def _record(cls: type, values: Any, where: str) -> Any:
    if not isinstance(values, dict):
        raise TargetError(f"{where} must be a table")
    known = {f.name: str(f.type) for f in fields(cls)}
    if unknown := sorted(values.keys() - known.keys()):
        raise TargetError(f"{where} has unknown keys: {', '.join(unknown)}")
    for name, value in values.items():
        if "str" in known[name]:
            _check_text(name, value, known[name], where)
        elif "int" in known[name] or "float" in known[name]:
            _check_number(name, value, known[name], where)
    try:
        return cls(**values)
    except TypeError as error:
        missing = str(error).partition("argument")[2].lstrip("s: ").replace("'", "")
        raise TargetError(f"{where} lacks {missing}") from error


_LARGEST = 2**63
_MAY_BE_ZERO = frozenset({"minor", "cudnn", "is_integrated", "is_multi_gpu_board", "shared_reserved"})


def _check_text(name: str, value: Any, kind: str, where: str) -> None:
    allowed = (str, int) if "int" in kind else (str, tuple) if "tuple" in kind else (str,)
    if not isinstance(value, allowed) or isinstance(value, bool):
        raise TargetError(f"{where} {name} is {value!r}; it must be text")


def _check_number(name: str, value: Any, kind: str, where: str) -> None:
    if value is None:
        return
    allowed = (int, float) if "float" in kind else (int,)
    if not isinstance(value, allowed) or isinstance(value, bool):
        raise TargetError(f"{where} {name} is {value!r}; it must be {'a number' if float in allowed else 'an integer'}")
    smallest = 0 if name in _MAY_BE_ZERO else math.ulp(0)
    if not smallest <= value < _LARGEST:
        raise TargetError(
            f"{where} {name} is {value!r}; it must be {'positive' if smallest else '0 or more'}, and finite"
        )


_POINTER = re.compile(r"'\*(fp\d+|bf16|fp8\w+)'")
_TENSOR_CORE = re.compile(r"\btl\.dot\(")
_IEEE_DOT = re.compile(
    r"ALLOW_TF32\s*:\s*tl\.constexpr\s*=\s*False|input_precision\s*=\s*['\"]ieee|allow_tf32\s*=\s*False"
)
_MATRIX_OPS = frozenset({"aten.mm", "aten.addmm", "aten.bmm", "aten.baddbmm", "aten.convolution", "aten._scaled_mm"})


class AllowedTf32(NamedTuple):
    """Whether torch's settings allow TF32 in place of float32."""

    matmul: bool = False
    convolution: bool = False


NO_TF32 = AllowedTf32()


def roofline_point(kernel: Kernel, target: Target, tf32: AllowedTf32 = NO_TF32) -> RooflinePoint | None:
    """Return the roofline point of `kernel` on `target`, or None if its bytes or the target's peak rate are unknown.

    Bytes are the scheduler's, with each buffer counted once. torch has no FLOP count for pointwise and reduction
    kernels; they count as memory-bound.
    """
    if kernel.bytes_read is None and kernel.bytes_written is None:
        return None
    moved = (kernel.bytes_read or 0) + (kernel.bytes_written or 0)
    peaks = tuple((name, peak) for name, peak in _values(target.peaks).items() if name != "memory" and peak is not None)
    precision = _fastest_arithmetic(kernel, dict(peaks), tf32)
    peak: float | None = dict(peaks).get(precision)
    if peak is None:
        return None
    memory_time = moved / target.peaks.memory
    compute_time = kernel.flops / peak if kernel.flops else 0.0
    return RooflinePoint(
        graph=kernel.graph,
        phase=kernel.phase,
        kernel=kernel.name,
        target=target.key,
        bytes=moved,
        flops=kernel.flops,
        intensity=kernel.flops / moved if kernel.flops and moved else None,
        bound="compute" if compute_time > memory_time else "memory",
        implied_us=max(memory_time, compute_time) * 1e6,
        memory_peak=target.peaks.memory,
        peak=peak,
        precision=precision,
        peaks=peaks,
        l2_bytes=target.properties.L2_cache_size,
    )


def _fastest_arithmetic(kernel: Kernel, peaks: Mapping[str, float], tf32: AllowedTf32) -> str:
    """Return the fastest arithmetic that the kernel may use, by its types and torch's settings."""
    dot = bool(_TENSOR_CORE.search(kernel.source))
    matrix = dot or (not kernel.generated and bool(kernel.flops)) or not _MATRIX_OPS.isdisjoint(kernel.ops)
    element_types = {*_POINTER.findall(kernel.source), *kernel.dtypes}
    if not element_types.isdisjoint({"float64", "complex128", "fp64"}):
        known = [name for name in ("fp64_matrix" if matrix else "fp64", "fp64", "fp32") if name in peaks]
        return known[0]
    if not matrix:
        return "fp32"
    if any(name.startswith(("fp8", "float8")) for name in element_types):
        return "fp8"
    if not element_types.isdisjoint({"bf16", "fp16", "bfloat16", "float16"}) or "float16" in kernel.source:
        return "bf16"
    convolution = any("convolution" in op for op in kernel.ops)
    allowed = not _IEEE_DOT.search(kernel.source) if dot else tf32.convolution if convolution else tf32.matmul
    return "tf32" if allowed else "fp32"
