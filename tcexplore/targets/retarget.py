"""A graph that Dynamo traced on the CPU, as it would stand on the target: its devices, its inputs."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx import GraphModule, Node
from torch.fx.node import map_aggregate

DEVICE = torch.device("cuda", 0)
"""torch calls NVIDIA's and AMD's devices both so."""

_AUTOCAST = frozenset({"_enter_autocast", "is_autocast_enabled", "set_autocast_enabled"})


def on_target(gm: GraphModule, replace: dict[Any, Any]) -> GraphModule:
    """A copy of a Dynamo graph with its devices moved to the target and call targets exchanged by `replace`.

    A device that the graph holds as `torch.device("cpu")` came from a tensor (`x.device`) and moves; a device that the
    user wrote as text (`"cpu"`) stays, but for autocast, which is asked for by device type.
    """
    moved = copied(gm)
    _move(moved, replace)
    return moved


def copied(gm: GraphModule) -> GraphModule:
    """A copy of a Dynamo graph with the marks that `copy.deepcopy` loses.

    They tell which inputs are parameters, and so which need not be saved for the backward.
    """
    copy_of = copy.deepcopy(gm)
    for name in gm.__dict__.keys() - copy_of.__dict__.keys():
        setattr(copy_of, name, gm.__dict__[name])
    for old, new in zip(gm.graph.nodes, copy_of.graph.nodes, strict=True):
        if hasattr(old, "_dynamo_source"):
            new._dynamo_source = old._dynamo_source
    return copy_of


def _move(gm: GraphModule, replace: dict[Any, Any]) -> None:
    for node in gm.graph.nodes:
        if node.op == "call_function":
            node.target = replace.get(node.target, node.target)
        convert = _autocast if getattr(node.target, "__name__", "") in _AUTOCAST else _device
        node.args = map_aggregate(node.args, convert)
        node.kwargs = map_aggregate(node.kwargs, convert)
    for child in gm.children():
        if isinstance(child, GraphModule):
            _move(child, replace)
    gm.recompile()


def _device(value: Any) -> Any:
    return DEVICE if isinstance(value, torch.device) and value.type == "cpu" else value


def _autocast(value: Any) -> Any:
    return DEVICE.type if value == "cpu" else _device(value)


def inputs_on_target(gm: GraphModule, example_inputs: Sequence[Any], mode: FakeTensorMode) -> list[Any]:
    """Fake inputs on the target: sizes and strides with their symbols as Dynamo traced them."""
    traced = [_traced(node) for node in gm.graph.find_nodes(op="placeholder")]
    if len(traced) != len(example_inputs):
        traced = list(example_inputs)
    pairs = zip(traced, example_inputs, strict=True)
    return [_input(example if fake is None else fake, example, mode) for fake, example in pairs]


def _traced(node: Node) -> Any:
    return node.meta.get("example_value", node.meta.get("val"))


def _input(value: Any, example: Any, mode: FakeTensorMode) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    if type(value) not in (torch.Tensor, torch.nn.Parameter, FakeTensor):
        raise NotImplementedError(f"an input of the tensor subclass {type(value).__name__}")
    with mode, torch.no_grad():
        made = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=_device(value.device))
    return made.requires_grad_(isinstance(example, torch.Tensor) and example.requires_grad)
