"""Kernels of every language in a generated module: named, with source, op and nodes, also of an unknown language."""

from __future__ import annotations

import pytest

from tcexplore.traces.kernel_records import read_wrapper
from tests.traces.generated_modules import MODULES, OLD_METAL, module, written


@pytest.mark.parametrize("language", MODULES)
def test_a_kernel_has_source_ops_and_nodes(language: str) -> None:
    text = read_wrapper(module(language))
    assert [call.name for call in text.calls] == [MODULES[language].name]
    (source,) = text.kernels.values()
    assert source.language == language
    assert MODULES[language].body.strip() in source.text
    comment = text.comments[MODULES[language].name]
    assert (comment.ops, comment.nodes) == (("aten.relu", "aten.add"), ("relu", "add"))


def test_definitions_of_several_kernels_are_told_apart() -> None:
    first, second = module("pallas"), module("triton")
    start = second.index("# Topologically")
    both = first.replace("class Runner:", second[start : second.index("class Runner:")] + "class Runner:")
    assert set(read_wrapper(both).kernels) == {MODULES["pallas"].name, MODULES["triton"].name}


def test_a_kernel_without_a_text_is_still_one() -> None:
    text = module("triton").replace("class Runner:", "multi_kernel_0 = async_compile.multi_kernel('multi_kernel_0', [\n"
                                    "    triton_poi_fused_add_relu_0,\n])\n\nclass Runner:")  # fmt: skip
    assert "multi_kernel_0" in read_wrapper(text).kernels


def test_a_function_of_a_compiled_library_is_its_kernel() -> None:
    text = read_wrapper(written(OLD_METAL))
    assert [call.name for call in text.calls] == ["mps_lib_0"]
    assert text.kernels["mps_lib_0"].language == "metal"
