"""The model file of the fake runs, and locations in it."""

from __future__ import annotations

from tcexplore.events import Location

FOLDER = "/home/ada/project"
FILE = f"{FOLDER}/samples/mlp.py"

SOURCE = '''"""A perceptron with one graph break.

Delete the print in forward and save: two graphs become one.
"""

import torch
import torch.nn.functional as F
from torch import nn


class MLP(nn.Module):
    """Widen, normalize,
    activate, narrow."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1 = nn.Linear(512, 1024)
        self.norm = nn.LayerNorm(1024)
        self.fc2 = nn.Linear(1024, 512)

    def forward(self, x):
        h = self.fc1(x)
        h = F.gelu(self.norm(h))
        h = h * 1.2
        print("mean", h.mean())
        return self.fc2(h).relu()


model = MLP()
inputs = (torch.randn(64, 512),)
'''

_LINES = SOURCE.split("\n")


def line(text: str) -> int:
    """Return the number of the first line that contains `text`."""
    return next(n for n, candidate in enumerate(_LINES, 1) if text in candidate)


def at(text: str, function: str = "forward") -> Location:
    """Return the location of the first line that contains `text`."""
    return Location(FILE, line(text), function)


def without_break() -> str:
    """Return the file without the print."""
    return SOURCE.replace('        print("mean", h.mean())\n', "")
