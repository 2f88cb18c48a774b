"""The report of a run as JSON. `docs/report.md` describes every key, `schema.json` is its JSON Schema."""

from __future__ import annotations

import re
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from tcexplore import __version__
from tcexplore import events as ev
from tcexplore.documents.line_facts import parts_by_line, times_of_lines, times_outside_call
from tcexplore.documents.locations import display_path
from tcexplore.documents.module_folds import timed_tree
from tcexplore.documents.rank_alert import hang_sentence
from tcexplore.documents.timing.next_view import code_of, describe_step, evidence, risk_of
from tcexplore.documents.verdicts import recommend
from tcexplore.fixes.known_fix import known_fix
from tcexplore.report.json_records import Fields, cached_display_path, definitions, fields, selected_fields
from tcexplore.report.json_text import LongList
from tcexplore.session import Snapshot
from tcexplore.session.cache_entries import cache_entries, graphless_compiles
from tcexplore.session.cache_misses import cache_misses
from tcexplore.session.call_account import eager_ops
from tcexplore.session.communication import collective_calls
from tcexplore.session.compile_time import compile_time, compiler_runs, critical_path, timeline
from tcexplore.session.economics import economics
from tcexplore.session.fused_kernels import FusedKernel, Fusions, NotFused
from tcexplore.session.kernel_facts import KernelFacts, achieved, kernel_facts, kernel_loops
from tcexplore.session.line_times import LineTimes, line_traffic
from tcexplore.session.memory_peak import memory_peak
from tcexplore.session.next_steps import next_steps
from tcexplore.session.ranked_breaks import RankedBreak, rank_breaks, uncompiled_functions
from tcexplore.session.recompile_fixes import recompile_fixes
from tcexplore.session.region_sizes import region_sizes
from tcexplore.session.stable_ids import StableIds, stable_ids
from tcexplore.targets.target_names import NATIVE

SCHEMA = 3
"""Version of the format; it changes with every key that is removed or changes its meaning."""

NOT_COMPARED = "the run ended before eager and compiled were compared"

NOT_MEASURED = "not measured: `peak` is from the generated code"

NOT_ASSEMBLED = "C++ kernels are assembled with --assembly only, and have no GPU resources"


def report(
    snapshot: Snapshot,
    machine: ev.Standby | None,
    exceeded: Sequence[str] = (),
    calls: int | None = None,
    keys: Collection[str] | None = None,
) -> Fields:
    """Return the report of a run, always with the same keys in the same order.

    `machine` is None if no worker started, `exceeded` names the limits that the run exceeds, and the recommendation
    is for `calls` calls (None: any number). With `keys`, only these are computed and returned.
    """
    cached_display_path.cache_clear()
    wanted = set(definitions()["report"]["properties"] if keys is None else keys)
    values: Fields = {
        "schema": SCHEMA,
        "tcexplore": __version__,
        "torch": machine.torch if machine else None,
        "python": machine.python if machine else None,
        "environment": environment(machine),
        "startup_cpu_s": machine.cpu_seconds if machine else None,
        "limits_exceeded": exceeded,
    }
    for names, build in _PARTS.items():
        if not wanted.isdisjoint(names):
            values |= build(snapshot)
    values |= {key: list(build(snapshot).all()) for key, build in _LISTS.items() if key in wanted}
    if "timing" in wanted:
        values["timing"] = timing_fields(snapshot, calls)
    return selected_fields("report", snapshot, wanted, values)


def report_pieces(
    snapshot: Snapshot,
    machine: ev.Standby | None,
    exceeded: Sequence[str],
    calls: int | None,
    lists: Mapping[str, LongList],
) -> Iterator[tuple[str, Any]]:
    """Yield the keys and values of the report in order, with the long lists of the run from `long_lists`."""
    keys = definitions()["report"]["properties"]
    short = report(snapshot, machine, exceeded, calls, [key for key in keys if key not in lists])
    for key in keys:
        yield key, lists[key] if key in lists else short[key]


