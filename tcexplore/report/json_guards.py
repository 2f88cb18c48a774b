"""JSON of guards, recompiles, cache entries, symbolic sizes and recompile checks."""

from __future__ import annotations

from typing import Any

from tcexplore import events as ev
from tcexplore.report.json_graphs import function_place, place
from tcexplore.session import Snapshot
from tcexplore.session.cache_entries import CacheEntry, FrameEntries, cache_entries
from tcexplore.session.recompile_fixes import RecompileFix, recompile_fixes

Fields = dict[str, Any]


def guard_fields(snapshot: Snapshot) -> Fields:
    """Return the keys of the report about guards and recompiles."""
    return {
        "guards": [_guard(installed.graph, guard) for installed in snapshot.guards for guard in installed.guards],
        "guard_latency_us": {installed.graph: installed.latency_us for installed in snapshot.guards},
        "recompiles": [_recompile(recompile) for recompile in snapshot.recompiles],
        "frames": [_frame(frame) for frame in cache_entries(snapshot)],
        "symbols": [_graph_symbols(symbols) for symbols in snapshot.symbols],
        "recompile_fixes": [_recompile_fix(fix) for fix in recompile_fixes(snapshot)],
        "recompile_answers": [_answer(answer) for answer in snapshot.recompile_answers],
    }


def _guard(graph: str, guard: ev.Guard) -> Fields:
    return {
        "graph": graph,
        "kind": guard.kind,
        "source": guard.source,
        "code": list(guard.code),
        "summary": guard.summary,
        "structural": guard.structural,
        **place(guard.location),
        "user_code": guard.user_code,
    }


def _recompile(recompile: ev.Recompiled) -> Fields:
    return {
        "graph": recompile.graph,
        "failed_entry": recompile.failed_entry,
        "failed_guard": recompile.failed_guard,
        "reason": recompile.reason,
        "old": recompile.old,
        "new": recompile.new,
        **place(recompile.location),
        "entry_count": recompile.entry_count,
        "limit": recompile.limit,
        "limit_hit": recompile.limit_hit,
        "kind": recompile.kind or None,
        "name": recompile.name or None,
        "dim": recompile.dim,
        "origin": recompile.origin or None,
    }


def _frame(frame: FrameEntries) -> Fields:
    return {
        "frame": frame.number,
        **function_place(frame.location),
        "resumed": frame.resumed,
        "entries": [_entry(entry) for entry in frame.entries],
        "over_limit": [_entry(entry) for entry in frame.over_limit],
        "limit": frame.limit,
        "accumulated_limit": frame.accumulated_limit,
        "limit_hit": frame.limit_hit or None,
        "at_limit": "error" if frame.error_at_limit else "eager",
    }


def _entry(entry: CacheEntry) -> Fields:
    return {
        "graph": entry.graph,
        "failed_entry": entry.failed_entry or None,
        "call": entry.call,
        "caller": place(entry.caller),
        "compile_s": entry.seconds,
        "backward_compile_s": entry.backward_seconds,
    }


def _graph_symbols(symbols: ev.GraphSymbols) -> Fields:
    return {
        "graph": symbols.graph,
        "symbols": [_symbol(symbol) for symbol in symbols.symbols],
        "zero_one": [{**_source(fixed.source), "value": fixed.value} for fixed in symbols.zero_one],
    }


def _symbol(symbol: ev.Symbol) -> Fields:
    return {
        "name": symbol.name,
        "unbacked": symbol.unbacked,
        "hint": symbol.hint or None,
        "lower": symbol.lower,
        "upper": symbol.upper,
        "sources": [_source(source) for source in symbol.sources],
        **place(symbol.location),
        "specializations": [
            {"value": special.value, "guard": special.reason, **place(special.location), "user_code": special.user_code}
            for special in symbol.specialized
        ],
        "conditions": [
            {"code": condition.code, **place(condition.location), "user_code": condition.user_code}
            for condition in symbol.conditions
        ],
    }


def _source(source: ev.SymbolSource) -> Fields:
    return {"name": source.name, "kind": source.kind, "dim": source.dim}


def _recompile_fix(fix: RecompileFix) -> Fields:
    return {
        "kind": fix.kind,
        "name": fix.name,
        "dim": fix.dim,
        "values": list(fix.values),
        "other_sizes": [{"name": name, "dim": dim} for name, dim in fix.other_sizes],
        "blocked_by": place(fix.blocked_by.location) if fix.blocked_by else None,
    }


def _answer(answer: ev.RecompileAnswer) -> Fields:
    return {
        "inputs": list(answer.inputs),
        "region": answer.region,
        "problem": answer.problem or None,
        "frames": [_frame_answer(frame) for frame in answer.frames],
    }


def _frame_answer(frame: ev.FrameAnswer) -> Fields:
    return {
        "frame": frame.number or None,
        **function_place(frame.frame),
        "resumed": frame.resumed,
        "verdict": frame.verdict,
        "graph": frame.graph or None,
        "entries": [
            {
                "graph": entry.graph,
                "matches": entry.matches,
                "failed": _recompile(entry.failed) if entry.failed else None,
            }
            for entry in frame.entries
        ],
        "dynamic": list(frame.dynamic),
        "note": frame.note or None,
    }
