"""Kernels read from Triton's cache, with a fake cache and a fake loaded kernel in place of a device."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import torch

from tcexplore.events import Kernel, KernelAssembled, KernelNotAssembled
from tcexplore.targets.device_table import find_target
from tcexplore.targets.loaded_kernels import local_gpu
from tcexplore.targets.target_names import NATIVE

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]

SOURCE = "@triton_heuristics.pointwise()\n@triton.jit\ndef k(x):\n    tl.store(x, 1)\n"
KERNEL = Kernel(graph="0/0", phase="forward", name="k", language="triton", source=SOURCE)


def cache(folder: Path, key: str, file: Path) -> None:
    from torch._inductor.runtime.runtime_utils import triton_hash_to_path_key

    entry = folder / triton_hash_to_path_key(key)
    entry.mkdir(parents=True)
    (entry / "k.ttir").write_text(f'#loc = loc("{file}":6:0)\n  tt.store %0 loc(#loc1)\n#loc1 = loc("{file}":7:4)\n')
    (entry / "k.amdgcn").write_text("k:\n\ts_endpgm\n\t.vgpr_count: 12\n")
    (entry / "k.json").write_text(json.dumps({"num_warps": 2, "shared": 0}))


def tuner(*keys: str, running: str) -> SimpleNamespace:
    configs = {key: SimpleNamespace(kwargs={"XBLOCK": 8}, num_warps=2, num_stages=1) for key in keys}
    results = [SimpleNamespace(kernel=SimpleNamespace(hash=key), config=config) for key, config in configs.items()]
    launchers = [SimpleNamespace(config=configs[running])]
    return SimpleNamespace(
        compile_results=results, launchers=launchers, device_props=SimpleNamespace(index=0), filename=None
    )


def test_the_launched_configuration_is_read_with_its_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    from torch._inductor.codecache import PyCodeCache

    from tcexplore.targets.loaded_kernels import loaded_kernel

    source = tmp_path / "ck.py"
    source.write_text("import triton\nfrom x import triton_heuristics\n\n" + SOURCE)
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "triton"))
    cache(tmp_path / "triton", "ab" * 32, source)
    wrapper = ModuleType("wrapper")
    wrapper.__file__ = "/cache/wrapper.py"
    # Two configurations; the launcher has the second.
    wrapper.k = tuner("cd" * 32, "ab" * 32, running="ab" * 32)  # type: ignore[attr-defined]
    wrapper.k.compile_results[0].config.num_warps = 4
    monkeypatch.setattr(PyCodeCache, "modules", [wrapper])
    device = replace(find_target("mi300x"), key=NATIVE)
    (event,) = loaded_kernel(KERNEL, "/cache/wrapper.py", device)
    assert isinstance(event, KernelAssembled), event
    assert (event.target, event.config) == (NATIVE, "XBLOCK=8, num_warps=2, num_stages=1")
    assert [stage.name for stage in event.stages] == ["ttir", "amdgcn"]
    assert event.stages[0].lines == ((2, 4),), "line 7 of the file is line 4 of the displayed kernel"
    assert event.resources is not None
    assert (event.resources.registers, event.resources.threads) == (12, 128)
    (failure,) = loaded_kernel(replace(KERNEL, name="other"), "/cache/wrapper.py", device)
    assert isinstance(failure, KernelNotAssembled)


def test_the_local_gpu_has_its_real_properties(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    real = replace(find_target("h200").properties, multi_processor_count=66)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda: real)
    known = local_gpu()
    assert known is not None
    assert known[0].properties.multi_processor_count == 66
    assert (known[0].key, known[0].arch, known[0].peaks, known[1]) == (NATIVE, 90, find_target("h200").peaks, True)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda: replace(real, name="NVIDIA H20"))
    known = local_gpu()
    assert known is not None
    assert not known[1], "peaks belong to a device, not to an architecture"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert local_gpu() is None
