"""The report of a run as JSON. `docs/report.md` describes every key, `schema.json` is its JSON Schema."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tcexplore import __version__
from tcexplore import events as ev
from tcexplore.documents.locations import display_path
from tcexplore.report import json_device, json_graphs, json_timing
from tcexplore.report.json_guards import guard_fields
from tcexplore.report.json_kernels import kernel_fields
from tcexplore.report.json_regions import script_fields
from tcexplore.session import Snapshot
from tcexplore.session.code import NATIVE
from tcexplore.session.ranked_breaks import rank_breaks

SCHEMA = 2
"""Version of the format; it changes with every key that is removed or changes its meaning."""

NOT_COMPARED = "the run ended before eager and compiled were compared"

NOT_ASSEMBLED = "C++ kernels are assembled with --assembly only, and have no GPU resources"

Fields = dict[str, Any]


def report(
    snapshot: Snapshot, machine: ev.Standby | None, exceeded: Sequence[str] = (), calls: int | None = None
) -> Fields:
    """Return the report of a run, always with the same keys in the same order.

    `machine` is None if no worker started, `exceeded` names the limits that the run exceeds, and the recommendation
    is for `calls` calls (None: any number).
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
        "graphs": [json_graphs.graph(graph) for graph in snapshot.graphs],
        "breaks": [json_graphs.ranked_break(ranked) for ranked in rank_breaks(snapshot)],
        "skipped_frames": [json_graphs.skipped_frame(skipped) for skipped in snapshot.skipped_frames],
        "eager_ops": json_graphs.eager_ops(snapshot.eager_ops),
        **guard_fields(snapshot),
        "aten_graphs": [json_graphs.aten_graph(graph) for graph in snapshot.code.aten_graphs],
        **kernel_fields(snapshot),
        "partitions": [json_graphs.partition(partition) for partition in snapshot.code.partitions],
        "passes": [json_graphs.pass_run(run) for run in snapshot.code.passes],
        **_measurements(snapshot, calls),
        **script_fields(snapshot),
        "state_dict": state_dict(snapshot.state_keys),
        "output": [{"stream": output.stream, "text": output.text} for output in snapshot.output],
        "output_dropped_chars": snapshot.output_dropped,
        "missing": list(_missing(snapshot)),
    }


def _measurements(snapshot: Snapshot, calls: int | None) -> Fields:
    return {
        "timing": json_timing.timing(snapshot, calls),
        "accuracy": json_timing.accuracy(snapshot.accuracy),
        "memory": json_timing.memory(snapshot),
        "call_profile": json_timing.call_profile(snapshot.call_profile),
        "calls": [json_timing.call(call) for call in snapshot.calls],
        "compile_time": json_timing.compile_time_fields(snapshot),
        "phase_times": [json_timing.phase_time(phase) for phase in snapshot.phase_times],
        "cache_lookups": [
            {"cache": lookup.cache, "graph": lookup.graph, "outcome": lookup.outcome, "reason": lookup.reason}
            for lookup in snapshot.cache_lookups
        ],
        "device": json_device.device(snapshot.device),
        "autotuned": [json_device.autotuned(tuned) for tuned in snapshot.autotuned],
        "cuda_graphs": json_device.cuda_graphs(snapshot),
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
    """Return how a run compiles, and on what."""
    config, timing = snapshot.config, snapshot.timing
    return {
        "mode": config.mode,
        "backend": config.backend,
        "dynamic": config.dynamic,
        "fullgraph": config.fullgraph,
        "train": config.train,
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
    """Return why a run failed; None if it did not."""
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


def state_dict(keys: ev.StateKeys | None) -> Fields | None:
    """Return the first names in the state dict of each form; None for a function."""
    if keys is None:
        return None
    return {
        "count": keys.count,
        "compiled_prefix": keys.prefix,
        "module": list(keys.module),
        "compiled": list(keys.compiled),
        "compiled_in_place": list(keys.in_place),
    }


def _missing(snapshot: Snapshot) -> Iterable[Fields]:
    """Yield why facts are null: those that torch does not provide, then those that were not measured."""
    for missing in snapshot.missing_facts:
        yield {"fact": missing.fact, "symbol": missing.symbol, "reason": missing.reason}
    known = {missing.fact for missing in snapshot.missing_facts}
    if snapshot.timing is None and snapshot.timing_skipped:
        yield {"fact": "timing", "symbol": None, "reason": snapshot.timing_skipped}
    if json_timing.accuracy(snapshot.accuracy) is None and "accuracy" not in known:
        reason = snapshot.accuracy.reason if snapshot.accuracy else NOT_COMPARED
        yield {"fact": "accuracy", "symbol": None, "reason": reason}
    if snapshot.memory is None and "memory" not in known:
        yield {"fact": "memory", "symbol": None, "reason": NOT_COMPARED}
    cpp = any(kernel.language == "cpp" for kernel in snapshot.code_for(NATIVE).kernels)
    if cpp and not snapshot.config.assembly:
        for fact in ("resources", "stages"):
            yield {"fact": fact, "symbol": None, "reason": NOT_ASSEMBLED}
