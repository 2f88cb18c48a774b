"""Records of AOTAutograd and Inductor as events: graphs, generated modules, caches, autotuning, compile times.

Also graphs in parts: DDP's splits, vLLM's pieces, and collectives that Inductor merged.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from hashlib import sha256
from typing import Any, Literal, NamedTuple

from tcexplore import events as ev
from tcexplore.torch_text import compile_workers
from tcexplore.torch_text.cache_key_text import CacheKeyReader
from tcexplore.torch_text.graph_parts import PartNumbers, prefixed
from tcexplore.traces.graph_text import CALLS, read_graph, read_subgraphs
from tcexplore.traces.record_index import Record
from tcexplore.traces.trace_context import Converter, TraceContext
from tcexplore.traces.trace_modules import GraphModules, GraphPart, align, part_modules, with_origins
from tcexplore.traces.trace_sources import read_stack

AOT_STAGES: Mapping[str, tuple[ev.AtenStage, ev.GraphPhase]] = {
    "aot_joint_graph": ("joint", "forward"),
    "aot_forward_graph": ("forward", "forward"),
    "aot_backward_graph": ("backward", "backward"),
    "aot_inference_graph": ("inference", "forward"),
}
"""Stage and phase by kind of record."""

CACHES: Mapping[str, str] = {
    "fx_graph_cache": "fx_graph",
    "fx_graph_bundled_cache": "fx_graph",
    "aotautograd_cache": "aot_autograd",
}
"""Name of the cache by the beginning of the kind."""

AOT_SETTINGS = "torch._functorch.config"
"""Kind of the record of AOTAutograd's settings, written when it compiles a graph."""

CACHE_KINDS: Mapping[str, tuple[str, ev.CacheOutcome]] = {
    f"{prefix}_{outcome}": (cache, outcome) for prefix, cache in CACHES.items() for outcome in ("hit", "miss", "bypass")
}
"""Cache and outcome by kind of record."""


class PostGrad(NamedTuple):
    """A graph that Inductor lowers."""

    nodes: tuple[ev.FxNode, ...] = ()
    prefix: str = ""
    """What begins the names of its nodes, in a graph that was split."""
    subgraphs: tuple[ev.Subgraph, ...] = ()


class GraphRecords:
    """Graphs below Dynamo's."""

    def __init__(self) -> None:
        self._forwards: dict[str, tuple[ev.FxNode, ...]] = {}
        self._numbers = PartNumbers()
        self.post_grad: dict[tuple[str, ev.GraphPhase], PostGrad] = {}
        """The newest post-grad graph, by compile id and phase."""

    def read_aot(self, context: TraceContext, record: Record) -> None:
        """Emit a graph of AOTAutograd; after the backward, what the partitioner saves."""
        stage, phase = AOT_STAGES[record.kind]
        code = context.payload(record)
        nodes = _nodes(context, record.graph, code)
        known, prefix = self._modules(context, record.graph, stage, phase, nodes)
        if known is not None and stage != "joint":
            nodes = align(known, nodes, phase == "backward")
        nodes = prefixed(nodes, prefix)
        subgraphs = _subgraphs(context, record.graph, code, nodes, prefix)
        context.emit(
            ev.AtenGraph(graph=record.graph, stage=stage, phase=phase, nodes=nodes, code=code, subgraphs=subgraphs)
        )
        if stage == "forward":
            self._forwards[record.graph] = nodes
        elif stage == "backward" and (forward := self._forwards.pop(record.graph, None)):
            context.emit(_partition(record.graph, forward, nodes))

    def read_post_grad(self, context: TraceContext, record: Record) -> None:
        """Emit the graph that Inductor lowers. Only that of a backward has tangents."""
        code = context.payload(record)
        nodes = _nodes(context, record.graph, code)
        backward = any(node.op == "placeholder" and node.name.startswith("tangents_") for node in nodes)
        phase: ev.GraphPhase = "backward" if backward else "forward"
        known, prefix = self._modules(context, record.graph, "post_grad", phase, nodes)
        if known is not None:
            nodes = with_origins(known, nodes, phase)
        subgraphs = _subgraphs(context, record.graph, code, nodes, prefix)
        self.post_grad[record.graph, phase] = PostGrad(nodes, prefix, subgraphs)
        nodes = prefixed(nodes, prefix)
        context.emit(
            ev.AtenGraph(
                graph=record.graph, stage="post_grad", phase=phase, nodes=nodes, code=code, subgraphs=subgraphs
            )
        )

    def _modules(
        self, context: TraceContext, graph: str, stage: str, phase: str, nodes: Sequence[ev.FxNode]
    ) -> tuple[GraphModules | None, str]:
        """Return what is known of the Dynamo nodes below which a graph is, and what begins the names of its nodes.

        The names of all of DDP's parts but the first begin with the name of the part.
        """
        parts = context.parts.get(graph, ())
        if len(parts) < 2 or any(part.modules is None for part in parts):
            return context.modules.get(graph), ""
        number = self._numbers.number(graph, stage, phase, nodes)
        if number >= len(parts):
            return context.modules.get(graph), ""
        return parts[number].modules, f"{parts[number].name}." if number else ""


def _subgraphs(
    context: TraceContext, graph: str, code: str, nodes: tuple[ev.FxNode, ...], prefix: str
) -> tuple[ev.Subgraph, ...]:
    """Return the graphs inside a graph, none for a further part of DDP's, whose names these would share."""
    return () if prefix else read_subgraphs(code, nodes, partial(context.location, graph))


def _nodes(context: TraceContext, graph: str, code: str) -> tuple[ev.FxNode, ...]:
    return context.with_lines(graph, read_graph(code, partial(context.location, graph)))


