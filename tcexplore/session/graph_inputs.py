"""The user's names of the inputs of AOTAutograd's graphs, which keep the order of Dynamo's inputs."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tcexplore.events import GraphCaptured

_INPUT = re.compile(r"primals_(\d+)|arg(\d+)_1")


def input_index(node: str) -> int | None:
    """Return the index of `primals_N` or `argN_1` among the inputs; None for another node."""
    match = _INPUT.fullmatch(node)
    if match is None:
        return None
    return int(match[1]) - 1 if match[1] else int(match[2])


def input_name(graphs: Iterable[GraphCaptured], graph: str, index: int | None) -> str:
    """Return the user's name of an input of a graph, such as `self.fc.weight`; empty if it is not known."""
    captured = next((each for each in graphs if each.graph == graph), None)
    names = [node.target for node in captured.nodes if node.op == "placeholder"] if captured else []
    return names[index] if index is not None and 0 <= index < len(names) else ""
