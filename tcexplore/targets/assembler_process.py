"""The process that compiles Triton kernels: requests and answers are JSON, one per line, over standard streams.

A request is `{"source", "name", "target", "first"}`: `target` is a name in the device table or the path of a target
file, `first` the maximum number of autotuning configurations. The answer is
`{"configs": [{"config", "metadata", "asm", "cubin"}]}` with the cubin in hex, or `{"error"}`.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import IO, Any

import torch._inductor.config as inductor_config
from torch._inductor.runtime import triton_helpers

from tcexplore.targets.assembly_stages import drop_inline_asm_locations
from tcexplore.targets.device_emulation import emulate_device, patch_attribute
from tcexplore.targets.device_table import Target, find_target

_METADATA = ("shared", "num_warps", "num_stages", "num_ctas")
_STATIC = ("use_static_cuda_launcher", "use_static_triton_launcher")


def main() -> None:
    """Serve over the standard streams; redirect output of compilers to stderr."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    serve(sys.stdin, answers)


def serve(requests: Iterable[str], answers: IO[str]) -> None:
    """Answer requests until the other side closes."""
    _patch_make_cubin()
    for line in requests:
        try:
            answer = _assemble(**json.loads(line))
        except Exception as error:  # noqa: BLE001  any failure of Triton or of the kernel's source becomes the answer
            answer = {"error": f"{type(error).__name__}: {str(error).strip()[:2000]}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def _patch_make_cubin() -> None:
    """Attribute SASS of inline assembly to the line of the whole block; the instructions do not change."""
    try:
        from triton.backends.nvidia.compiler import CUDABackend

        original = CUDABackend.make_cubin
    except (ImportError, AttributeError):
        return
    CUDABackend.make_cubin = lambda self, src, *args: original(self, drop_inline_asm_locations(src), *args)


def _assemble(source: str, name: str, target: str, first: int) -> dict[str, Any]:
    device = find_target(target)
    static = {option: False for option in _STATIC if hasattr(inductor_config, option)}
    with (
        emulate_device(device),
        inductor_config.patch(static),
        patch_attribute(triton_helpers, "set_driver_to_gpu", lambda: None),
        tempfile.TemporaryDirectory() as folder,
    ):
        tuner = getattr(_load_module(Path(folder) / "kernel.py", source), name)
        return {"configs": [_compile(tuner, config, device) for config in tuner.configs[:first]]}


def _load_module(file: Path, source: str) -> ModuleType:
    file.write_text(source)
    spec = importlib.util.spec_from_file_location("kernel", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _compile(tuner: Any, config: Any, target: Target) -> dict[str, Any]:
    tuner.device_props = tuner.device_props._replace(
        type=target.backend, cc=target.arch, warp_size=target.properties.warp_size
    )
    kernel = tuner._precompile_config(config).kernel
    binary = kernel.asm.get("cubin", b"")
    options = {**config.kwargs, "num_warps": config.num_warps, "num_stages": config.num_stages}
    return {
        "config": ", ".join(f"{key}={value}" for key, value in options.items()),
        "metadata": {key: getattr(kernel.metadata, key) for key in _METADATA if hasattr(kernel.metadata, key)},
        "asm": {key: text for key, text in kernel.asm.items() if isinstance(text, str)},
        "cubin": binary.hex() if isinstance(binary, bytes) else "",
    }


if __name__ == "__main__":
    main()
