"""Records as the JSON objects that `schema.json` defines: a new field gets its key when the schema is written.

A key holds the field of its name, or of its name without the unit: `at_s` holds `at`. `FIELDS` lists the fields with
another name, `COMPUTED` the values that are not a field. The keys `file`, `line` and `function` hold the location of a
record. The schema gives the order of the keys and the form of the values. An empty text is null if the key allows null.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from tcexplore import events as ev
from tcexplore.documents.code.scheduler_reasons import explain_refusal
from tcexplore.documents.locations import display_path
from tcexplore.documents.source.line_facts import parts_by_line, times_of_lines
from tcexplore.documents.timing.accuracy_rows import describe_accuracy
from tcexplore.documents.timing.recommendation import recommend
from tcexplore.events import Location
from tcexplore.session import Snapshot
from tcexplore.session.call_account import eager_ops
from tcexplore.session.compile_time import compile_time, files_compiled
from tcexplore.session.economics import economics
from tcexplore.session.graph_stages import saved_for_backward

Fields = dict[str, Any]
Schema = Mapping[str, Any]

FIELDS: dict[str, dict[str, str]] = {
    "accuracy": {"worst_value": "worst"},
    "break": {"user_code": "code"},
    "cache_entry": {"compile_s": "seconds", "backward_compile_s": "backward_seconds"},
    "call": {"graph_s": "graph_seconds", "frame_s": "frame_seconds", "cpu_s": "cpu_seconds"},
    "compile_worker": {"exit_status": "status", "output": "text"},
    "compile_time": {
        "wall_s": "wall_seconds",
        "graph_s": "graph_seconds",
        "frame_s": "frame_seconds",
        "spans": "roots",
    },
    "device": {"throttle_reasons": "slowed_by"},
    "frame": {"frame": "number"},
    "frame_answer": {"frame": "number"},
    "graph": {"id": "graph"},
    "kernel": {"scheduler_class": "kind"},
    "kernel_line": {"line": "n", "source_lines": "source"},
    "loop": {"scheduler_nodes": "nodes", "scalar_reason": "reason"},
    "memory": {"eager_saved_for_backward_bytes": "saved_for_backward"},
    "partition": {"saved_for_backward": "saved"},
    "pass": {"changes": "hunks"},
    "report": {
        "error": "failure",
        "state_dict": "state_keys",
        "output_dropped_chars": "output_dropped",
        "graph_splits": "splits",
    },
    "region_calls": {
        "count": "calls",
        "warm_median_us": "median_us",
        "warm_p10_us": "low_us",
        "warm_p90_us": "high_us",
        "warm_sampled": "sampled",
        "graphs_entered": "entered",
        "resumed_graphs_entered": "resumed",
        "without_graph": "uncompiled",
        "activity_bin_s": "bin_s",
    },
    "resources": {
        "registers_per_thread": "registers",
        "spill_bytes_per_thread": "spills",
        "stack_bytes_per_thread": "stack",
        "threads_per_block": "threads",
        "blocks_per_multiprocessor": "blocks",
    },
    "roofline": {
        "flop_per_byte": "intensity",
        "bound_us": "implied_us",
        "memory_peak_bytes_per_s": "memory_peak",
        "compute_peak_flop_per_s": "peak",
    },
    "skipped_cuda_graph": {"scheduler_nodes": "nodes"},
    "span": {"self_s": "self_seconds"},
    "specialization": {"guard": "reason"},
    "state_dict": {"compiled_prefix": "prefix", "compiled_in_place": "in_place"},
    "symbol": {"specializations": "specialized"},
    "timing": {"calls_per_unit": "calls", "eager_block_units": "block", "compiled_block_units": "block_compiled"},
    "vectors": {
        "width_bits": "width",
        "packed_instructions": "packed",
        "scalar_instructions": "scalar",
        "called_functions": "calls",
    },
}
"""Definition in the schema, key, field."""

COMPUTED: dict[str, Callable[[Any], Fields]] = {
    "accuracy": lambda accuracy: {"summary": describe_accuracy(accuracy)},
    "frame": lambda frame: {"at_limit": "error" if frame.error_at_limit else "eager"},
    "fusion_decision": lambda decision: {"explanation": explain_refusal(decision.reason) or None},
    "loop": lambda loop: {"vector_bits": loop.width or None, "lanes": loop.lanes or None},
    "memory_returned": lambda returned: {"ci95": (returned.low, returned.high)},
    "region_compile": lambda mark: {
        "capture_reason": mark.capture_reason,  # null: no backward; empty: without a reason
        "failed_guards": [recompile.failed_guard for recompile in mark.causes],
    },
    "resources": lambda resources: {"instruction_mix": dict(resources.mix)},
    "script_end": lambda end: {"timed_out": end.time_limit is not None},
    "timed_process": lambda process: {"ci95": (process.low, process.high)},
    "zero_one": lambda fixed: {"name": fixed.source.name, "kind": fixed.source.kind, "dim": fixed.source.dim},
}
"""Values of a record that are not simply a field, by definition."""

UNITS = ("_us", "_s", "_bytes", "_mhz", "_w", "_c")


def fields(definition: str, record: Any, **values: Any) -> Fields:
    """Return a record as the object of a definition. `values` replace its fields, or add to them."""
    computed = COMPUTED[definition](record) if definition in COMPUTED else {}
    return _object(record, definitions()[definition], FIELDS.get(definition, {}), {**computed, **values})


@cache
def definitions() -> dict[str, Any]:
    """Return the definitions of the schema, with the whole report as `report`."""
    schema = json.loads(files("tcexplore.report").joinpath("schema.json").read_text(encoding="utf-8"))
    return {**schema["$defs"], "report": schema}


def _object(record: Any, schema: Schema, names: Mapping[str, str], computed: Fields) -> Fields:
    properties: dict[str, Schema] = schema["properties"]
    if isinstance(record, tuple) and not hasattr(record, "_fields"):
        computed = dict(zip(properties, record, strict=True))
    return {
        key: _json(computed[key] if key in computed else _field(record, names.get(key, key), form), form)
        for key, form in properties.items()
    }


def _field(record: Any, name: str, schema: Schema) -> Any:
    if name in ("file", "line", "function"):
        location = _location(record)
        if location is None:
            return None
        return display_path(location.file) if name == "file" else getattr(location, name)
    if not hasattr(record, name):
        name = name.removesuffix(next(unit for unit in UNITS if name.endswith(unit)))
    value = getattr(record, name)
    return None if value == "" and _nullable(schema) else value


def _location(record: Any) -> Location | None:
    """Return the location that a record is or has."""
    if record is None or isinstance(record, Location):
        return record
    location: Location | None = record.location if hasattr(record, "location") else record.frame
    return location


def _json(value: Any, schema: Schema) -> Any:
    """Return a value in the form that its schema describes. Objects that are complete stay as they are."""
    if "anyOf" in schema:
        return None if value is None else _json(value, schema["anyOf"][0])
    if isinstance(value, dict):
        return value
    if "$ref" in schema:
        definition = schema["$ref"].rpartition("/")[2]
        return [display_path(value.file), value.line] if definition == "pair" else fields(definition, value)
    if "properties" in schema:
        return _object(value, schema, {}, {})
    if isinstance(value, tuple | list):
        return [_json(item, schema.get("items") or {}) for item in value]
    return _scalar(value, schema)


def _scalar(value: Any, schema: Schema) -> Any:
    """Return a number or text. A number that JSON does not have is None."""
    if schema.get("type") == ["integer", "string"]:
        return int(value) if value.lstrip("-").isdecimal() else value
    infinite = isinstance(value, float) and not math.isfinite(value)
    return None if infinite and _nullable(schema) else value


def _nullable(schema: Schema) -> bool:
    return "null" in schema.get("type", ()) or None in schema.get("enum", ())


def timing(snapshot: Snapshot, calls: int | None = None) -> Fields | None:
    """Return the estimate with all its samples, and the recommendation for `calls` calls (None: any number)."""
    estimate = snapshot.timing
    if estimate is None:
        return None
    costs = economics(snapshot)
    payback = costs.payback
    return fields(
        "timing",
        estimate,
        ci95=(estimate.low, estimate.high),
        first_call_s=costs.first_call_s,
        compile_s=costs.compile_s,
        compile_overhead_s=costs.cost_s,
        saved_us_per_call=payback.saved_us if payback else None,
        break_even_calls=costs.break_even_calls,
        net_s=payback.net_seconds(calls) if payback and calls else None,
        recommendation=recommend(snapshot, calls),
        samples=_samples(snapshot.pairs),
    )


def line_time_fields(snapshot: Snapshot) -> Fields:
    """Return the time of each line of the user's files in one call, and of what is on no line."""
    times = times_of_lines(snapshot)
    if times is None:
        return {"line_times": [], "line_times_rest": []}
    lines = [fields("line_time", time, file=display_path(time.file), line=time.line) for time in times.lines]
    return {"line_times": lines, "line_times_rest": times.rest}


