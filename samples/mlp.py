"""A multilayer perceptron that ends in one graph break.

Look at: the breaks pane. `.item()` turns a tensor into a Python number, so Dynamo ends its graph there, runs the
number through Python, and starts a second graph after it.
Edit: delete `.item()` and save. The scale stays a tensor, one graph remains, and the ops after the break are fused.
"""

import torch
import torch.nn.functional as F
from torch import nn


class MLP(nn.Module):
    def __init__(self, features: int = 512, hidden: int = 1024):
        super().__init__()
        self.fc1 = nn.Linear(features, hidden)
        self.norm = nn.LayerNorm(hidden)
        self.fc2 = nn.Linear(hidden, features)

    def forward(self, x):
        h = self.fc1(x)
        h = F.gelu(self.norm(h))
        y = self.fc2(h)
        scale = 1.0 / y.abs().max().item()
        return torch.tanh(y * scale)


model = MLP().eval()
inputs = (torch.randn(64, 512),)
