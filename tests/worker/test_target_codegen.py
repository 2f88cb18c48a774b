"""What of a run's own kernels is brought to the GPU in the machine."""

from __future__ import annotations

import pytest

from tcexplore.events import AtenGraph, Config, Event, FxNode, Job, Kernel
from tcexplore.worker.target_codegen import TargetCodegen

pytestmark = pytest.mark.torch


def kernel(graph: str, language: str, target: str = "native") -> Kernel:
    return Kernel(graph=graph, phase="forward", name=f"{language} {graph}", language=language, source="", target=target)


def graph(name: str, device: str) -> AtenGraph:
    node = FxNode(name="mm", op="call_function", target="aten.mm.default", device=device)
    return AtenGraph(graph=name, stage="post_grad", phase="forward", nodes=(node,))


def test_a_library_call_is_the_gpus_where_its_graph_has_a_tensor_there():
    events: list[Event] = []
    beside = TargetCodegen(Job(run=1, file="model.py", source="", config=Config()), events.append)
    sent = (
        graph("0/0", "cuda:0"), kernel("0/0", "extern"), kernel("0/0", "triton"), kernel("0/0", "cpp"),
        graph("1/0", "cpu"), kernel("1/0", "extern"), kernel("1/0", "cpp"), kernel("2/0", "triton", target="l4"),
    )  # fmt: skip
    for event in sent:
        beside.emit(event)
    assert events == list(sent), "everything is passed on"
    assert [one.name for one in beside._here] == ["extern 0/0", "triton 0/0"]
