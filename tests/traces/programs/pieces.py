"""A model whose graph is split at attention, and compiled in pieces, as vLLM does: with `--late`, in the first call.

The records have the names and the keys of vLLM's; the pieces themselves are compiled by Inductor.
"""

import argparse
import json
from typing import Any

import torch
from torch._inductor import standalone_compile
from torch._logging._internal import trace_structured
from torch.fx.passes.split_module import split_module

parser = argparse.ArgumentParser()
parser.add_argument("--late", action="store_true")
late = parser.parse_args().late


@torch.library.custom_op("pieces::attention", mutates_args=())
def attention(query: torch.Tensor) -> torch.Tensor:
    return torch.softmax(query @ query.T, -1) @ query


attention.register_fake(torch.empty_like)


class Layer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.project, self.out = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)

    def forward(self, x):
        x = x + attention(self.project(x))
        return x + self.out(x).relu()


class Piece(torch.nn.Module):
    """A piece of the graph, compiled for a range of sizes."""

    def __init__(self, graph: torch.fx.GraphModule, name: str, index: int, total: int) -> None:
        super().__init__()
        self.graph, self.name, self.index, self.total = graph, name, index, total
        self.compiled: Any = None

    def compile(self, arguments) -> None:
        facts = {
            "piecewise_index": self.index, "submod_name": self.name, "total_piecewise_compiles": self.total,
            "compile_range_start": 1, "compile_range_end": 8192, "is_single_size": False,
            "is_cudagraph_capture_size": False,
        }  # fmt: skip
        trace_structured(
            "artifact",
            metadata_fn=lambda: {"name": "vllm_piecewise_compile_start", "encoding": "json"},
            payload_fn=lambda: json.dumps(facts),
        )
        dump(f"vllm_{self.name}", self.graph)
        self.compiled = standalone_compile(self.graph, list(arguments), dynamic_shapes="from_graph")

    def forward(self, *arguments):
        if self.compiled is None:
            self.compile(arguments)
        return self.compiled(*arguments)


def dump(name: str, graph: torch.fx.GraphModule) -> None:
    trace_structured(
        "graph_dump", metadata_fn=lambda: {"name": name}, payload_fn=lambda: graph.print_readable(print_output=False)
    )


def backend(graph: torch.fx.GraphModule, _inputs):
    """Split the graph before and after each call of attention, and compile the rest."""
    part, of = 0, {}
    for node in graph.graph.nodes:
        if node.op in ("placeholder", "output"):
            continue
        if "attention" in str(node.target):
            part += 1
            of[node] = part
            part += 1
        else:
            of[node] = part
    attentions = {f"submod_{number}" for node, number in of.items() if "attention" in str(node.target)}
    split = split_module(graph, None, of.__getitem__, keep_original_order=True)
    dump("vllm_piecewise_split_graph", split)
    names = [name for name, _ in split.named_children() if name not in attentions]
    pieces = {name: Piece(getattr(split, name), name, index, len(names)) for index, name in enumerate(names)}

    class Compile(torch.fx.Interpreter):
        def call_module(self, target, args, kwargs):
            if target in pieces:
                pieces[target].compile(args)
            return super().call_module(target, args, kwargs)

    if not late:
        values = [node.meta["example_value"] for node in graph.graph.find_nodes(op="placeholder")]
        with values[0].fake_mode:
            Compile(split).run(*values)
    for name, piece in pieces.items():
        setattr(split, name, piece)
    return split


def main() -> None:
    torch.manual_seed(0)
    model = torch.compile(torch.nn.Sequential(Layer(), Layer()), backend=backend, dynamic=False)
    with torch.no_grad():
        model(torch.randn(4, 8))


if __name__ == "__main__":
    main()