def break_list(snapshot: Snapshot) -> list[Fields]:
    """Return the graph breaks with their costs and fixes, most expensive first."""
    return [_ranked_break(snapshot, ranked) for ranked in rank_breaks(snapshot)]


def environment(machine: ev.Standby | None) -> Fields | None:
    """Return the model's interpreter and where it is named; None if it is the one that runs tcexplore."""
    if machine is None or not machine.environment:
        return None
    return {"executable": machine.environment, "source": machine.environment_source}


def rank_fields(comparison: ev.RanksCompared | None, file: str = "") -> Fields:
    """Return the keys about ranks: no ranks and no divergence for a live run."""
    if comparison is None:
        return {"ranks": [], "divergence": None, "hang": None, "further_divergences": [], "ended_early": []}
    divergence = comparison.divergence
    return {
        "ranks": comparison.rows,
        "divergence": fields("divergence", divergence) if divergence else None,
        "hang": _hang(comparison.hang, file) if comparison.hang else None,
        "further_divergences": [fields("divergence", further) for further in comparison.further],
        "ended_early": list(comparison.ended_early),
    }


def _hang(hang: ev.Hang, file: str) -> Fields:
    now, place = time.time(), hang.place
    return fields(
        "hang",
        hang,
        place_file=display_path(place.file) if place else None,
        place_line=place.line if place else None,
        seconds=round(hang.seconds(now), 3),
        sentence=hang_sentence(hang, file, now),
    )


def _ranked_break(snapshot: Snapshot, ranked: RankedBreak) -> Fields:
    """Return a graph break with its cost, null if unknown, and its fix, null if no change is known."""
    graph_break, ids = ranked.graph_break, stable_ids(snapshot)
    cost = fields("break_cost", ranked) if ranked.us is not None else None
    known = known_fix(snapshot, graph_break)
    fix = None
    if known.change is not None:
        change = known.change
        fix = fields(
            "fix", None, id=ids.fix(graph_break, change.fix.name), name=change.fix.name, state=known.state,
            note=known.note or None, description=change.fix.description, side_effects=change.fix.side_effects,
            file=display_path(change.file), diff=change.diff(display_path(change.file)),
        )  # fmt: skip
    return fields(
        "break", graph_break, id=ids.graph_break(graph_break), cost=cost, fix=fix, advice=known.advice or None
    )


def break_fields(graph_break: ev.GraphBreak, run: Snapshot) -> Fields:
    """Return a graph break, at its place in the file of `run`, without its cost and fix."""
    whole = fields("break", graph_break, id=stable_ids(run).graph_break(graph_break), cost=None, fix=None, advice=None)
    return {key: value for key, value in whole.items() if key not in ("cost", "fix", "advice")}


def _node_fields(ids: StableIds, graph: ev.GraphCaptured | ev.AtenGraph) -> Fields:
    """Return the nodes of a graph and its subgraphs."""
    ops = ids.ops(graph)

    def nodes(of: Iterable[ev.FxNode]) -> list[Fields]:
        return [fields("node", node, id=op) for node, op in zip(of, ops, strict=False)]

    own = nodes(graph.nodes)
    return {
        "nodes": own,
        "subgraphs": [fields("subgraph", inner, nodes=nodes(inner.nodes)) for inner in graph.subgraphs],
    }


def _graphs(snapshot: Snapshot) -> LongList:
    """Return the graphs of Dynamo."""
    ids = stable_ids(snapshot)
    return LongList(snapshot.graphs, lambda graph: [fields("graph", graph, **_node_fields(ids, graph))], _nodes)


def _aten_graphs(snapshot: Snapshot) -> LongList:
    """Return the graphs below Dynamo's, for the target in view."""
    ids, graphs = stable_ids(snapshot), snapshot.code.aten_graphs
    return LongList(graphs, lambda graph: [fields("aten_graph", graph, **_node_fields(ids, graph))], _nodes)


