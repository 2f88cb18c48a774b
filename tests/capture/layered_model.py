"""A small model of equal layers, and ways to make one of its layers odd."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

ODD = 5
"""The layer that differs."""


class Norm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.eps = 1e-6

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.heads = 2
        self.qkv, self.out = nn.Linear(8, 24), nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).view(x.shape[0], 3, self.heads, -1, 8 // self.heads).unbind(1)
        return self.out(functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(x.shape))


class MLP(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.act, self.down = nn.Linear(8, 16), nn.SiLU(), nn.Linear(16, 8)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(self.act(self.up(x)))


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.attention, self.mlp = Norm(), Attention(), MLP()

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm(x))
        return x + self.mlp(x)


class Model(nn.Module):
    def __init__(self, layers: int = 8) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Layer() for _ in range(layers))
        self.head = nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def takes_any_arguments(forward: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a forward as decorators of libraries do: the module is then `args[0]`."""

    @functools.wraps(forward)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return forward(*args, **kwargs)

    return wrapped


class Decorated(Model):
    forward = takes_any_arguments(Model.forward)


class DistributedDataParallel(nn.Module):
    """A wrapper as torch's: with its name and that of its member."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, x: Tensor) -> Tensor:
        return self.module(x)


class LoraLinear(nn.Module):
    """A layer as `peft` puts it around a linear one."""

    def __init__(self, base: nn.Linear) -> None:
        super().__init__()
        self.base_layer = base
        self.lora_A = nn.ModuleDict({"default": nn.Linear(base.in_features, 2, bias=False)})
        self.lora_B = nn.ModuleDict({"default": nn.Linear(2, base.out_features, bias=False)})

    def forward(self, x: Tensor) -> Tensor:
        return self.base_layer(x) + self.lora_B["default"](self.lora_A["default"](x))


class PeftModel(nn.Module):
    def __init__(self, model: Model) -> None:
        super().__init__()
        self.base_model = model
        for layer in model.layers:
            layer.mlp.up = LoraLinear(layer.mlp.up)

    def forward(self, x: Tensor) -> Tensor:
        return self.base_model(x)


# ---- odd layers


class HalfMLP(MLP):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.bfloat16()).float()


class DoubledMLP(MLP):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) * 2


class DropoutMLP(MLP):
    def forward(self, x: Tensor) -> Tensor:
        return functional.dropout(super().forward(x), 0.1)


class BreakingMLP(MLP):
    def forward(self, x: Tensor) -> Tensor:
        x = super().forward(x)
        torch._dynamo.graph_break()
        return x


class PrintingMLP(MLP):
    def forward(self, x: Tensor) -> Tensor:
        print("the odd layer")  # noqa: T201
        return super().forward(x)


class GatedMLP(MLP):
    """Another class with the same ops."""


class WithoutResidual(Layer):
    def forward(self, x: Tensor) -> Tensor:
        h = self.attention(self.norm(x))
        return h + self.mlp(h)


def _as_class(kind: type[nn.Module], member: str = "mlp", *, named: bool = False) -> Callable[[Layer], None]:
    """Return a function that makes a member of a layer, or the layer itself, an object of another class."""

    def change(layer: Layer) -> None:
        module = getattr(layer, member) if member else layer
        # The name of the class shall not give it away.
        name = kind.__name__ if named else type(module).__name__
        module.__class__ = type(name, (kind,), {})

    return change


def _half(layer: Layer) -> None:
    _as_class(HalfMLP)(layer)
    layer.mlp.bfloat16()


def _other_heads(layer: Layer) -> None:
    layer.attention.heads = 4


def _other_eps(layer: Layer) -> None:
    layer.norm.eps = 1e-3


def _other_activation(layer: Layer) -> None:
    layer.mlp.act = nn.GELU()


ODD_LAYERS: dict[str, tuple[Callable[[Layer], None], str]] = {
    "dtype": (_half, "bf16"),
    "activation": (_other_activation, "GELU instead of SiLU in mlp.act"),
    "missing residual": (_as_class(WithoutResidual, ""), "without add"),
    "extra op": (_as_class(DoubledMLP), "1 more op, first mul in mlp"),
    "norm eps": (_other_eps, "0.001 instead of ·, 1e-06"),
    "graph break": (_as_class(BreakingMLP), "graph break"),
    "print": (_as_class(PrintingMLP), "graph break"),
    "class": (_as_class(GatedMLP, named=True), "GatedMLP instead of MLP in mlp"),
    "head count": (_other_heads, "f32[4, 3, 4, 2, 2] instead of f32[4, 3, 2, 2, 4]"),
    "dropout": (_as_class(DropoutMLP), "1 more op, first dropout in mlp"),
}
"""Changes of a layer, and what is shown of each."""


def odd_model(kind: str) -> Model:
    """Return a model with one odd layer."""
    model = Model()
    layer = model.layers[ODD]
    assert isinstance(layer, Layer)
    ODD_LAYERS[kind][0](layer)
    return model
