"""Records of graphs in parts: DDP's splits, vLLM's pieces, and collectives that Inductor merged."""

from __future__ import annotations

import re
from functools import partial
from typing import Literal

from tcexplore import events as ev
from tcexplore.traces.graph_text import CALLS, read_graph
from tcexplore.traces.record_index import Record
from tcexplore.traces.trace_context import TraceContext
from tcexplore.traces.trace_sources import read_stack

BUCKETS = {
    "fx_bucketing_passes_all_gather_buckets": "all_gather",
    "fx_bucketing_passes_reduce_scatter_buckets": "reduce_scatter",
}
"""Collective by kind of record."""

_PIECE = re.compile(r"^vllm_(?=sub(?:mod|graph)_)")
_SPLIT = "vllm_piecewise_split_graph"
_GENERATED = "<eval_with_key>"
"""Beginning of the file name of a graph's generated code."""
_BUCKET = re.compile(r"\[([^\[\]]+)\]")


def read_split(context: TraceContext, record: Record) -> None:
    """Emit a part of a graph that DDP split."""
    _emit_part(context, record, str(record.meta.get("name") or ""), "ddp")


def with_split_graph(context: TraceContext, record: Record) -> Record:
    """Return the record with the compile id of the graph that vLLM split, if it compiles a piece of it in a call.

    Such a record has no id, but a stack, in which the code of the split graph calls the piece.
    """
    if record.graph or not context.split_graph:
        return record
    files = (frame.file for frame, _ in read_stack(record.envelope.get("stack"), context.strings))
    code = next((file for file in files if file.startswith(_GENERATED)), None)
    return record._replace(graph=context.split_callers.setdefault(code, context.split_graph)) if code else record


def read_dump(context: TraceContext, record: Record) -> None:
    """Emit a piece that vLLM compiles separately; other dumps of graphs are only listed."""
    name = str(record.meta.get("name") or "") if isinstance(record.meta, dict) else ""
    if name == _SPLIT:
        context.split_graph = record.graph
    if _PIECE.match(name):
        _emit_part(context, record, _PIECE.sub("", name), "vllm")


def _emit_part(context: TraceContext, record: Record, part: str, origin: Literal["ddp", "vllm"]) -> None:
    graph = record.graph

    nodes = read_graph(context.payload(record), partial(context.location, graph))
    calls = [node for node in nodes if node.op in CALLS]
    places = [node.location for node in calls if node.location]
    parameters = [node for node in nodes if node.op == "placeholder" and "parameters" in node.name]
    names = {node.name: node.target for node in context.graphs.get(graph, ()) if node.op == "placeholder"}
    modules = (names.get(node.name, node.name).rpartition(".")[0] for node in parameters)
    sizes = [node.tensor_bytes for node in parameters]
    known = [size for size in sizes if size is not None]
    context.emit(
        ev.GraphSplit(
            graph=graph,
            part=ev.clean(part),
            ops=len(calls),
            parameter_bytes=sum(known) if len(known) == len(sizes) else None,
            first=places[0] if places else None,
            last=places[-1] if places else None,
            modules=tuple(dict.fromkeys(filter(None, modules))),
            origin=origin,
        )
    )


def read_piece(context: TraceContext, record: Record) -> None:
    """Emit the range of sizes for which vLLM compiles a piece."""
    facts = context.json(record)
    if not isinstance(facts, dict):
        return
    first, last = facts.get("compile_range_start"), facts.get("compile_range_end")
    name = facts.get("submod_name") or f"submod_{facts.get('piecewise_index')}"
    if isinstance(first, int) and isinstance(last, int):
        context.emit(
            ev.PieceCompiled(
                graph=record.graph, part=ev.clean(str(name)), first=first, last=last,
                cuda_graph=bool(facts.get("is_cudagraph_capture_size")),
            )
        )  # fmt: skip


def read_buckets(context: TraceContext, record: Record) -> None:
    """Emit the collectives that Inductor merged."""
    groups = _BUCKET.findall(context.payload(record))
    buckets = tuple(tuple(name.strip() for name in group.split(",")) for group in groups)
    if buckets:
        context.emit(ev.CollectivesMerged(graph=record.graph, op=BUCKETS[record.kind], buckets=buckets))