def _nodes(graph: ev.GraphCaptured | ev.AtenGraph) -> int:
    return len(graph.nodes)


def module_fields(snapshot: Snapshot) -> Fields:
    """Return the modules, with equal siblings in one row, and the time that is in none of them."""
    ids, tree = stable_ids(snapshot), timed_tree(snapshot)
    rows = [fields("module", row, id=ids.module(row)) for row in tree.rows]
    return {"modules": rows, "modules_rest": tree.rest if rows else ()}


def next_fields(snapshot: Snapshot) -> list[Fields]:
    """Return what to do next, the greatest gain first."""
    return [
        fields(
            "next_step",
            step,
            gain=step.gain.value,
            gain_low=step.gain.low,
            gain_high=step.gain.high,
            unit=step.gain.unit,
            measured=step.gain.measured,
            can_be_tried=step.trial is not None,
            title=describe_step(step, snapshot),
            evidence=evidence(step, snapshot),
            risk=risk_of(step) or None,
            code=code_of(step) or None,
        )
        for step in next_steps(snapshot)
    ]


_IDENTITY = re.compile(r"(?<=[\w)\]}]), \d{6,}(?=\))")
"""Identity of an object in a guard: it is another one in each process."""

_ADDRESS = re.compile(r"\b0x[0-9a-f]{6,}\b")
"""The same within the text of an object, such as `<weakref at 0x7f2c…>`."""


def _guards(snapshot: Snapshot) -> LongList:
    ids = stable_ids(snapshot)

    def of_graph(installed: ev.GuardsInstalled) -> Iterator[Fields]:
        for guard in installed.guards:
            code = [_ADDRESS.sub("0x…", _IDENTITY.sub("", code)) for code in guard.code]
            yield fields("guard", guard, id=ids.guard(guard), graph=installed.graph, code=code)

    return LongList(snapshot.guards, of_graph, lambda installed: len(installed.guards))


def _guard_fields(snapshot: Snapshot) -> Fields:
    return {
        "guard_latency_us": {installed.graph: installed.latency_us for installed in snapshot.guards},
        "frames": cache_entries(snapshot),
        "graphless_compiles": graphless_compiles(snapshot),
        "recompile_fixes": recompile_fix_fields(snapshot),
    }


def recompile_fix_fields(snapshot: Snapshot) -> list[Fields]:
    """Return what avoids recompiles, with stable ids."""
    ids = stable_ids(snapshot)
    return [fields("recompile_fix", fix, id=ids.recompile_fix(fix)) for fix in recompile_fixes(snapshot)]


def script_fields(snapshot: Snapshot) -> Fields:
    """Return the keys of the report about a script: `regions`, and `script_end`, null for another entry."""
    graphs: dict[int, list[str]] = defaultdict(list)
    for known in snapshot.region_graphs:
        graphs[known.region].append(known.graph)
    regions = [
        fields(
            "region",
            known.region,
            module=known.module,
            graphs=graphs[known.region.region],
            calls=known.calls,
            compiles=known.marks,
        )
        for known in timeline(snapshot).regions
    ]
    end = snapshot.script_end
    return {
        "regions": regions, "steps": step_fields(snapshot), "script_end": fields("script_end", end) if end else None,
    }  # fmt: skip


def step_fields(snapshot: Snapshot) -> Fields | None:
    """Return the steps of a script; None if there are none."""
    steps, timing = snapshot.steps, snapshot.timing
    if steps is None:
        return None
    regions = [
        fields("step_region", region, ci95=None if region.speedup is None else (region.low, region.high))
        for region in steps.regions
    ]
    break_even = economics(snapshot).break_even_calls
    return fields(
        "steps",
        steps,
        eager_us=timing.eager_us if timing else None,
        compiled_us=timing.compiled_us if timing else None,
        speedup=timing.speedup if timing else None,
        ci95=(timing.low, timing.high) if timing else None,
        verdict=timing.verdict if timing else None,
        pairs=timing.pairs if timing else 0,
        regions=regions,
        break_even_epochs=break_even / steps.steps_per_epoch if break_even and steps.steps_per_epoch else None,
    )


