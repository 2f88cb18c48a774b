"""Files of a kernel."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tcexplore import events as ev
from tcexplore.cli.export_command import NoSuchKernelError, kernel_files
from tests.snapshots import gpu

NAME = "triton_poi_fused_relu_0"


def test_a_kernel_is_written_as_source_and_stages():
    files = kernel_files(gpu.run(), NAME)
    assert files == {f"{NAME}.py": gpu.TRITON, f"{NAME}.ptx": gpu.PTX, f"{NAME}.sass": gpu.SASS}
    assert list(kernel_files(gpu.run().with_target("native"), "cpp_fused_relu_0")) == ["cpp_fused_relu_0.cpp"]


def test_a_native_kernel_has_a_wrapper_that_times_itself():
    run = gpu.run().with_target("native")
    runs = ev.Wrapper(run=1, graph="0/0", phase="forward", path="", source="def benchmark_compiled_module(args): ...")
    files = kernel_files(run.apply(runs), "cpp_fused_relu_0")
    assert files["cpp_fused_relu_0.graph.py"] == runs.source
    bare = kernel_files(run.apply(replace(runs, source="def call(args): ...")), "cpp_fused_relu_0")
    assert list(bare) == ["cpp_fused_relu_0.cpp"]


def test_kernels_of_one_name_get_their_own_scripts():
    run = gpu.run()
    forward = next(kernel for kernel in run.code.kernels if kernel.name == NAME)
    backward = replace(forward, phase="backward", source=gpu.TRITON.replace("maximum", "minimum"))
    of: dict[str, Any] = {"run": 1, "graph": "0/0", "kernel": NAME, "target": "l4"}
    for event in (
        backward,
        ev.KernelScript(source=backward.source + "def call(): ...", **of),
        ev.KernelScript(source=forward.source + "def call(): ...", **of),
    ):
        run = run.apply(event)
    files = kernel_files(run, NAME)
    assert [f"{NAME}_{n}.py" in files for n in (1, 2)] == [True, True]
    assert "maximum" in files[f"{NAME}_1.py"]
    assert "minimum" in files[f"{NAME}_2.py"]
    assert all("def call" in text for name, text in files.items() if name.endswith(".py"))


def test_an_unknown_kernel_name_lists_the_known_ones():
    with pytest.raises(NoSuchKernelError, match=f"called 'mm' for l4: use one of {NAME}"):
        kernel_files(gpu.run(), "mm")
