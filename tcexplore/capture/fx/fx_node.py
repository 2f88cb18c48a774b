"""One FX node, of any graph from Dynamo's to Inductor's, as the record that the panes show."""

from __future__ import annotations

from typing import Any

from torch.fx.node import Node

from tcexplore.capture.fx.fx_args import args_text, target_text
from tcexplore.capture.fx.source_names import readable_source
from tcexplore.capture.fx.tensor_descriptions import tensor_facts
from tcexplore.capture.node_stacks import person_frames
from tcexplore.capture.user_files import UserFiles
from tcexplore.events import FxNode

_NOT_COMPUTED = ("placeholder", "output")
"""Their metadata is that of the node which used them first."""


def fx_node(node: Node, project: UserFiles) -> FxNode:
    """The record of `node`: Dynamo keeps its value in `meta["example_value"]`, AOTAutograd and Inductor in `val`."""
    meta = node.meta
    facts = tensor_facts(meta.get("example_value", meta.get("val")))
    computes = node.op not in _NOT_COMPUTED
    stack = person_frames(node.stack_trace, project) if computes else ()
    return FxNode(
        name=node.name,
        op=node.op,
        target=_input_name(node) if node.op == "placeholder" else target_text(node),
        args=args_text(node),
        inputs=tuple(source.name for source in node.all_input_nodes),
        dtype=facts.dtype if facts else None,
        shape=facts.shape if facts else None,
        stride=facts.stride if facts else None,
        contiguous=facts.contiguous if facts else True,
        device=facts.device if facts else None,
        location=stack[-1] if stack else None,
        stack=stack,
        module=_module(meta) if computes else None,
        origins=root_names(meta),
    )


def _input_name(node: Node) -> str:
    """What the user calls the input (`x`, `self.fc1.weight`); FX's own name where Dynamo did not note a source."""
    source = getattr(node.meta.get("grapharg"), "source", None)
    if source is None:
        return str(node.target)
    return readable_source(source.name if isinstance(source.name, str) else source.name())


def _module(meta: dict[str, Any]) -> str | None:
    """The innermost module's path; a backward node belongs to the module of its forward node."""
    modules = meta.get("nn_module_stack") or meta.get("fwd_nn_module_stack")
    return readable_source(next(reversed(modules.values()))[0]) if modules else None


def root_names(meta: dict[str, Any]) -> tuple[str, ...]:
    """Names of the nodes of the first graph that this one descends from, each once."""
    roots, pending = [], list(meta.get("from_node") or ())
    while pending:
        source = pending.pop(0)
        earlier = getattr(source, "from_node", None)
        if earlier:
            pending = [*earlier, *pending]
        else:
            roots.append(source.name)
    return tuple(dict.fromkeys(roots))