def account(snapshot: Snapshot) -> Fields | None:
    """Return the parts of the compiled call, each on its line; None if no call was profiled."""
    known = snapshot.call_account
    if known is None:
        return None
    parts = [
        fields(
            "call_part",
            part,
            file=display_path(line.file) if line else None,
            line=line.line if line else None,
            us=part.us * fraction,
            low_us=part.low_us * fraction,
            high_us=part.high_us * fraction,
            shared=shared,
        )
        for part, line, fraction, shared in parts_by_line(snapshot)
    ]
    profile = known.profile
    return fields(
        "call_account", known, parts=parts, device_tasks=profile.device_tasks, launches=profile.launches,
        device_busy_us=profile.device_busy_us, launch_gaps_us=profile.launch_gaps_us,
    )  # fmt: skip


def eager_op_fields(snapshot: Snapshot) -> Fields | None:
    """Return the ops outside the graphs; None if no call was profiled."""
    known = snapshot.call_account
    ops = eager_ops(known)
    return None if known is None else fields("eager_ops", known.profile, ops=ops)


def _samples(pairs: tuple[ev.PairsMeasured, ...]) -> Fields:
    measured = [p for p in pairs if not p.control]
    control = [p for p in pairs if p.control]
    return {
        "eager_us": [us for p in measured for us in p.eager_us],
        "compiled_us": [us for p in measured for us in p.compiled_us],
        "control_a_us": [us for p in control for us in p.eager_us],
        "control_b_us": [us for p in control for us in p.compiled_us],
    }


def accuracy(accuracy: ev.Accuracy | None) -> Fields | None:
    """Return the comparison with eager and the figures of every value; None if nothing was compared."""
    if accuracy is None or (accuracy.verdict == "not judged" and not accuracy.calls):
        return None
    return fields("accuracy", accuracy)


def memory(snapshot: Snapshot) -> Fields | None:
    """Return the memory of one call in bytes; None if it was not measured."""
    memory = snapshot.memory
    if memory is None:
        return None
    compiled_saved = None if memory.saved_for_backward is None else saved_for_backward(snapshot)
    return fields("memory", memory, compiled_saved_for_backward_bytes=compiled_saved)


def compile_time_fields(snapshot: Snapshot) -> Fields:
    """Return the whole tree of compile spans."""
    time = compile_time(snapshot)
    kernels = sorted(snapshot.kernel_compiles, key=lambda kernel: -kernel.seconds)
    return fields(
        "compile_time", time, kernels=kernels, file_compiles_s=files_compiled(time.roots),
        compile_workers=snapshot.compile_workers,
    )  # fmt: skip
