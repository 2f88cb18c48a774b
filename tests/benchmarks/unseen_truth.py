"""What torch's own trace says about a program: `python -m tests.benchmarks.unseen_truth FILE`, as JSON.

Runs the file without tcexplore. Calls a model as tcexplore does: each call once eagerly, then once compiled.
"""

from __future__ import annotations

import json
import logging
import re
import runpy
import sys
from typing import Any

import torch

BACKEND = "aot_eager"
_BREAK = re.compile(r"Graph break in user code at (.+):(\d+)")


class TraceReader(logging.Handler):
    """Collects compile ids from torch's structured trace. After a reset, ids begin again: each gets a generation."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.generation = 0
        self.graphs: dict[str, None] = {}
        self.compiled: list[str] = []
        self.guarded: dict[str, None] = {}
        self.recompiled: dict[str, None] = {}
        self.over_limit: list[str] = []
        self.breaks: dict[int, None] = {}

    def handle(self, record: logging.LogRecord) -> bool:
        metadata, payload = getattr(record, "metadata", {}), getattr(record, "payload", None) or ""
        kind = next(iter(metadata), "")
        name = metadata[kind]["name"] if kind == "artifact" else kind
        graph = f"{self.generation}:{metadata.get('frame_id')}/{metadata.get('frame_compile_id')}"
        if name == "dynamo_output_graph":
            self.graphs[graph] = None
        elif name == "dynamo_cpp_guards_str":
            self.guarded[graph] = None
        elif name == "compilation_metrics":
            self._compiled(graph, metadata[kind])
        elif name == "dynamo_graph_break_reason" and (match := _BREAK.search(payload)):
            self.breaks[int(match[2])] = None
        return True

    def _compiled(self, graph: str, metrics: Any) -> None:
        if metrics.get("has_guarded_code"):
            self.compiled.append(graph)
            if not graph.endswith("/0"):
                self.recompiled[graph] = None
        elif "recompile limit" in str(metrics.get("fail_reason")):
            self.over_limit.append(graph)

    def result(self) -> dict[str, Any]:
        return {
            "graphs": len(self.graphs),
            "breaks": sorted(self.breaks),
            "recompiles": len(self.recompiled),
            "over_limit": len(self.over_limit),
            "guards": len(self.guarded),
        }


def main(file: str) -> None:
    """Run the file and print what was traced."""
    reader = TraceReader()
    logger = logging.getLogger("torch.__trace")
    logger.handlers.insert(0, reader)
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    _count_resets(reader)
    torch.manual_seed(0)
    names = runpy.run_path(file, run_name="__main__")
    calls = []
    if "inputs" in names:
        model, inputs = names["model"], names["inputs"]
        with torch.no_grad():
            for call in inputs:
                model(*call)
            compiled = torch.compile(model, backend=BACKEND)
            for call in inputs:
                before = len(reader.compiled)
                compiled(*call)
                calls.append(len(reader.compiled) - before)
    print(json.dumps({**reader.result(), "calls": calls}), file=sys.__stdout__)


def _count_resets(reader: TraceReader) -> None:
    original = torch._dynamo.reset

    def reset() -> None:
        reader.generation += 1
        original()

    torch._dynamo.reset = reset


if __name__ == "__main__":
    main(sys.argv[1])
