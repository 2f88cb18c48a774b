"""Tests that count breaks or recompiles, as public projects write them, and the same with the fixture."""

from __future__ import annotations

from typing import Any

import torch
import torch._dynamo
import torch._dynamo.testing
from torch._dynamo.utils import counters

from tcexplore.exploration import Explorer
from tests.pytest_plugin.models import Decoder, Denoiser, Encoder, Layers, Tabular

X = torch.ones(4, 8)


def breaks_by_hand(*, regressed: bool) -> None:
    """As in transformers: count the breaks of `explain`."""
    model = Encoder(regressed=regressed)
    torch._dynamo.reset()
    explanation = torch._dynamo.explain(model)(X)
    torch._dynamo.reset()
    assert explanation.graph_break_count == 0, explanation.break_reasons


def breaks_with_fixture(tcexplore: Explorer, *, regressed: bool) -> None:
    tcexplore.explore(Encoder(regressed=regressed), X, backend="eager").assert_no_breaks()


def recompiles_by_hand(*, regressed: bool) -> None:
    """As in diffusers: make each recompile an error."""
    model = torch.compile(Denoiser(regressed=regressed), backend="eager", fullgraph=True)
    torch._dynamo.reset()
    try:
        with torch._dynamo.config.patch(error_on_recompile=True), torch.no_grad():
            model(X)
            model(X)
    except torch._dynamo.exc.RecompileError as error:
        raise AssertionError(str(error)) from None


def recompiles_with_fixture(tcexplore: Explorer, *, regressed: bool) -> None:
    calls = [(X,), (X,)]
    tcexplore.explore(Denoiser(regressed=regressed), calls=calls, backend="eager").assert_max_recompiles(0)


def sizes_by_hand(*, regressed: bool) -> None:
    """As in TabPFN: count the compiles of several sizes."""
    torch._dynamo.reset()
    counter = torch._dynamo.testing.CompileCounter()
    model: Any = torch.compile(Tabular(regressed=regressed), backend=counter)
    for rows in (4, 9, 12, 13):
        model(torch.ones(rows, 8))
    assert counter.frame_count <= 2, counter.frame_count


def sizes_with_fixture(tcexplore: Explorer, *, regressed: bool) -> None:
    calls = [(torch.ones(rows, 8),) for rows in (4, 9, 12, 13)]
    tcexplore.explore(Tabular(regressed=regressed), calls=calls, backend="eager").assert_max_recompiles(1)


def graphs_by_hand(*, regressed: bool) -> None:
    """As in torchtitan: read Dynamo's counters."""
    torch._dynamo.reset()
    counters.clear()
    model = torch.compile(Layers(regressed=regressed), backend="eager")
    model(X)
    assert counters["stats"]["unique_graphs"] == 1, dict(counters["stats"])
    assert sum(counters["graph_break"].values()) == 0, dict(counters["graph_break"])


def graphs_with_fixture(tcexplore: Explorer, *, regressed: bool) -> None:
    tcexplore.explore(Layers(regressed=regressed), X, backend="eager").assert_no_breaks().assert_max_graphs(1)


def pieces_by_hand(*, regressed: bool) -> None:
    """As in vLLM: count the pieces between the calls of attention in a backend."""
    pieces = []

    def backend(graph: torch.fx.GraphModule, _inputs: list[torch.Tensor]) -> Any:
        pieces.append(graph)
        return graph.forward

    torch._dynamo.reset()
    torch.compile(Decoder(regressed=regressed), backend=backend)(X)
    assert len(pieces) <= 3, len(pieces)


def pieces_with_fixture(tcexplore: Explorer, *, regressed: bool) -> None:
    tcexplore.explore(Decoder(regressed=regressed), X, backend="eager").assert_max_graphs(3)
