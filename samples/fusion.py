"""LayerNorm, GELU, scale and shift: four lines, one kernel.

Look at: the code pane. One generated kernel holds the ops of all four lines. The intermediate tensors never reach
memory.
Edit: put a matrix product between two of the lines, for instance `h = h @ self.weight`. The kernel splits in two,
with the product between them.
"""

import torch
import torch.nn.functional as F
from torch import nn


class NormGelu(nn.Module):
    def __init__(self, features: int = 1024):
        super().__init__()
        self.norm = nn.LayerNorm(features)
        self.scale = nn.Parameter(torch.full((features,), 1.5))
        self.shift = nn.Parameter(torch.full((features,), 0.25))
        self.weight = nn.Parameter(torch.eye(features))

    def forward(self, x):
        h = self.norm(x)
        h = F.gelu(h)
        h = h * self.scale
        return h + self.shift


model = NormGelu()
inputs = (torch.randn(256, 1024),)
