"""`copy.deepcopy` of a tensor."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tcexplore.fixes.fix import Fix, Site
from tcexplore.fixes.text_edit import Edit


def propose(site: Site) -> Iterator[Fix]:
    """`detach().clone()`, which is what it does to a tensor."""
    source = site.source
    for call in (n for n in ast.walk(site.statement) if isinstance(n, ast.Call)):
        if source.dotted(call.func) == "copy.deepcopy" and len(call.args) == 1 and not call.keywords:
            tensor = source.of(call.args[0])
            whole = tensor if isinstance(call.args[0], ast.Name | ast.Attribute | ast.Call) else f"({tensor})"
            yield Fix(
                "detach().clone()",
                "The tensor is copied by an op of the graph.",
                (Edit(source.start(call), source.end(call), f"{whole}.detach().clone()"),),
                ("The copy of a tensor that requires a gradient does not require one.",),
            )
            return
