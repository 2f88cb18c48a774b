"""Random numbers from Python's own generator."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tcexplore.fixes.fix import Fix, Site
from tcexplore.fixes.text_edit import Edit

_DRAW, _SAME = "random.random", "uniform(0.0, 1.0)"


def propose(site: Site) -> Iterator[Fix]:
    """`random.uniform(0.0, 1.0)`, which Dynamo traces, and which gives the very number that `random.random()` does."""
    source = site.source
    calls = [n for n in ast.walk(site.statement) if isinstance(n, ast.Call) and source.dotted(n.func) == _DRAW]
    owners = [(call.func.value, call) for call in calls if isinstance(call.func, ast.Attribute) and not call.args]
    edits = [Edit(source.end(owner), source.end(call), f".{_SAME}") for owner, call in owners]
    if edits:
        yield Fix(
            "random.uniform(0.0, 1.0)",
            "It gives the same number as random.random(), from the same generator, and Dynamo traces it.",
            tuple(edits),
        )
