"""Asking for the time inside compiled code."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tcexplore.fixes.fix import Fix, Site
from tcexplore.fixes.text_edit import Edit

ZERO = {
    "time.time": "0.0", "time.perf_counter": "0.0", "time.monotonic": "0.0", "time.process_time": "0.0",
    "time.time_ns": "0", "time.perf_counter_ns": "0", "time.monotonic_ns": "0",
}  # fmt: skip


def propose(site: Site) -> Iterator[Fix]:
    """The time in eager calls, 0 in compiled ones."""
    source, torch = site.source, site.source.torch
    calls = [n for n in ast.walk(site.statement) if isinstance(n, ast.Call) and source.dotted(n.func) in ZERO]
    if not calls or torch is None:
        return
    edits = []
    for call in calls:
        zero = ZERO[source.dotted(call.func)]
        edits += [Edit(source.start(call), source.start(call), "("),
                  Edit(source.end(call), source.end(call), f" if not {torch}.compiler.is_compiling() else {zero})")]  # fmt: skip # noqa: E501
    yield Fix(
        "no clock in compiled calls",
        "While Dynamo traces, the time is a constant.",
        tuple(edits),
        ("Compiled calls see 0 for the time: measure them from outside.",),
    )
