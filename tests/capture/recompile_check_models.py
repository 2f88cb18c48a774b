"""Ten models, with random inputs for the recompile check."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4))

    def forward(self, x: Tensor):
        return self.layers(x.to(torch.float32))


class Branching(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(8, 8)

    def forward(self, x: Tensor, residual: bool = False, *, scale: float = 1.0):
        h = self.fc(x) * scale
        return h + x if residual else h


class Attention(nn.Module):
    def forward(self, q: Tensor, k: Tensor, mask: Any = None):
        scores = q @ k.transpose(-1, -2)
        return (scores if mask is None else scores.masked_fill(mask, -1e9)).softmax(-1)


class Counting(nn.Module):
    """Changes a number on each call, which Dynamo guards."""

    def __init__(self) -> None:
        super().__init__()
        self.steps = 0

    def forward(self, x: Tensor):
        self.steps += 1
        return x * self.steps


class Broken(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(8, 8)

    def forward(self, x: Tensor, k: int):
        h = self.fc(x)
        torch._dynamo.graph_break()
        return h.relu() * k


def takes_lists(x: Tensor, rows: Any):
    return x + sum(row.sum() for row in rows)


def takes_a_dict(x: Tensor, batch: Any):
    return x * batch["weight"] + batch["shift"]


def looks_at_sizes(x: Tensor, limit: int):
    if x.shape[0] > limit:
        return x[:limit].sin()
    return x.cos() if x.shape[-1] % 2 else x.tan()


def steps(x: Tensor, lr: float, momentum: float = 0.9):
    return x - lr * x * momentum


def concatenates(x: Tensor, y: Tensor):
    return torch.cat([x, y]) if x.dtype == y.dtype else x.sum() + y.sum()


class Drifting(nn.Module):
    """Changes a float on each call."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = 0.5

    def forward(self, x: Tensor):
        self.scale += 0.25
        return x * self.scale


def hooked():
    model = Mlp()
    model.layers[0].register_forward_hook(lambda _module, _args, output: output * 2)
    model.register_forward_hook(lambda _module, _args, output: output + 1)
    return model


def normalized():
    model = Mlp()
    nn.utils.parametrizations.weight_norm(model.layers[0])
    return model


def skips_a_branch(x: Tensor, flag: bool):
    if flag:
        for _ in range(2):
            torch._dynamo.graph_break()
            x = x + 1
    return x.sin()


def global_scale(x: Tensor, k: float):
    return x * GLOBAL_SCALE * k


GLOBAL_SCALE = 1.5


def marked(n: int) -> Tensor:
    tensor = torch.ones(n, 8)
    torch._dynamo.mark_dynamic(tensor, 0)
    return tensor


COMPILERS: tuple[Callable[..., Any], ...] = (
    lambda *args, **options: torch.compile(*args, **options),
    lambda *args, **options: torch.compile(*args, **options),
    lambda *args, **options: torch.compile(*args, **options),
)
"""`torch.compile` on different lines: of the regions of one line, a script keeps the newest."""


