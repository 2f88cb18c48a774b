"""What Triton's cache has of the kernels of a real run, without the device: a cache and a loaded kernel made up."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import torch

from tcexplore.events import Kernel, KernelAssembled, KernelNotAssembled
from tcexplore.targets.device_table import NATIVE, find
from tcexplore.targets.local_gpu import here

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]

SOURCE = "@triton_heuristics.pointwise()\n@triton.jit\ndef k(x):\n    tl.store(x, 1)\n"
KERNEL = Kernel(graph="0/0", phase="forward", name="k", language="triton", source=SOURCE)


def cache(folder: Path, key: str, file: Path) -> None:
    from torch._inductor.runtime.runtime_utils import triton_hash_to_path_key

    made = folder / triton_hash_to_path_key(key)
    made.mkdir(parents=True)
    (made / "k.ttir").write_text(f'#loc = loc("{file}":6:0)\n  tt.store %0 loc(#loc1)\n#loc1 = loc("{file}":7:4)\n')
    (made / "k.amdgcn").write_text("k:\n\ts_endpgm\n\t.vgpr_count: 12\n")
    (made / "k.json").write_text(json.dumps({"num_warps": 2, "shared": 0}))


def tuner(*keys: str, running: str) -> SimpleNamespace:
    configs = {key: SimpleNamespace(kwargs={"XBLOCK": 8}, num_warps=2, num_stages=1) for key in keys}
    results = [SimpleNamespace(kernel=SimpleNamespace(hash=key), config=config) for key, config in configs.items()]
    launchers = [SimpleNamespace(config=configs[running])]
    return SimpleNamespace(
        compile_results=results, launchers=launchers, device_props=SimpleNamespace(index=0), filename=None
    )


def test_the_configuration_that_runs_is_read_with_its_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    from torch._inductor.codecache import PyCodeCache

    from tcexplore.targets.loaded_kernels import loaded

    source = tmp_path / "ck.py"
    source.write_text("import triton\nfrom x import triton_heuristics\n\n" + SOURCE)
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "triton"))
    cache(tmp_path / "triton", "ab" * 32, source)
    wrapper = ModuleType("wrapper")
    wrapper.__file__ = "/cache/wrapper.py"
    # Two configurations are alike but for identity: only the launcher's is the one that runs.
    wrapper.k = tuner("cd" * 32, "ab" * 32, running="ab" * 32)  # type: ignore[attr-defined]
    wrapper.k.compile_results[0].config.num_warps = 4  # type: ignore[attr-defined]
    monkeypatch.setattr(PyCodeCache, "modules", [wrapper])
    device = replace(find("mi300x"), key=NATIVE)
    (made,) = loaded(KERNEL, "/cache/wrapper.py", device)
    assert isinstance(made, KernelAssembled), made
    assert (made.target, made.config) == (NATIVE, "XBLOCK=8, num_warps=2, num_stages=1")
    assert [stage.name for stage in made.stages] == ["ttir", "amdgcn"]
    assert made.stages[0].lines == ((2, 4),), "line 7 of the file is line 4 of the kernel as it is shown"
    assert made.resources is not None
    assert (made.resources.registers, made.resources.threads) == (12, 128)
    (lost,) = loaded(replace(KERNEL, name="other"), "/cache/wrapper.py", device)
    assert isinstance(lost, KernelNotAssembled)


def test_the_gpu_in_the_machine_has_its_own_properties(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    real = replace(find("h200").properties, multi_processor_count=66)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda: real)
    known = here()
    assert known is not None
    assert known[0].properties.multi_processor_count == 66
    assert (known[0].key, known[0].arch, known[0].peaks, known[1]) == (NATIVE, 90, find("h200").peaks, True)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda: replace(real, name="NVIDIA H20"))
    known = here()
    assert known is not None
    assert not known[1], "an architecture's peaks are not a device's"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert here() is None
