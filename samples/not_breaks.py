"""Python code that many guides list as graph breaks, but that does not break.

Look at: 0 graph breaks, one graph. Every line below is traced, or evaluated once during tracing.
Edit: add a line that you are unsure about, and save.
"""

import math
from dataclasses import dataclass
from functools import partial

import torch
from torch import nn


@dataclass
class Scale:
    factor: float = 0.5


def halves(x):
    yield x[: len(x) // 2]
    yield x[len(x) // 2 :]


class Pythonic(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(128, 128) for _ in range(3))
        self.calls = 0

    def forward(self, x, **options):
        outputs = []
        for index, layer in enumerate(self.layers):  # a list that grows in a loop
            outputs.append(layer(x) * (index + 1))
        x = torch.stack([out.relu() for out in outputs]).sum(0)  # a comprehension
        x = torch.from_numpy(x.cpu().numpy() + 1.0)  # to NumPy, NumPy arithmetic, and back
        if x.shape[0] > 32 and x.dtype is torch.float32:  # a branch on a shape or dtype, not on values
            x = x * math.sqrt(x.shape[-1])
        x = x * Scale().factor * options.get("gain", 1.0)  # dataclasses, keyword arguments, dict methods
        x = partial(torch.clamp, min=-1.0)(x)  # functools.partial
        x = torch.cat(list(halves(x)))  # a generator
        try:  # a try block, and an exception raised and caught inside
            x = x + {"bias": 1.0}["offset"]
        except KeyError:
            x = x + 1.0
        with torch.autocast("cpu", enabled=False):  # torch's context managers
            label = f"{len(outputs)} layers"  # an f-string, as long as no values are in it
        assert isinstance(x, torch.Tensor), label
        self.calls += 0  # a write to an attribute
        return {"x": x, "layers": len(outputs)}  # a dict out


model = Pythonic()
inputs = {"x": torch.randn(64, 128), "gain": 2.0}
