"""The report as JSON: schema 1. Units are in the names; null is a fact that this run does not have, see `missing`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tcexplore import __version__
from tcexplore import events as ev
from tcexplore.documents.locations import display_path
from tcexplore.report import (
    json_aot,
    json_compile_time,
    json_device,
    json_graphs,
    json_kernels,
    json_regions,
    json_results,
    json_state,
    json_targets,
    json_timing,
)
from tcexplore.report import json_cache_entries as json_lineage
from tcexplore.session import Snapshot
from tcexplore.session.ranked_breaks import rank_breaks

SCHEMA = 1
"""Goes up with any change that a reader of the report could notice as wrong: a name gone, a meaning changed."""

NOT_REACHED = "the run did not come to the comparison of eager and compiled"

Fields = dict[str, Any]


def report(
    snapshot: Snapshot, machine: ev.Standby | None, exceeded: Sequence[str] = (), calls: int | None = None
) -> Fields:
    """The whole report of a run, its keys always the same and in the same order.

    `machine` is the worker's greeting, None when there was no worker; `exceeded` are the limits not kept; the
    recommendation is for `calls` calls, None for any number.
    """
    return {
        "schema": SCHEMA,
        "tcexplore": __version__,
        "torch": machine.torch if machine else None,
        "python": machine.python if machine else None,
        "file": display_path(snapshot.file),
        "entry": _entry(snapshot.entry),
        "config": configuration(snapshot),
        "status": snapshot.status,
        "error": failure(snapshot.failure),
        "limits_exceeded": list(exceeded),
        "graphs": [json_graphs.graph(g) for g in snapshot.graphs],
        "breaks": [json_graphs.costed(costed) for costed in rank_breaks(snapshot)],
        "skipped": [json_graphs.skipped(s) for s in snapshot.skipped_frames],
        "outside": json_graphs.outside(snapshot.eager_ops),
        "guards": [json_graphs.guard(i, g) for i in snapshot.guards for g in i.guards],
        "guard_latency_us": {i.graph: i.latency_us for i in snapshot.guards},
        "recompiles": [json_graphs.recompile(r) for r in snapshot.recompiles],
        **json_lineage.why_again(snapshot),
        "aten_graphs": [json_graphs.aten_graph(g) for g in snapshot.code.aten_graphs],
        "kernels": json_kernels.kernels(snapshot),
        "lowered": json_targets.lowered(snapshot),
        "not_lowered": json_targets.not_lowered(snapshot),
        "device_asked": json_targets.asked(snapshot),
        "wrapper": [json_kernels.wrapper(w) for w in snapshot.code.wrappers],
        "fusion": [json_kernels.fusion(f) for f in snapshot.code.fusion],
        "neighbors": json_kernels.neighbors(snapshot),
        "schedules": [json_kernels.schedule(s) for s in snapshot.code.schedules],
        "line_traffic": json_kernels.traffic(snapshot),
        "partitions": [json_aot.partition(p) for p in snapshot.code.partitions],
        "passes": [json_aot.pass_run(p) for p in snapshot.code.passes],
        **_measured(snapshot, calls),
        **_output(snapshot),
        "missing": list(_missing(snapshot)),
    }


def _output(snapshot: Snapshot) -> Fields:
    return {
        "output": [{"stream": o.stream, "text": o.text} for o in snapshot.output],
        "output_dropped_chars": snapshot.output_dropped,
    }


def _measured(snapshot: Snapshot, calls: int | None) -> Fields:
    return {
        "timing": json_timing.timing(snapshot, calls),
        "accuracy": json_results.accuracy(snapshot.accuracy),
        "memory": json_results.memory(snapshot),
        "phases": [json_timing.phase(p) for p in snapshot.phase_times],
        "device": json_device.device(snapshot.device),
        "tuned": [json_device.tuned(one) for one in snapshot.autotuned],
        "cuda_graphs": json_device.cuda_graphs(snapshot),
        "caches": [json_kernels.cache(c) for c in snapshot.cache_lookups],
        "one_call": json_timing.one_call(snapshot.call_profile),
        "compile_time": json_compile_time.compile_time(snapshot),
        "calls": [json_timing.call(c) for c in snapshot.calls],
        **json_regions.script(snapshot),
        "state_dict": json_state.state(snapshot.state_keys),
    }


def _entry(entry: ev.EntryFound | None) -> Fields | None:
    if entry is None:
        return None
    return {
        "name": entry.name,
        "kind": entry.kind,
        "rule": entry.rule,
        "calls": [list(call) for call in entry.calls],
        **json_graphs.place(entry.location),
        "notes": list(entry.notes),
    }


def configuration(snapshot: Snapshot) -> Fields:
    """How a run was compiled, and on what."""
    config, timing = snapshot.config, snapshot.timing
    return {
        "mode": config.mode,
        "backend": config.backend,
        "dynamic": config.dynamic,
        "fullgraph": config.fullgraph,
        "grad": config.train,
        "target": config.target,
        "device": config.device or (timing.device if timing else None),
        "threads": config.threads or (timing.threads if timing else None),
        "seed": config.seed,
        "inputs": list(config.inputs),
        "fuse": config.fuse,
        "dim": config.dim if config.sizes else None,
        "sizes": list(config.sizes),
        "vary": list(config.vary),
    }


def failure(failed: ev.Failed | None) -> Fields | None:
    """Why a run failed; null where it did not."""
    if failed is None:
        return None
    return {
        "stage": failed.stage,
        "blame": failed.blame,
        "type": failed.type,
        "message": failed.message,
        **json_graphs.place(failed.location),
        "hint": failed.hint,
        "traceback": failed.traceback,
    }


def _missing(snapshot: Snapshot) -> Iterable[Fields]:
    """Why facts are null: what this torch does not give, then what this run did not ask for."""
    for missing in snapshot.missing_facts:
        yield {"fact": missing.fact, "symbol": missing.symbol, "reason": missing.reason}
    if snapshot.timing is None and snapshot.timing_skipped:
        yield {"fact": "timing", "symbol": None, "reason": snapshot.timing_skipped}
    known = {missing.fact for missing in snapshot.missing_facts}
    if json_results.accuracy(snapshot.accuracy) is None and "accuracy" not in known:
        reason = snapshot.accuracy.reason if snapshot.accuracy else NOT_REACHED
        yield {"fact": "accuracy", "symbol": None, "reason": reason}
    if snapshot.memory is None and "memory" not in known:
        yield {"fact": "memory", "symbol": None, "reason": NOT_REACHED}
    yield from json_targets.why_null(snapshot)
