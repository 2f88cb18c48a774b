"""Cache entries, symbolic sizes and answers to "would it recompile?", as JSON."""

from __future__ import annotations

from typing import Any

from tcexplore import events as ev
from tcexplore.report.json_graphs import place, recompile
from tcexplore.session import Snapshot
from tcexplore.session.cache_entries import CacheEntry, FrameEntries, cache_entries
from tcexplore.session.recompile_fixes import RecompileFix, recompile_fixes

Fields = dict[str, Any]


def why_again(snapshot: Snapshot) -> Fields:
    """The keys `frames`, `symbols`, `shape_cures` and `would` of the report."""
    return {
        "frames": frames(snapshot),
        "symbols": symbols(snapshot),
        "shape_cures": cures(snapshot),
        "would": would(snapshot),
    }


def frames(snapshot: Snapshot) -> list[Fields]:
    """Each frame with its cache entries and its limit."""
    return [_frame(frame) for frame in cache_entries(snapshot)]


def _frame(frame: FrameEntries) -> Fields:
    return {
        "frame": frame.number,
        **_function(frame.location),
        "resumed": frame.resumed,
        "entries": [_entry(entry) for entry in frame.entries],
        "refused": [_entry(entry) for entry in frame.over_limit],
        "limit": frame.limit,
        "accumulated_limit": frame.accumulated_limit,
        "limit_hit": frame.limit_hit or None,
        "at_the_limit": "error" if frame.error_at_limit else "eager",
    }


def _function(found: ev.Location | None) -> Fields:
    return {**place(found), "function": found.function if found else None}


def _entry(entry: CacheEntry) -> Fields:
    return {
        "graph": entry.graph,
        "of": entry.failed_entry or None,
        "call": entry.call,
        "caller": place(entry.caller),
        "compile_s": entry.seconds,
        "backward_compile_s": entry.backward_seconds,
    }


def symbols(snapshot: Snapshot) -> list[Fields]:
    """The symbols of each graph, and the dynamic sizes that got none."""
    return [
        {
            "graph": found.graph,
            "symbols": [_symbol(symbol) for symbol in found.symbols],
            "zero_one": [{**_source(fixed.source), "value": fixed.value} for fixed in found.zero_one],
        }
        for found in snapshot.symbols
    ]


def _symbol(symbol: ev.Symbol) -> Fields:
    return {
        "name": symbol.name,
        "unbacked": symbol.unbacked,
        "hint": symbol.hint or None,
        "lower": symbol.lower,
        "upper": symbol.upper,
        "sources": [_source(source) for source in symbol.sources],
        **place(symbol.location),
        "specialized": [
            {"value": found.value, "guard": found.reason, **place(found.location), "user_code": found.user_code}
            for found in symbol.specialized
        ],
        "conditions": [
            {"code": found.code, **place(found.location), "user_code": found.user_code} for found in symbol.conditions
        ],
    }


def _source(source: ev.SymbolSource) -> Fields:
    return {"source": source.name, "what": source.kind, "dim": source.dim}


def cures(snapshot: Snapshot) -> list[Fields]:
    """What keeps sizes and numbers from recompiling, where it applies."""
    return [_cure(cure) for cure in recompile_fixes(snapshot)]


def _cure(cure: RecompileFix) -> Fields:
    blocked = place(cure.blocked_by.location) if cure.blocked_by else None
    return {"cure": cure.kind, "source": cure.name, "dim": cure.dim, "values": list(cure.values), "blocked_by": blocked}


def would(snapshot: Snapshot) -> list[Fields]:
    """The answers to `--would`."""
    return [
        {
            "inputs": list(answer.inputs),
            "region": answer.region,
            "problem": answer.problem or None,
            "frames": [_asked(frame) for frame in answer.frames],
        }
        for answer in snapshot.recompile_answers
    ]


def _asked(frame: ev.FrameAnswer) -> Fields:
    return {
        "frame": frame.number or None,
        **_function(frame.frame),
        "resumed": frame.resumed,
        "verdict": frame.verdict,
        "graph": frame.graph or None,
        "entries": [
            {
                "graph": entry.graph,
                "matches": entry.matches,
                "failed": recompile(entry.failed) if entry.failed else None,
            }
            for entry in frame.entries
        ],
        "dynamic": list(frame.dynamic),
        "note": frame.note or None,
    }
