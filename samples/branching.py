"""A Python bool that picks the branch: one graph for each value.

Look at: `inputs` is a list of calls, made one after another. The second call fails the guard on `residual` and compiles
graph 0/1. The third call reuses 0/0. Each graph holds only the branch that was taken; there is no `if` in it.
Edit: vary the batch size instead: `[(x, True), (x[:16], True), (x[:8], True)]`. The second size compiles a graph with a
dynamic batch size, and the third call reuses it.
"""

import torch
from torch import nn


class Branching(nn.Module):
    def __init__(self, features: int = 256):
        super().__init__()
        self.fc = nn.Linear(features, features)

    def forward(self, x, residual: bool):
        h = torch.relu(self.fc(x))
        if residual:
            return x + h
        return h


model = Branching()
x = torch.randn(32, 256)
inputs = [(x, True), (x, False), (x, True)]
