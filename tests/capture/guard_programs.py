"""Programs with one kind of guard or one cause of a recompile each."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

SCALE = 3


def plain(x: Tensor):
    return x.sin() * 2


def multiplies(x: Tensor, k: Any):
    return x * k


def takes_a_flag(x: Tensor, flag: Any):
    if flag:
        x = x + 1
    return x.sin()


def takes_none(x: Tensor, mask: Any = None):
    return x.sin() if mask is None else x + mask


def adds_all(x: Tensor, rows: Any):
    for row in rows:
        x = x + row
    return x


def first_of(x: Tensor, rows: Any):
    return x + rows[0]


def uses_a_global(x: Tensor):
    return x * SCALE


def with_closure(k: Any):
    def closure(x: Tensor) -> Tensor:
        return x * k[0]

    return closure


def calls(x: Tensor, function: Any):
    return function(x)


def plus_one(x: Tensor):
    return x + 1


def plus_two(x: Tensor):
    return x + 2


def looks_at_the_shape(x: Tensor):
    if x.shape[0] > 6:
        return x.sin()
    return x.cos()


def scaled_twice_by_its_maximum(x: Tensor):
    largest: float = x.max().item()
    x = x.sin() / largest
    torch._dynamo.graph_break()
    return x.cos() * largest


def scaled_after_a_break(x: Tensor, scale: float):
    x = x.sin()
    torch._dynamo.graph_break()
    return x * scale


def sized_after_a_break(x: Tensor, y: Tensor):
    z = x.sin()
    torch._dynamo.graph_break()
    return y * 2 + z


def scaled_by_a_tenth_after_a_break(x: Tensor, scale: float):
    scale = scale / 10
    torch._dynamo.graph_break()
    return x * scale


class Scaled(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(4)
        self.dropout = torch.nn.Dropout()
        self.scale = 2

    def forward(self, x: Tensor):
        h = self.norm(x)
        return self.dropout(h) * self.scale


def doubled(_module: torch.nn.Module, args: tuple[Tensor, ...]):
    return (args[0] * 2,)
