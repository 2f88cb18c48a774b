"""What the partitioner decided: it gives a node of the joint graph the same name in the forward and in the backward."""

from __future__ import annotations

from typing import Any

import torch

from tcexplore.capture.node_stacks import person_frames
from tcexplore.capture.user_files import UserFiles
from tcexplore.events import Partitioned, SavedTensor


def partition(graph: str, forward: Any, backward: Any, project: UserFiles) -> Partitioned:
    """The values that go from the forward to the backward, and the nodes that run in both."""
    known = {node.name: node for node in forward.nodes if node.op != "output"}
    shared = [node for node in backward.nodes if node.name in known]
    return Partitioned(
        graph=graph,
        saved=tuple(_saved(known[node.name], project) for node in shared if node.op == "placeholder"),
        recomputed=tuple(node.name for node in shared if node.op.startswith("call_")),
    )


def _saved(node: Any, project: UserFiles) -> SavedTensor:
    frames = person_frames(node.stack_trace, project) if node.op != "placeholder" else ()
    return SavedTensor(
        name=node.name,
        bytes=_bytes(node.meta.get("val")),
        input=node.op == "placeholder",
        location=frames[-1] if frames else None,
    )


def _bytes(value: Any) -> int | None:
    if not isinstance(value, torch.Tensor):
        return None
    elements = value.numel()
    return elements * value.element_size() if isinstance(elements, int) else None
