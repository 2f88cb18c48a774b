"""From a node of an AOT or post-grad graph back to the Dynamo nodes and to the lines that it came from."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tcexplore.capture.called_from import person_frames
from tcexplore.capture.dynamo.compile_id import current_compile_id
from tcexplore.capture.fx.node import fx_node
from tcexplore.capture.inductor.replaced import as_made, sources
from tcexplore.capture.project import Project
from tcexplore.events import FxNode, Location


def aten_node(node: Any, project: Project) -> FxNode:
    """The record of a node below Dynamo's, with its `origins`. `location` is None for a node that replaced several of
    different lines."""
    record = fx_node(as_made(node), project)
    if node.op == "placeholder" or (record.origins and record.location):
        return record
    found = (record.location,) if record.location else lines(node, project)
    return replace(
        record,
        origins=record.origins or tuple(dict.fromkeys(name for s in sources(node) for name in _origins(s, project))),
        location=found[0] if len(found) == 1 else None,
    )


def lines(node: Any, project: Project) -> tuple[Location, ...]:
    """The person's innermost line of a node, or the lines of those that it replaced.

    An input has no line. What is generated for one (a copy in another layout) is for the nodes that use it.
    """
    if node.op == "placeholder":
        return tuple(dict.fromkeys(line for user in node.users for line in _lines(user, project)))
    return _lines(node, project)


def _lines(node: Any, project: Project) -> tuple[Location, ...]:
    stacks = (person_frames(source.stack_trace, project) for source in sources(node))
    return tuple(dict.fromkeys(frames[-1] for frames in stacks if frames))


def _origins(node: Any, project: Project) -> tuple[str, ...]:
    """A node of the backward descends from none of Dynamo's: torch keeps with it the source functions of the forward
    node whose gradient it computes, under the name that its Dynamo node had at first."""
    own = fx_node(node, project).origins
    functions = node.meta.get("source_fn_stack") or node.meta.get("fwd_source_fn_stack")
    if own or not functions:
        return own
    name = str(functions[-1][0])
    return (project.nodes.get(current_compile_id() or "", {}).get(name, name),)
