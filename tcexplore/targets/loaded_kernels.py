"""Machine code of the run's own Triton kernels on the GPU in this machine, read from Triton's cache."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import torch
from torch._inductor.codecache import PyCodeCache
from torch._inductor.runtime.cache_dir_utils import triton_cache_dir
from torch._inductor.runtime.runtime_utils import triton_hash_to_path_key

from tcexplore.events import Event, Kernel, KernelAssembled, KernelNotAssembled
from tcexplore.targets.assembly_stages import STAGE_ORDER, machine_code
from tcexplore.targets.device_table import Properties, Target, all_targets
from tcexplore.targets.target_names import NATIVE

_KERNEL_FILE = re.compile(r'^#loc = loc\("([^"]+)":', re.M)
_DECORATOR = "@triton_heuristics."


def local_gpu() -> tuple[Target, bool] | None:
    """Return the GPU in use as a target, and whether the device table has its peaks.

    Occupancy rules apply to an architecture, peaks only to one device. Return None if there is no GPU or its
    architecture is not in the table.
    """
    if not torch.cuda.is_available():
        return None
    real = torch.cuda.get_device_properties()
    gcn_arch = str(getattr(real, "gcnArchName", "")).partition(":")[0]
    arch = gcn_arch if torch.version.hip else real.major * 10 + real.minor
    same_arch = [target for target in all_targets().values() if target.arch == arch]
    if not same_arch:
        return None
    same_device = next((target for target in same_arch if target.properties.name == real.name), None)
    base = same_device or same_arch[0]
    properties = {f.name: getattr(real, f.name, getattr(base.properties, f.name)) for f in fields(Properties)}
    target = replace(
        base, key=NATIVE, reference="", read_from_hardware=True, properties=Properties(**properties)
    )  # fmt: skip
    return target, same_device is not None


def loaded_kernel(kernel: Kernel, path: str, device: Target) -> Iterator[Event]:
    """Yield a `KernelAssembled` for each configuration of a Triton kernel that can still be launched.

    After the first call, only the chosen configuration can. `path` is the wrapper's file.
    """
    tuner = _tuner(kernel.name, path)
    results = _launchable(tuner)
    key: dict[str, Any] = {"graph": kernel.graph, "phase": kernel.phase, "kernel": kernel.name, "target": kernel.target}
    if not results:
        yield KernelNotAssembled(reason="this torch does not record where the kernel was loaded from", **key)
        return
    for result in results:
        compiled = _cached_files(result.kernel.hash, _device_index(tuner))
        file, added_lines = _source_file(compiled["asm"].get("ttir", ""), kernel)
        made = machine_code(compiled, device, file, added_lines)
        yield KernelAssembled(config=_describe_config(result.config), **made._asdict(), **key)


def _tuner(name: str, path: str) -> Any:
    modules = (module for module in PyCodeCache.modules if getattr(module, "__file__", None) == path)
    return next((tuner for module in modules if (tuner := getattr(module, name, None)) is not None), None)


def _launchable(tuner: Any) -> list[Any]:
    results = list(getattr(tuner, "compile_results", None) or ())
    configs = [getattr(launcher, "config", None) for launcher in getattr(tuner, "launchers", None) or ()]
    return [result for result in results if result.config in configs] or results


def _device_index(tuner: Any) -> int:
    return int(getattr(tuner.device_props, "index", 0) or 0)


def _source_file(ttir: str, kernel: Kernel) -> tuple[str, int]:
    """Return the name of the compiled file, and how many of its lines precede the kernel's displayed source.

    torch has neither if it compiled in another process; the first location in Triton's IR has the path.
    """
    match = _KERNEL_FILE.search(ttir)
    if match is None:
        return "", 0
    path = Path(match.group(1))
    before = path.read_text(encoding="utf-8").partition(_DECORATOR)[0].count("\n")
    return path.name, before - kernel.source.partition(_DECORATOR)[0].count("\n")


def _cached_files(key: str, index: int) -> dict[str, Any]:
    """Return the contents of a kernel's files in Triton's cache."""
    folder = Path(triton_cache_dir(index)) / triton_hash_to_path_key(key)
    files = {file.suffix[1:]: file for file in folder.iterdir() if not file.name.startswith("__grp__")}
    return {
        "asm": {name: files[name].read_text(encoding="utf-8") for name in STAGE_ORDER if name in files},
        "cubin": files["cubin"].read_bytes().hex() if "cubin" in files else "",
        "metadata": json.loads(files["json"].read_text(encoding="utf-8")) if "json" in files else {},
    }


def _describe_config(config: Any) -> str:
    options = {**config.kwargs, "num_warps": config.num_warps, "num_stages": config.num_stages}
    return ", ".join(f"{key}={value}" for key, value in options.items())