def captured_fields(snapshot: Snapshot) -> list[Fields]:
    """Return the captured calls of a script."""
    return [
        fields(
            "captured_call",
            call,
            eager_us=call.timing.eager_us if call.timing else None,
            compiled_us=call.timing.compiled_us if call.timing else None,
            speedup=call.timing.speedup if call.timing else None,
            ci95=(call.timing.low, call.timing.high) if call.timing else None,
            verdict=call.timing.verdict if call.timing else None,
            accuracy=accuracy_fields(call.accuracy),
            eager_peak_bytes=call.memory.eager_peak if call.memory else None,
            compiled_peak_bytes=call.memory.compiled_peak if call.memory else None,
        )
        for call in snapshot.captured_calls
    ]


def shape_fields(snapshot: Snapshot) -> list[Fields]:
    """Return the sizes with which a script called its regions."""
    return [
        fields(
            "region_shapes", sizes, region=sizes.region.region, sizes=sizes.seen.sizes, varying=sizes.seen.varying,
            other_calls=sizes.seen.other_calls,
        )
        for sizes in region_sizes(snapshot)
    ]  # fmt: skip


def configuration(snapshot: Snapshot) -> Fields:
    """Return how a run compiles, and on what."""
    config, timing = snapshot.config, snapshot.timing
    return fields(
        "config",
        config,
        device=config.device or (timing.device if timing else None),
        threads=config.threads or (timing.threads if timing else None),
        dim=config.dim if config.sizes else None,
    )


def failure(failed: ev.Failed | None) -> Fields | None:
    """Return why a run failed; None if it did not."""
    return fields("error", failed) if failed else None


def _of_captured_call(snapshot: Snapshot, fact: str) -> str:
    """Return why a fact of the captured call is missing that stands for the script."""
    not_captured = [missing.reason for missing in snapshot.missing_facts if missing.fact == ev.RunFact.CAPTURED_CALLS]
    reasons = snapshot.captured_calls[0].missing if snapshot.captured_calls else not_captured
    start = f"{fact}: "
    own = [reason.removeprefix(start) for reason in reasons if reason.startswith(start)]
    of_call = [reason for reason in reasons if not reason.startswith(tuple(f"{known}: " for known in ev.RunFact))]
    return next(iter((*own, *of_call)), NOT_COMPARED)


def _missing(snapshot: Snapshot) -> Iterable[Fields]:
    """Yield why facts are null: those that torch does not provide, then those that were not measured."""
    for missing in snapshot.missing_facts:
        yield {"fact": missing.fact, "symbol": missing.symbol, "reason": missing.reason}
    known = {missing.fact for missing in snapshot.missing_facts}
    if snapshot.timing is None and snapshot.timing_skipped:
        yield {"fact": ev.RunFact.TIMING, "symbol": None, "reason": snapshot.timing_skipped}
    if accuracy_fields(snapshot.accuracy) is None and ev.RunFact.ACCURACY not in known:
        reason = snapshot.accuracy.reason if snapshot.accuracy else _of_captured_call(snapshot, ev.RunFact.ACCURACY)
        yield {"fact": ev.RunFact.ACCURACY, "symbol": None, "reason": reason}
    if snapshot.memory is None and ev.RunFact.MEMORY not in known:
        yield {"fact": ev.RunFact.MEMORY, "symbol": None, "reason": _of_captured_call(snapshot, ev.RunFact.MEMORY)}
    cpp = any(kernel.language == "cpp" for kernel in snapshot.code_for(NATIVE).kernels)
    if cpp and not snapshot.config.assembly:
        for fact in ("resources", "stages"):
            yield {"fact": fact, "symbol": None, "reason": NOT_ASSEMBLED}


