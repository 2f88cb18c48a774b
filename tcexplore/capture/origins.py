"""From a node of an AOT or post-grad graph back to the Dynamo nodes that it came from."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tcexplore.events import FxNode


def with_origins(record: FxNode, node: Any) -> FxNode:
    """The record with its `origins`. A node of the backward has none of its own: torch keeps with it the source
    functions of the forward node whose gradient it computes, each under the name of its Dynamo node."""
    if record.origins or node.op == "placeholder":
        return record
    sources = node.meta.get("source_fn_stack") or node.meta.get("fwd_source_fn_stack")
    return replace(record, origins=(str(sources[-1][0]),)) if sources else record
