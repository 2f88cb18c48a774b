"""Lowering after a real run with the capture's own hooks, for two targets."""

from __future__ import annotations

import ast
import warnings
from typing import Any

import pytest
import torch
import torch._functorch.config as aot_config
import torch._inductor.config as inductor_config

from tcexplore.capture.hooks import Hooks
from tcexplore.capture.structured_trace import StructuredTrace
from tcexplore.capture.user_files import UserFiles
from tcexplore.events import AtenGraph, Event, Kernel, TargetLowered, Wrapper
from tcexplore.targets.device_table import find_target
from tcexplore.targets.target_tag import tag

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # torch's deprecation warnings about itself
    from tcexplore.capture.inductor import aten_graphs, inductor_trace, kernels
    from tcexplore.targets.graph_recorder import GraphRecorder, runnable_kernels

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]


def test_events_of_each_target_are_tagged():
    events: list[Any] = []

    def emit(event: Event) -> None:
        if (tagged := tag(event)) is not None:
            events.append(tagged)

    hooks = Hooks(emit)
    trace = StructuredTrace(hooks)
    for module in (aten_graphs, kernels, inductor_trace):
        module.install(hooks, trace, UserFiles(__file__))
    trace.install()
    recorder = GraphRecorder(emit)
    assert recorder.install(hooks)
    traced: list[int] = []

    def model(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        traced.append(1)
        return torch.relu(x @ w).sum()

    try:
        torch._dynamo.reset()
        x, w = torch.randn(32, 64), torch.randn(64, 48, requires_grad=True)
        with inductor_config.patch(fx_graph_cache=False), aot_config.patch(enable_autograd_cache=False):
            torch.compile(model, backend="inductor")(x, w).backward()
        assert not [e for e in events if type(e) is TargetLowered], "the run's own code is generated first"
        for name in ("l4", "h100"):
            recorder.lower(find_target(name))
        count = len(events)
        runnables = [kernel for graph in recorder.graphs for kernel in runnable_kernels(graph, find_target("h100"))]
        files = {kernel.kernel: kernel.source for kernel in runnables}
    finally:
        trace.remove()
        hooks.remove()
    assert len(recorder.graphs) == 1
    assert len(events) == count, "the runnable form emits nothing"
    assert {k.name for k in events if type(k) is Kernel and (k.target, k.language) == ("h100", "triton")} == set(files)
    for name, source in files.items():
        tree = ast.parse(source)
        defined = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        assert {name, "get_args", "call", "benchmark_all_configs"} <= defined
        assert "__main__" in source

    def of(kind: type[Any], target: str) -> list[Any]:
        return [e for e in events if type(e) is kind and e.target == target]

    for target, languages in {
        "native": {"cpp", "extern"},
        "l4": {"triton", "extern"},
        "h100": {"triton", "extern"},
    }.items():
        assert {k.language for k in of(Kernel, target)} == languages, target
        assert {(w.graph, w.phase) for w in of(Wrapper, target)} == {("0/0", "forward"), ("0/0", "backward")}
        assert {g.phase for g in of(AtenGraph, target)} == {"forward", "backward"}
    assert [e.target for e in events if type(e) is TargetLowered] == ["l4", "h100"]
    assert all(e.kernels >= 2 for e in events if type(e) is TargetLowered)