# ---- kernels


def code_fields(snapshot: Snapshot) -> Fields:
    """Return the keys of the report that are events about generated code."""
    code = snapshot.code
    codes = [code, *snapshot.other_codes]
    return {
        "lowered": [lowered for other in codes for lowered in other.lowered],
        "not_lowered": [skipped for other in codes for skipped in other.not_lowered],
        "wrappers": code.wrappers,
        "fusion_decisions": code.fusion,
        "schedules": code.schedules,
        "partitions": code.partitions,
        "passes": code.passes,
    }


def _kernels(snapshot: Snapshot) -> LongList:
    """Return the kernels of every target with code, the target in view first."""
    others = (snapshot.with_target(code.target) for code in snapshot.other_codes if code.kernels)
    runs = [(run, Fusions(run)) for run in (snapshot, *others)]
    records = [(run, fusions, k) for run, fusions in runs for k in run.code.kernels if k.target == run.target]
    return LongList(records, lambda of: [_kernel(of[0], of[2], of[1].fused(of[2]))], lambda of: 1 + len(of[2].nodes))


def _kernel(snapshot: Snapshot, kernel: ev.Kernel, fused: FusedKernel) -> Fields:
    facts = kernel_facts(snapshot.code, kernel)
    assembled = facts.assembled
    return fields(
        "kernel",
        kernel,
        id=stable_ids(snapshot).kernel(kernel),
        fusion_kinds=fused.kinds,
        ops_inlined=fused.inlined,
        fused_nodes=fused.groups,
        resources=assembled.resources if assembled else None,
        loops=kernel_loops(snapshot.code, kernel),
        vectors=assembled.vectors if assembled else None,
        stages={stage.name: fields("stage", stage) for stage in assembled.stages} if assembled else None,
        assembled_config=assembled.config or None if assembled else None,
        not_assembled=facts.not_assembled.reason if facts.not_assembled else (assembled and assembled.missing) or None,
        roofline=facts.roofline,
        measured=_measured(snapshot, kernel, facts),
    )


def _measured(snapshot: Snapshot, kernel: ev.Kernel, facts: KernelFacts) -> Fields | None:
    """Return the measured time of a kernel in one call; None if it was not measured."""
    rates = achieved(snapshot, kernel, facts)
    if rates is None:
        return None
    return fields(
        "measured_kernel",
        rates.measured,
        bytes_per_s=rates.memory.rate,
        flop_per_s=rates.compute.rate,
        arithmetic=rates.arithmetic or None,
        memory_peak_share=rates.memory.share,
        no_memory_peak_share=rates.memory.reason or None,
        compute_peak_share=rates.compute.share,
        no_compute_peak_share=rates.compute.reason or None,
        bound_share=rates.bound_share,
    )


def _not_fused(pair: NotFused) -> Fields:
    relation = pair.relation
    return {
        "graph": pair.a.graph,
        "phase": pair.a.phase,
        "a": pair.a.name,
        "b": pair.b.name,
        "compared": bool(pair.refusals or pair.unrelated),
        "reasons": list(dict.fromkeys(decision.reason for decision in pair.refusals)),
        "pairs_without_shared_data": pair.unrelated,
        "shared_buffers": list(relation.buffers) if relation else None,
        "between": [kernel.name for kernel in relation.between] if relation else None,
    }


def _line_traffic(snapshot: Snapshot) -> list[Fields]:
    traffic, ids = sorted(line_traffic(snapshot.code.kernels).lines.items()), stable_ids(snapshot)
    return [
        fields(
            "line_traffic", of_line, id=ids.line(file, line), file=display_path(file), line=line,
            calls_of_unknown_size=of_line.unknown,
        )
        for (file, line), of_line in traffic
    ]  # fmt: skip


