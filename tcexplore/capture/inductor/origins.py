"""From a node of an AOT or post-grad graph back to the Dynamo nodes and to the lines that it came from."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tcexplore.capture.dynamo.compile_id import current_compile_id
from tcexplore.capture.fx.fx_node import fx_node, root_names
from tcexplore.capture.inductor.replaced_nodes import as_made, sources
from tcexplore.capture.node_stacks import person_frames
from tcexplore.capture.user_files import UserFiles
from tcexplore.events import FxNode, Location


def aten_node(node: Any, project: UserFiles) -> FxNode:
    """The record of a node below Dynamo's, with its `origins`. `location` is None for a node that replaced several of
    different lines."""
    record = fx_node(as_made(node), project)
    if node.op == "placeholder":
        return record
    found = (record.location,) if record.location else lines(node, project)
    return replace(
        record,
        origins=tuple(dict.fromkeys(name for source in sources(node) for name in _origins(source, project))),
        location=found[0] if len(found) == 1 else None,
    )


def lines(node: Any, project: UserFiles) -> tuple[Location, ...]:
    """The user's innermost line of a node, or the lines of those that it replaced.

    An input has no line. What is generated for one (a copy in another layout) is for the nodes that use it.
    """
    if node.op == "placeholder":
        return tuple(dict.fromkeys(line for user in node.users for line in _lines(user, project)))
    return _lines(node, project)


def _lines(node: Any, project: UserFiles) -> tuple[Location, ...]:
    stacks = (person_frames(source.stack_trace, project) for source in sources(node))
    return tuple(dict.fromkeys(frames[-1] for frames in stacks if frames))


def _origins(node: Any, project: UserFiles) -> tuple[str, ...]:
    """The names of Dynamo's nodes. A node of the backward descends from none of them: torch keeps with it the source
    functions of the forward node whose gradient it computes, under the name that its Dynamo node had at first."""
    dynamo = project.nodes.get(current_compile_id() or "")
    functions = node.meta.get("fwd_source_fn_stack") or node.meta.get("source_fn_stack")
    roots = tuple(name for name in root_names(node.meta) if name and (dynamo is None or name in dynamo.all))
    if not functions or (roots and "fwd_source_fn_stack" not in node.meta):
        return roots
    name = str(functions[-1][0])
    return (dynamo.by_first.get(name, name) if dynamo else name,)