@dataclass(frozen=True)
class CheckedModel:
    """A model and the inputs to choose from."""

    name: str
    make: Callable[[], Callable[..., Any]]
    first: tuple[Any, ...]
    """The arguments that it is compiled with."""
    choices: tuple[tuple[str, ...], ...]
    """Texts for each positional argument."""
    named: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Texts for each keyword argument."""
    options: tuple[dict[str, Any], ...] = ({},)
    """The arguments of each `torch.compile` of the same function; each call is made to one of the results."""
    config: dict[str, Any] = field(default_factory=dict)
    """Settings of Dynamo."""

    def draw(self, rng: random.Random) -> tuple[str, ...]:
        """Return the texts of one random call."""
        texts = [rng.choice(choices) for choices in self.choices]
        return *texts, *(f"{n}={rng.choice(c)}" for n, c in self.named.items() if rng.random() < 0.5)


_N = ("0", "1", "2", "3", "4", "5", "8", "13")
_FLOATS = tuple(f"f32[{n}, 8]" for n in _N)
_DTYPES = ("f64[4, 8]", "bf16[4, 8]", "f32[4, 8] grad", "f32[4, 8] strides[1, 4]", "f32[4, 8, 1]", "f32[8]")

CHECKED_MODELS = (
    CheckedModel("mlp", Mlp, (torch.ones(4, 8),), ((*_FLOATS, *_DTYPES[:4]),)),
    CheckedModel("branching", Branching, (torch.ones(4, 8), True), (_FLOATS, ("True", "False", "1")),
            {"scale": ("1.0", "0.5", "2.0", "2")}),
    CheckedModel("attention", Attention, (torch.ones(4, 8), torch.ones(4, 8)), (_FLOATS[1:], _FLOATS[1:]),
            {"mask": ("None", "bool[1, 1]")}),
    CheckedModel("counting", Counting, (torch.ones(4, 8),), (("f32[4, 8]", "f32[5, 8]", "f64[4, 8]"),)),
    CheckedModel("broken", Broken, (torch.ones(4, 8), 2), (_FLOATS, ("0", "1", "2", "3", "7"))),
    CheckedModel("lists", lambda: takes_lists, (torch.ones(4, 8), [torch.ones(2), torch.ones(3)]),
            ((*_FLOATS, *_DTYPES), ("[]", "[f32[2], f32[3]]", "[f32[2]]", "(f32[2], f32[3])", "[f32[5], f32[3]]"))),
    CheckedModel("dict", lambda: takes_a_dict, (torch.ones(4, 8), {"weight": 2.0, "shift": torch.ones(8)}),
            (_FLOATS, ("{weight: 2.0, shift: f32[8]}", "{weight: 3, shift: f32[8]}", "{weight: 2.0, shift: f64[8]}",
                       "{weight: 2.0, shift: 1}"))),
    CheckedModel("sizes", lambda: looks_at_sizes, (torch.ones(4, 8), 6),
            ((*_FLOATS, "f32[4, 7]", "f32[9, 9]"), ("2", "6", "7", "0"))),
    CheckedModel("steps", lambda: steps, (torch.ones(4, 8), 0.1),
            ((*_FLOATS[2:], *_DTYPES), ("0.1", "0.01", "1", "0.2")), {"momentum": ("0.9", "0.5")}),
    CheckedModel("concatenates", lambda: concatenates, (torch.ones(4, 8), torch.ones(4, 8)),
            ((*_FLOATS, "f64[4, 8]"), (*_FLOATS, "f64[4, 8]", "i64[4, 8]"))),
)  # fmt: skip

_STEPS = ((_FLOATS[2], *_DTYPES[:4]), ("0.1", "0.01", "1", "0.2", "2"))
_STEPS_FIRST = (torch.ones(4, 8), 0.1)
_THREE = {"recompile_limit": 3}
_FULL = {"recompile_limit": 2, "fullgraph": True}
_ISOLATED = {"isolate_recompiles": True, "recompile_limit": 2}

OPTION_MODELS = (
    CheckedModel("limited", lambda: steps, _STEPS_FIRST, _STEPS, options=(_THREE,)),
    CheckedModel("limited broken", Broken, (torch.ones(4, 8), 2), (_FLOATS, ("0", "1", "2", "3", "7")),
            options=(_THREE,)),
    CheckedModel("limited fullgraph", lambda: steps, _STEPS_FIRST, _STEPS, options=(_FULL,)),
    CheckedModel("two limits", lambda: steps, _STEPS_FIRST, _STEPS, options=({}, {"recompile_limit": 4})),
    CheckedModel("isolated", lambda: steps, _STEPS_FIRST, _STEPS, options=({}, _ISOLATED, _ISOLATED)),
    CheckedModel("isolated fullgraph", lambda: steps, _STEPS_FIRST, _STEPS,
            options=({**_ISOLATED, "fullgraph": True}, {"isolate_recompiles": True})),
    CheckedModel("dynamic mlp", Mlp, (torch.ones(4, 8),), ((*_FLOATS, *_DTYPES[:4]),), options=({"dynamic": True},)),
    CheckedModel("dynamic steps", lambda: steps, _STEPS_FIRST, _STEPS, options=({"dynamic": True},)),
    CheckedModel("dynamic attention", Attention, (torch.ones(4, 8), torch.ones(4, 8)), (_FLOATS, _FLOATS),
            options=({"dynamic": True},)),
    CheckedModel("dynamic sizes", lambda: looks_at_sizes, (torch.ones(4, 8), 6),
            ((*_FLOATS, "f32[4, 7]", "f32[9, 9]", *_DTYPES), ("2", "6", "7", "0")), options=({"dynamic": True},)),
    CheckedModel("static sizes", lambda: looks_at_sizes, (torch.ones(4, 8), 6),
            ((*_FLOATS, "f32[4, 7]", "f32[9, 9]"), ("2", "6", "7", "0")), options=({"dynamic": False},)),
    CheckedModel("both kinds", lambda: looks_at_sizes, (torch.ones(4, 8), 6),
            ((*_FLOATS, "f32[4, 7]", "f32[9, 9]"), ("2", "6", "7", "0")), options=({}, {"dynamic": True})),
    CheckedModel("marked", lambda: concatenates, (marked(4), torch.ones(4, 8)), (_FLOATS, (*_FLOATS, "f64[4, 8]"))),
    CheckedModel("isolated broken", Broken, (torch.ones(4, 8), 2), (_FLOATS, ("0", "1", "2", "3", "7")),
            options=(_ISOLATED, {"isolate_recompiles": True})),
    CheckedModel("drifting", Drifting, (torch.ones(4, 8),), (("f32[4, 8]", "f32[5, 8]", "f64[4, 8]"),)),
    CheckedModel("drifting dynamic", Drifting, (torch.ones(4, 8),), (("f32[4, 8]", "f32[5, 8]", "f64[4, 8]"),),
            options=({"dynamic": True},)),
    CheckedModel("hooked", hooked, (torch.ones(4, 8),), ((*_FLOATS, *_DTYPES[:4]),)),
    CheckedModel("normalized", normalized, (torch.ones(4, 8),), ((*_FLOATS, *_DTYPES[:4]),), options=(_THREE,)),
    CheckedModel("skipped", lambda: skips_a_branch, (torch.ones(4, 8), False), (_FLOATS, ("False",) * 9 + ("True",)),
            options=({}, {"isolate_recompiles": True})),
    CheckedModel("global", lambda: global_scale, (torch.ones(4, 8), 2.0), (_FLOATS, ("2.0", "3.0", "1"))),
    CheckedModel("accumulated", lambda: steps, _STEPS_FIRST, _STEPS, options=(_ISOLATED, _ISOLATED, _ISOLATED),
            config={"accumulated_recompile_limit": 4}),
    CheckedModel("accumulated shared", lambda: steps, _STEPS_FIRST, _STEPS, config={"accumulated_recompile_limit": 3}),
    CheckedModel("fails at the limit", lambda: steps, _STEPS_FIRST, _STEPS,
            config={"recompile_limit": 3, "fail_on_recompile_limit_hit": True}),
    CheckedModel("never recompiles", lambda: steps, _STEPS_FIRST, _STEPS, options=({}, {"recompile_limit": 1}),
            config={"error_on_recompile": True}),
)  # fmt: skip
