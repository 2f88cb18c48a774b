"""CUDA graph recordings and skipped graphs, with a fake allocator and fake recordings."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tcexplore.capture.hooks import Hooks
from tcexplore.capture.inductor import cuda_graphs
from tcexplore.capture.inductor.aten_graphs import Compilation
from tcexplore.capture.inductor.cuda_graphs import CudaGraphs, install, running_graph
from tcexplore.capture.structured_trace import StructuredTrace
from tcexplore.capture.user_files import UserFiles
from tcexplore.events import CudaGraphRecorded, CudaGraphSkipped, Event, FactMissing

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]


class CompilationMode:
    name = "BACKWARD"


class CompileId:
    def __str__(self) -> str:
        return "0/0"


@pytest.fixture
def allocator(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Return the values of the fake allocator, set by the test."""
    bytes_ = {"now": 1000, "peak": 0}
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda: None)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda: bytes_["now"])
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda: bytes_["peak"])
    return bytes_


def recording(graphs: CudaGraphs, number: int, parent: Any, allocator: dict[str, int], now: int, peak: int) -> Any:
    inputs = [torch.zeros(4), torch.zeros(2), 3]
    wrapped = SimpleNamespace(model=SimpleNamespace(__name__="partition_0"), static_input_idxs=(0,))
    node = SimpleNamespace(non_static_input_idx=[1, 2], id=SimpleNamespace(id=number))
    allocator["now"] = now
    args = (node, wrapped, node.id, parent, inputs, "pool", 0, None, None, CompilationMode(), CompileId())
    graphs._begins(*args)
    allocator["peak"] = peak
    graphs._recorded(None, *args)
    return node


def test_peaks_of_chained_recordings_count_from_before_the_first(allocator: dict[str, int]):
    events: list[Event] = []
    graphs = CudaGraphs(Hooks(events.append))
    first = recording(graphs, 0, None, allocator, now=1000, peak=1500)
    recording(graphs, 1, first, allocator, now=1400, peak=1900)
    recording(graphs, 2, None, allocator, now=1200, peak=1300)
    recorded = [event for event in events if isinstance(event, CudaGraphRecorded)]
    assert [(one.number, one.parent, one.peak_bytes) for one in recorded] == [
        (0, None, 500),
        (1, 0, 900),
        (2, None, 100),
    ]
    assert (recorded[0].graph, recorded[0].phase, recorded[0].part) == ("0/0", "backward", "partition_0")
    assert (recorded[0].inputs_copied, recorded[0].inputs_copied_bytes) == (1, 8), (
        "numbers and static inputs are not copied"
    )


def test_each_skip_reason_is_emitted_once_with_its_nodes(monkeypatch: pytest.MonkeyPatch):
    events: list[Event] = []
    graphs = CudaGraphs(Hooks(events.append))

    class CUDAGraphTreeManager:
        compile_id = "2/0"

        def run(self) -> None:
            graphs._skipped("skipping cudagraphs due to mutated inputs (1 instances)")
            graphs._skipped("skipping cudagraphs due to mutated inputs (1 instances)")

    CUDAGraphTreeManager().run()
    assert running_graph() == ""
    compiled = SimpleNamespace(
        fx_kwargs={"is_backward": True},
        cudagraph_info=SimpleNamespace(cudagraph_fail_reasons=["complex memory overlap"]),
    )
    graphs._compiled([], compiled)
    monkeypatch.setattr(cuda_graphs, "compilation", lambda _: Compilation("3/0", "forward"))
    node = SimpleNamespace(get_name=lambda: "op1")
    with torch._inductor.config.patch({"triton.cudagraphs": True}):
        graphs._partitioned("cpu ops", None, node)
        graphs._partitioned(None, None, node)
        graphs._partitioned("cpu ops", None, SimpleNamespace(snodes=[node], get_name=lambda: "op1_op2"))
    skipped = [event for event in events if isinstance(event, CudaGraphSkipped)]
    assert [(one.graph, one.phase, one.nodes) for one in skipped] == [
        ("2/0", "", ()),
        ("", "backward", ()),
        ("3/0", "forward", ("op1",)),
    ]


def test_hooks_exist_in_this_torch(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    events: list[Event] = []
    hooks = Hooks(events.append)
    install(hooks, StructuredTrace(hooks), UserFiles(__file__))
    hooks.remove()
    assert [event for event in events if isinstance(event, FactMissing)] == []
