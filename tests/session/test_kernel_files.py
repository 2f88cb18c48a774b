"""A kernel as files."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tcexplore import events as ev
from tcexplore.session.kernel_files import NoSuchKernelError, kernel_files
from tests.snapshots import gpu

NAME = "triton_poi_fused_relu_0"


def test_source_and_every_stage():
    files = kernel_files(gpu.run(), NAME)
    assert files == {f"{NAME}.py": gpu.TRITON, f"{NAME}.ptx": gpu.PTX, f"{NAME}.sass": gpu.SASS}
    assert list(kernel_files(gpu.run().with_target("native"), "cpp_fused_relu_0")) == ["cpp_fused_relu_0.cpp"]


def test_a_kernel_of_this_machine_comes_with_its_graph_where_that_runs_by_itself():
    run = gpu.run().with_target("native")
    runs = ev.Wrapper(run=1, graph="0/0", phase="forward", path="", source="def benchmark_compiled_module(args): ...")
    files = kernel_files(run.apply(runs), "cpp_fused_relu_0")
    assert files["cpp_fused_relu_0.graph.py"] == runs.source
    bare = kernel_files(run.apply(replace(runs, source="def call(args): ...")), "cpp_fused_relu_0")
    assert list(bare) == ["cpp_fused_relu_0.cpp"]


def test_of_several_kernels_of_one_name_each_has_its_own_form_that_runs():
    run = gpu.run()
    forward = next(kernel for kernel in run.code.kernels if kernel.name == NAME)
    backward = replace(forward, phase="backward", source=gpu.TRITON.replace("maximum", "minimum"))
    of = {"run": 1, "graph": "0/0", "kernel": NAME, "target": "l4"}
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


def test_a_kernel_that_is_not_there_names_those_that_are():
    with pytest.raises(NoSuchKernelError, match=f"called 'mm' for l4: use one of {NAME}"):
        kernel_files(gpu.run(), "mm")
