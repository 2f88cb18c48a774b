"""Conversion of a graph that Dynamo traced on the CPU: its devices and inputs move to the target."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx import GraphModule, Node
from torch.fx.node import map_aggregate
from torch.utils._device import _device_constructors

DEVICE = torch.device("cuda", 0)
"""torch uses this name for NVIDIA and AMD devices."""

_AUTOCAST = frozenset({"_enter_autocast", "is_autocast_enabled", "set_autocast_enabled"})


def move_to_target(
    gm: GraphModule, replace: dict[Any, Any], mode: FakeTensorMode, *, strings: bool = False
) -> GraphModule:
    """Return a copy of a Dynamo graph on the target, with called functions replaced according to `replace`.

    The tensors that the graph holds as attributes become fake tensors on the target.
    A `torch.device("cpu")` in the graph came from a tensor (`x.device`) and moves. A string `"cpu"` was written by the
    user and stays, except for autocast, which takes a device type. `strings` moves it too: it is `x.device.type`. It
    also makes tensors on the target that the program makes without a device.
    """
    moved = copy_graph(gm)
    _move(moved, replace, strings=strings)
    for module in moved.modules():
        for attributes in (module._parameters, module._buffers, vars(module)):
            tensors = {name: value for name, value in attributes.items() if isinstance(value, torch.Tensor)}
            attributes.update({name: _attribute(value, mode) for name, value in tensors.items()})
    return moved


def copy_graph(gm: GraphModule) -> GraphModule:
    """Return a copy of a Dynamo graph with the attributes that `copy.deepcopy` loses.

    They mark the inputs that are parameters, which the backward need not save.
    """
    copy_of = copy.deepcopy(gm)
    for name in gm.__dict__.keys() - copy_of.__dict__.keys():
        setattr(copy_of, name, gm.__dict__[name])
    for old, new in zip(gm.graph.nodes, copy_of.graph.nodes, strict=True):
        if hasattr(old, "_dynamo_source"):
            new._dynamo_source = old._dynamo_source
    return copy_of


def _move(gm: GraphModule, replace: dict[Any, Any], *, strings: bool) -> None:
    for node in gm.graph.nodes:
        if node.op == "call_function":
            node.target = replace.get(node.target, node.target)
        convert = _autocast if strings or getattr(node.target, "__name__", "") in _AUTOCAST else _device
        node.args = map_aggregate(node.args, convert)
        node.kwargs = map_aggregate(node.kwargs, convert)
        if strings and makes_without_device(node):
            node.kwargs = {**node.kwargs, "device": DEVICE}
    for child in gm.children():
        if isinstance(child, GraphModule):
            _move(child, replace, strings=strings)
    gm.recompile()


def makes_without_device(node: Node) -> bool:
    """Return whether a node makes a tensor without naming a device, as `torch.arange(4)` does.

    One without dimensions stays: a GPU takes it from the CPU.
    """
    makes = node.op == "call_function" and node.target in _device_constructors()
    made = node.meta.get("example_value")
    return makes and node.kwargs.get("device") is None and not (isinstance(made, torch.Tensor) and made.dim() == 0)


def _device(value: Any) -> Any:
    return DEVICE if isinstance(value, torch.device) and value.type == "cpu" else value


def _autocast(value: Any) -> Any:
    return DEVICE.type if value == "cpu" else _device(value)


def make_target_inputs(gm: GraphModule, example_inputs: Sequence[Any], mode: FakeTensorMode) -> list[Any]:
    """Return fake inputs on the target, with the symbolic sizes and strides that Dynamo traced.

    Numbers that Dynamo passes as 0-dimensional tensors stay on the CPU, as with a GPU.
    """
    nodes = gm.graph.find_nodes(op="placeholder")
    if len(nodes) != len(example_inputs):
        return [_input(example, example, mode) for example in example_inputs]
    return [_input_of(node, example, mode) for node, example in zip(nodes, example_inputs, strict=True)]


def _input_of(node: Node, example: Any, mode: FakeTensorMode) -> Any:
    traced = node.meta.get("example_value", node.meta.get("val"))
    value = example if traced is None else traced
    return _number(value, mode) if _is_number(node, value) else _input(value, example, mode)


def _is_number(node: Node, value: Any) -> bool:
    """Return whether an input is a Python or NumPy number that Dynamo passes as a tensor."""
    is_wrapped: bool = getattr(node.meta.get("grapharg"), "pass_arg_as_tensor", False)
    return is_wrapped and isinstance(value, torch.Tensor) and value.dim() == 0


def _number(value: torch.Tensor, mode: FakeTensorMode) -> Any:
    """Return a fake tensor on the CPU whose `item()` is the symbol that Dynamo traced."""
    with mode, torch.no_grad():
        fake: Any = torch.empty((), dtype=value.dtype)
    if (symbol := getattr(value, "item_memo", None)) is not None:
        fake.item_memo = symbol
    return fake


def _input(value: Any, example: Any, mode: FakeTensorMode) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    if type(value) not in (torch.Tensor, torch.nn.Parameter, FakeTensor):
        raise NotImplementedError(f"an input of the tensor subclass {type(value).__name__}")
    with mode, torch.no_grad():
        fake = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=_device(value.device))
    return fake.requires_grad_(isinstance(example, torch.Tensor) and example.requires_grad)


def _attribute(value: torch.Tensor, mode: FakeTensorMode) -> torch.Tensor:
    """Return the fake tensor of an attribute.

    All move: Dynamo holds an optimizer's parameters and state as attributes. On a GPU it sets `capturable` and moves
    each `step` tensor to the device of its parameter.
    """
    fake: torch.Tensor = _input(value, value, mode)
    return torch.nn.Parameter(fake, value.requires_grad) if isinstance(value, torch.nn.Parameter) else fake