def _cuda_graphs(snapshot: Snapshot) -> Fields:
    """Return recorded and skipped CUDA graphs, and the launches that they save."""
    profile = snapshot.call_profile
    return {
        "recorded": [fields("cuda_graph", graph) for graph in snapshot.cuda_graphs],
        "skipped": [fields("skipped_cuda_graph", skipped) for skipped in snapshot.cuda_graphs_skipped],
        "replays_per_call": profile.replays if profile else None,
        "launches_saved_per_call": profile.replayed_tasks - profile.replays if profile else None,
    }


# ---- measurements


def timing_fields(snapshot: Snapshot, calls: int | None = None) -> Fields | None:
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
        compiler_loaded=snapshot.compiler_loaded is not None,
        compile_s=costs.compile_s,
        compile_overhead_s=costs.cost_s,
        saved_us_per_call=payback.saved_us if payback else None,
        break_even_calls=costs.break_even_calls,
        net_s=payback.net_seconds(calls) if payback and calls else None,
        recommendation=recommend(snapshot, calls),
        samples=_samples(snapshot.pairs),
    )


def line_time_fields(snapshot: Snapshot) -> Fields:
    """Return the time of each line of the user's files in one call, of what is on no line, and of other lines of a
    script's step."""
    ids = stable_ids(snapshot)
    times, outside = times_of_lines(snapshot), times_outside_call(snapshot)

    def of_lines(known: LineTimes | None) -> list[Fields]:
        return [
            fields("line_time", time, id=ids.line(time.file, time.line), file=display_path(time.file), line=time.line)
            for time in (known.lines if known is not None else ())
        ]

    rest = times.rest if times is not None else ()
    return {"line_times": of_lines(times), "line_times_rest": rest, "step_line_times": of_lines(outside)}


def account_fields(snapshot: Snapshot) -> Fields | None:
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
            launch_us=part.launch_us * fraction,
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
    return None if known is None else fields("eager_ops", None, region_entries=known.profile.region_entries, ops=ops)


def _samples(pairs: tuple[ev.PairsMeasured, ...]) -> Fields:
    measured = [p for p in pairs if not p.control]
    control = [p for p in pairs if p.control]
    return {
        "eager_us": [us for p in measured for us in p.eager_us],
        "compiled_us": [us for p in measured for us in p.compiled_us],
        "control_a_us": [us for p in control for us in p.eager_us],
        "control_b_us": [us for p in control for us in p.compiled_us],
    }


def accuracy_fields(accuracy: ev.Accuracy | None) -> Fields | None:
    """Return the comparison with eager and the figures of every value; None if nothing was compared."""
    if accuracy is None or (accuracy.verdict == "not judged" and not accuracy.calls):
        return None
    return fields("accuracy", accuracy)


def memory_fields(snapshot: Snapshot) -> Fields | None:
    """Return the memory of one call in bytes, with what lives at its peak; None if nothing is known of it.

    A run without a measurement, such as a trace, has the peak of the generated code only.
    """
    memory, peak = snapshot.memory, memory_peak(snapshot)
    saved = snapshot.saved_for_backward
    if memory is None and peak is None:
        return None
    shown = memory or ev.Memory(device="", method=NOT_MEASURED, weights=0, inputs=0)
    measured = {} if memory is not None else {"device": None, "weights_bytes": None, "inputs_bytes": None}
    return fields(
        "memory", shown, **measured,
        compiled_saved_for_backward_bytes=saved if memory is None or memory.saved_for_backward is not None else None,
        peak=peak.tensors if peak is not None else (),
        peak_of_code_bytes=peak.bytes if peak is not None else None,
        peak_position=peak.step if peak is not None else None,
        peak_phase=peak.phase if peak is not None else None,
        peak_kernel=peak.kernel or None if peak is not None else None,
        bytes_at_kernels=peak.history if peak is not None else (),
    )  # fmt: skip


