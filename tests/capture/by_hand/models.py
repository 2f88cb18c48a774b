"""Small, varied models with hand-written listings of the line behind each generated statement.

The comment at the end of a line is its label, unique within the model; the listings in this folder refer to it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor


def pointwise(x: Tensor, y: Tensor) -> Tensor:
    a = torch.sin(x) * 2.0  # a
    b = torch.relu(y - a)  # b
    c = torch.sigmoid(b) + torch.sin(x)  # c
    return torch.where(c > 0.5, c, b)  # d


def entropy(x: Tensor) -> Tensor:
    top = x.amax(-1, keepdim=True)  # top
    e = torch.exp(x - top)  # e
    p = e / e.sum(-1, keepdim=True)  # p
    logs = torch.log(p + 1e-6)  # logs
    return -(p * logs).sum(-1)  # out


class NormAffine(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(64)

    def forward(self, x: Tensor) -> Tensor:
        n = self.norm(x)  # n
        g = F.gelu(n)  # g
        s = g * 1.5  # s
        return s + x  # out


class ConvNormPool(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 16, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(16)

    def forward(self, x: Tensor) -> Tensor:
        c = self.conv(x)  # c
        n = self.norm(c)  # n
        r = F.relu(n)  # r
        return F.avg_pool2d(r, 2)  # pool


def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    scores = q @ k.transpose(-2, -1)  # scores
    scaled = scores * 0.25  # scaled
    kept = torch.ones(16, 16, dtype=torch.bool).tril()  # kept
    masked = scaled.masked_fill(~kept, float("-inf"))  # masked
    weights = torch.softmax(masked, -1)  # weights
    return weights @ v  # out


def masked_sdpa(q: Tensor, k: Tensor, v: Tensor, lengths: Tensor) -> Tensor:
    places = torch.arange(16)  # places
    mask = places < lengths[:, None]  # mask
    bias = torch.where(mask, 0.0, -1e4)[:, None, None, :].expand(2, 4, 16, 16)  # bias
    o = F.scaled_dot_product_attention(q * 0.5, k, v, attn_mask=bias)  # o
    return torch.tanh(o) + q  # out


class GatedLayer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(32))
        self.gate = torch.nn.Linear(32, 48, bias=False)
        self.up = torch.nn.Linear(32, 48, bias=False)
        self.down = torch.nn.Linear(48, 32, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        variance = x.pow(2).mean(-1, keepdim=True)  # variance
        h = x * torch.rsqrt(variance + 1e-5)  # h
        h = h * self.weight  # weighed
        g = F.silu(self.gate(h))  # g
        u = g * self.up(h)  # u
        return x + self.down(u)  # out


class Rotary(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Embedding(32, 16)

    def forward(self, tokens: Tensor) -> Tensor:
        t = self.table(tokens)  # t
        angles = torch.arange(8)[:, None] * torch.pow(10.0, -torch.arange(8) / 8)  # angles
        cos, sin = angles.cos().repeat(1, 2), angles.sin().repeat(1, 2)  # turn
        half = torch.cat([-t[..., 8:], t[..., :8]], -1)  # half
        return t * cos + half * sin  # out


def losses(logits: Tensor, target: Tensor, guess: Tensor, truth: Tensor) -> Tensor:
    nll = F.cross_entropy(logits, target)  # nll
    error = guess - truth  # error
    mse = (error * error).mean()  # mse
    small = F.smooth_l1_loss(guess, truth, reduction="sum")  # small
    return nll + 0.25 * mse + small  # total


def shapes(x: Tensor, y: Tensor, index: Tensor) -> Tensor:
    t = x.reshape(16, 4, 8).transpose(0, 1)  # t
    s = t[:, 2:10] * 3.0  # s
    c = torch.cat([s, y.unsqueeze(1).expand(4, 2, 8) + 1.0], 1)  # c
    i = c[:, index] - 0.5  # i
    f = torch.flip(i, (2,)) * i  # f
    return F.pad(f, (1, 1), value=7.0).contiguous().view(4, -1)  # out


def casts(x: Tensor, n: Tensor) -> Tensor:
    h = x.to(torch.bfloat16)  # h
    m = h * 1.5  # m
    k = n.float() / 3  # k
    z = (m.float() + k).to(torch.float16)  # z
    keep = (n & 1).bool()  # keep
    return torch.where(keep, z.double(), z.abs().double())  # out


def statistics(x: Tensor) -> tuple[Tensor, ...]:
    v, m = torch.var_mean(x, -1, keepdim=True)  # v
    n = (x - m) / torch.sqrt(v + 1e-3)  # n
    total = n.cumsum(-1)  # total
    best = n.argmax(-1)  # best
    norm = n.abs().amax(-1) + n.square().sum(-1).sqrt()  # norm
    return total * 0.5, best, norm  # out


class Model(NamedTuple):
    """A model to list: `gpu` for Triton as well as C++, `train` for the backward as well."""

    make: Callable[[], Any]
    inputs: Callable[[], tuple[Tensor, ...]]
    train: bool = False
    gpu: bool = False


def _floats(*sizes: int, gradient: bool = False) -> Tensor:
    return torch.ones(sizes, requires_grad=gradient)


def _heads(gradient: bool) -> tuple[Tensor, ...]:
    return tuple(_floats(2, 4, 16, 16, gradient=gradient) for _ in range(3))


MODELS: dict[str, Model] = {
    "pointwise": Model(lambda: pointwise, lambda: (_floats(32, 16, gradient=True), _floats(32, 16)), True, True),
    "entropy": Model(lambda: entropy, lambda: (_floats(8, 40),), gpu=True),
    "norm_affine": Model(NormAffine, lambda: (_floats(8, 64, gradient=True),), True, True),
    "conv_norm_pool": Model(ConvNormPool, lambda: (_floats(2, 3, 16, 16),), True),
    "attention": Model(lambda: attention, lambda: _heads(True), True, True),
    "masked_sdpa": Model(lambda: masked_sdpa, lambda: (*_heads(False), torch.tensor([5, 9]))),
    "gated_layer": Model(GatedLayer, lambda: (_floats(8, 32, gradient=True),), True, True),
    "rotary": Model(Rotary, lambda: (torch.zeros(4, 8, dtype=torch.long),), gpu=True),
    "losses": Model(
        lambda: losses,
        lambda: (
            _floats(64, 16, gradient=True),
            torch.zeros(64, dtype=torch.long),
            _floats(64, 16, gradient=True),
            _floats(64, 16),
        ),
        True,
    ),
    "shapes": Model(
        lambda: shapes,
        lambda: (_floats(16, 32, gradient=True), _floats(4, 8, gradient=True), torch.tensor([1, 3, 9])),
        True,
    ),
    "casts": Model(lambda: casts, lambda: (_floats(8, 16), torch.ones(8, 16, dtype=torch.long)), gpu=True),
    "statistics": Model(lambda: statistics, lambda: (_floats(8, 40),), gpu=True),
}  # fmt: skip
