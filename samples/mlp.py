"""A small MLP whose output mixes two pointwise branches, with one graph break between them.

Look at: the breaks pane. `.item()` turns a tensor into a Python number, so Dynamo ends its graph there. Both branches
are written to memory, and a second graph reads them again.
Edit: delete `.item()` and save. The mix stays a tensor, one graph remains, and one kernel computes everything after the
MLP without writing a branch to memory.
"""

import torch
import torch.nn.functional as F
from torch import nn


class MLP(nn.Module):
    def __init__(self, features: int = 256, hidden: int = 64):
        super().__init__()
        self.fc1 = nn.Linear(features, hidden)
        self.fc2 = nn.Linear(hidden, 3 * features)
        self.mix = nn.Parameter(torch.tensor(0.7))

    def forward(self, x, style):
        scale, shift, gate = self.fc2(F.relu(self.fc1(style))).chunk(3, dim=-1)
        a = F.relu(x * scale + shift)
        b = F.relu(x * gate - shift)
        mix = self.mix.sigmoid().item()
        return F.hardswish(a * mix + b * (1.0 - mix)) + x


model = MLP().eval()
inputs = (torch.randn(1024, 8, 256), torch.randn(8, 256))