def _partition(graph: str, forward: tuple[ev.FxNode, ...], backward: tuple[ev.FxNode, ...]) -> ev.Partitioned:
    known = {node.name: node for node in forward if node.op != "output"}
    shared = [node for node in backward if node.name in known]
    saved = tuple(
        ev.SavedTensor(
            name=node.name,
            bytes=known[node.name].tensor_bytes,
            input=known[node.name].op == "placeholder",
            location=known[node.name].location,
        )
        for node in shared
        if node.op == "placeholder"
    )
    return ev.Partitioned(graph=graph, saved=saved, recomputed=tuple(n.name for n in shared if n.op in CALLS))


# ---- caches


class CacheRecords:
    """Cache lookups and their keys."""

    def __init__(self) -> None:
        self._keys = CacheKeyReader()
        self._graph_keys: set[tuple[str, str]] = set()
        self._without_parts: dict[str, str] = {}
        """Keys of AOTAutograd whose parts torch does not write, by graph."""
        self.converters: Mapping[str, Converter] = {
            **dict.fromkeys(CACHE_KINDS, self.read_lookup),
            AOT_SETTINGS: self.read_settings,
        }

    def read_lookup(self, context: TraceContext, record: Record) -> None:
        """Emit a lookup, and its key."""
        cache, outcome = CACHE_KINDS[record.kind]
        facts = context.json(record)
        facts = facts if isinstance(facts, dict) else {}
        reason = str(facts.get("cache_bypass_reason") or "")
        context.emit(ev.CacheLookup(graph=record.graph, cache=cache, outcome=outcome, reason=reason))
        key = facts.get("key")
        if parts := self._keys.read(record.graph, cache, facts):
            context.emit(parts)
        elif cache == "aot_autograd" and outcome == "miss" and isinstance(key, str):
            self._without_parts[record.graph] = key
        if cache == "fx_graph" and isinstance(key, str) and key and (record.graph, key) not in self._graph_keys:
            self._graph_keys.add((record.graph, key))
            context.emit(ev.CompiledGraphKey(graph=record.graph, key=ev.clean(key)))

    def read_settings(self, context: TraceContext, record: Record) -> None:
        """Emit the settings of AOTAutograd as the parts of the key that missed: torch writes no other part of it."""
        key, settings = self._without_parts.pop(record.graph, ""), context.json(record)
        if not isinstance(settings, dict):
            return
        parts = [
            f"[{sha256(repr(value).encode()).hexdigest()}] functorch_config[{name}]: {value!r}"
            for name, value in settings.items()
            if name not in ("TYPE_CHECKING", "_save_config_ignore")
        ]
        if event := self._keys.read(record.graph, "aot_autograd", {"key": key, "components": parts}):
            context.emit(event)


# ---- autotuning and compile times


def read_triton_info(context: TraceContext, record: Record) -> None:
    """Emit the configuration of each Triton kernel that was autotuned before, and the kernels' compile times."""
    facts = context.json(record)
    for name, kernel in facts.items() if isinstance(facts, dict) else ():
        if not isinstance(kernel, dict):
            continue
        name = ev.clean(str(name))
        if isinstance(micros := kernel.get("compile_time_us"), int | float):
            context.timed_kernels.add((record.graph, name))
            context.emit(ev.KernelCompiled(graph=record.graph, name=name, seconds=micros / 1e6))
        if winner := tuned_configuration(kernel):
            choice = ev.TuningChoice(winner, "configuration", None, chosen=True)
            context.emit(
                ev.Autotuned(
                    graph=record.graph, phase="forward", method="configurations", choices=(choice,), kernel=name
                )
            )


def read_worker_status(context: TraceContext, record: Record) -> None:
    """Emit a report on a job of the compile workers."""
    if report := compile_workers.read_status(record.graph, context.payload(record)):
        context.emit(report)


def read_worker_end(context: TraceContext, record: Record) -> None:
    """Emit that the compile workers ended."""
    context.emit(compile_workers.read_end(record.graph, context.payload(record)))


def read_native_compile(context: TraceContext, record: Record) -> None:
    """Emit the compile of a kernel of one of torch's own ops."""
    if compiled := compile_workers.read_native_compile(record.graph, context.payload(record)):
        context.emit(compiled)


def read_estimates(context: TraceContext, record: Record) -> None:
    """Emit torch's estimates of the times of a schedule."""
    facts = context.json(record)
    ops = facts.get("ops") if isinstance(facts, dict) else None
    estimates = tuple(
        ev.OpEstimate(
            ev.clean(str(op.get("name") or "")), op["estimated_runtime_ns"] / 1e3, op.get("type") == "collective"
        )
        for op in (ops if isinstance(ops, list) else ())
        if isinstance(op, dict) and isinstance(op.get("estimated_runtime_ns"), int | float)
    )
    context.emit(ev.OpEstimates(graph=record.graph, ops=estimates))


def tuned_configuration(kernel: Mapping[str, Any]) -> str:
    """Return the best of several configurations, empty if torch has none or only one."""
    best = kernel.get("best_config")
    try:
        return ", ".join(f"{key}={value}" for key, value in best) if isinstance(best, list) else ""
    except (TypeError, ValueError):
        return ""


def triton_times(metrics: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """Yield the compile time in seconds of each of a graph's slowest Triton kernels."""
    try:
        times = json.loads(metrics.get("triton_kernel_compile_times_us") or "[]")
        yield from ((ev.clean(str(name)), micros / 1e6) for name, micros in times)
    except (ValueError, TypeError):
        return


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
    parts = context.parts.setdefault(graph, [])
    begin = sum(node.op in CALLS for known in parts for node in known.nodes)
    known_modules = part_modules(nodes, context.graphs.get(graph, ()), begin) if origin == "ddp" else None
    parts.append(GraphPart(part, nodes, known_modules))
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
