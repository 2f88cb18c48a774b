"""A list of numbers made of a tensor."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tcexplore.fixes.fix import Fix, Site
from tcexplore.fixes.kinds import dynamo_flags as settings
from tcexplore.fixes.text_edit import Edit


def propose(site: Site) -> Iterator[Fix]:
    """A list of one-element tensors, else symbols."""
    source = site.source
    calls = [n for n in ast.walk(site.statement) if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute)]
    for call in calls:
        assert isinstance(call.func, ast.Attribute)
        if call.func.attr == "tolist" and not call.args:
            tensor = call.func.value
            edits = (
                Edit(source.start(call), source.start(call), "list("),
                Edit(source.end(tensor), source.end(call), ".detach().unbind())"),
            )
            yield Fix(
                "a list of tensors",
                "The list holds tensors with one element each, instead of numbers.",
                edits,
                ("It must have one dimension: a list of lists is another thing.",),
            )
            break
    yield from settings.scalars(site)
