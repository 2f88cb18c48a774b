"""What Triton made of the kernels of the run itself, on the device in the machine: found where torch loaded it from."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from torch._inductor.codecache import PyCodeCache
from torch._inductor.runtime.cache_dir_utils import triton_cache_dir
from torch._inductor.runtime.runtime_utils import triton_hash_to_path_key

from tcexplore.events import Event, Kernel, KernelAssembled, KernelNotAssembled
from tcexplore.targets.assemble import ORDER, machine_code
from tcexplore.targets.device_table import Target

_OWN_PLACE = re.compile(r'^#loc = loc\("([^"]+)":', re.M)
_DECORATOR = "@triton_heuristics."


def loaded(kernel: Kernel, path: str, device: Target) -> Iterator[Event]:
    """A `KernelAssembled` for each configuration of a Triton kernel that can still be launched: after its first call
    that is the one that runs. `path` is its wrapper's."""
    tuner = _tuner(kernel.name, path)
    results = _launched(tuner)
    of: dict[str, Any] = {"graph": kernel.graph, "phase": kernel.phase, "kernel": kernel.name, "target": kernel.target}
    if not results:
        yield KernelNotAssembled(reason="this torch does not tell where the kernel was loaded from", **of)
        return
    for result in results:
        made = _made(result.kernel.hash, _index(tuner))
        stages, taken = machine_code(made, device, *_source(made["asm"].get("ttir", ""), kernel))
        yield KernelAssembled(config=_config(result.config), stages=stages, resources=taken, **of)


def _tuner(name: str, path: str) -> Any:
    modules = (module for module in PyCodeCache.modules if getattr(module, "__file__", None) == path)
    return next((found for module in modules if (found := getattr(module, name, None)) is not None), None)


def _launched(tuner: Any) -> list[Any]:
    results = list(getattr(tuner, "compile_results", None) or ())
    configs = [getattr(launcher, "config", None) for launcher in getattr(tuner, "launchers", None) or ()]
    return [result for result in results if result.config in configs] or results


def _index(tuner: Any) -> int:
    return int(getattr(tuner.device_props, "index", 0) or 0)


def _source(ttir: str, kernel: Kernel) -> tuple[str, int]:
    """The name of the file that was compiled, and how many lines stand in it ahead of the kernel's as it is shown.

    torch forgets both where it compiled in another process; Triton writes the function's own place first.
    """
    own = _OWN_PLACE.search(ttir)
    if own is None:
        return "", 0
    path = Path(own.group(1))
    before = path.read_text(encoding="utf-8").partition(_DECORATOR)[0].count("\n")
    return path.name, before - kernel.source.partition(_DECORATOR)[0].count("\n")


def _made(key: str, index: int) -> dict[str, Any]:
    """The files that Triton's cache has of a kernel."""
    folder = Path(triton_cache_dir(index)) / triton_hash_to_path_key(key)
    found = {file.suffix[1:]: file for file in folder.iterdir() if not file.name.startswith("__grp__")}
    return {
        "asm": {name: found[name].read_text(encoding="utf-8") for name in ORDER if name in found},
        "cubin": found["cubin"].read_bytes().hex() if "cubin" in found else "",
        "metadata": json.loads(found["json"].read_text(encoding="utf-8")) if "json" in found else {},
    }


def _config(config: Any) -> str:
    options = {**config.kwargs, "num_warps": config.num_warps, "num_stages": config.num_stages}
    return ", ".join(f"{key}={value}" for key, value in options.items())