def compile_time_fields(snapshot: Snapshot) -> Fields:
    """Return the whole tree of compile spans."""
    time = compile_time(snapshot)
    kernels = sorted(snapshot.kernel_compiles, key=lambda kernel: -kernel.seconds)
    path = critical_path(snapshot)
    return fields(
        "compile_time", time, kernels=kernels, file_compiles_s=compiler_runs(time.roots),
        critical_path=path.segments, critical_path_share=path.share,
        compile_workers=snapshot.compile_workers,
    )  # fmt: skip


# ---- the parts of the report


_LISTS: dict[str, Callable[[Snapshot], LongList]] = {
    "graphs": _graphs,
    "guards": _guards,
    "aten_graphs": _aten_graphs,
    "kernels": _kernels,
}
"""Functions that return the long lists of the report."""


def long_lists(snapshot: Snapshot) -> dict[str, LongList]:
    """Return the lists of the report that make a large one long."""
    return {key: build(snapshot) for key, build in _LISTS.items()}


_PARTS: dict[frozenset[str], Callable[[Snapshot], Fields]] = {
    frozenset({"file"}): lambda run: {"file": display_path(run.file)},
    frozenset({"config"}): lambda run: {"config": configuration(run)},
    frozenset({"breaks"}): lambda run: {"breaks": break_list(run)},
    frozenset({"uncompiled_functions"}): lambda run: {"uncompiled_functions": uncompiled_functions(run)},
    frozenset({"missing"}): lambda run: {"missing": list(_missing(run))},
    frozenset({"collectives"}): lambda run: {"collectives": tuple(collective_calls(run))},
    frozenset({"modules", "modules_rest"}): module_fields,
    frozenset({"next"}): lambda run: {"next": next_fields(run)},
    frozenset({
        "ranks", "divergence", "hang", "further_divergences", "ended_early",
    }): lambda run: rank_fields(run.rank_comparison, run.file),
    frozenset({"profiled_ranks"}): lambda run: {
        "profiled_ranks": run.profiled_ranks.ranks if run.profiled_ranks else ()
    },
    frozenset({"timeline"}): lambda run: {"timeline": next(iter(run.step_timelines), None)},
    frozenset({"guard_latency_us", "frames", "graphless_compiles", "recompile_fixes"}): _guard_fields,
    frozenset({"unfused_neighbors"}): lambda run: {
        "unfused_neighbors": [_not_fused(pair) for pair in Fusions(run).neighbors()]
    },
    frozenset({"line_traffic"}): lambda run: {"line_traffic": _line_traffic(run)},
    frozenset({"cuda_graphs"}): lambda run: {"cuda_graphs": _cuda_graphs(run)},
    frozenset({
        "lowered", "not_lowered", "wrappers", "fusion_decisions", "schedules", "partitions", "passes",
    }): code_fields,
    frozenset({"call_account"}): lambda run: {"call_account": account_fields(run)},
    frozenset({"eager_ops"}): lambda run: {"eager_ops": eager_op_fields(run)},
    frozenset({"line_times", "line_times_rest", "step_line_times"}): line_time_fields,
    frozenset({"accuracy"}): lambda run: {"accuracy": accuracy_fields(run.accuracy)},
    frozenset({"memory"}): lambda run: {"memory": memory_fields(run)},
    frozenset({"cache_misses"}): lambda run: {"cache_misses": cache_misses(run)},
    frozenset({"compile_time"}): lambda run: {"compile_time": compile_time_fields(run)},
    frozenset({"regions", "steps", "script_end"}): script_fields,
    frozenset({"shapes"}): lambda run: {"shapes": shape_fields(run)},
    frozenset({"captured_calls"}): lambda run: {"captured_calls": captured_fields(run)},
}  # fmt: skip
"""Functions that compute values of the report, by the keys that they return. Other keys are fields of the snapshot."""
