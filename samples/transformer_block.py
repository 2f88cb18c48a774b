"""A pre-norm transformer block.

Look at: four matrix products and the attention are extern kernels, and everything between them is fused: the residual
addition shares a kernel with the normalization that follows it.
Edit: normalize after the first addition instead: `x = self.norm1(x + self.attention(x))`. The addition and both
normalizations become one kernel, and the kernel before the attention disappears.
"""

import torch
import torch.nn.functional as F
from torch import nn


class Attention(nn.Module):
    def __init__(self, features: int, heads: int):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(features, 3 * features)
        self.out = nn.Linear(features, features)

    def forward(self, x):
        batch, tokens, features = x.shape
        q, k, v = self.qkv(x).view(batch, tokens, 3, self.heads, features // self.heads).permute(2, 0, 3, 1, 4)
        h = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(h.transpose(1, 2).reshape(batch, tokens, features))


class Block(nn.Module):
    def __init__(self, features: int = 256, heads: int = 4):
        super().__init__()
        self.norm1 = nn.LayerNorm(features)
        self.attention = Attention(features, heads)
        self.norm2 = nn.LayerNorm(features)
        self.up = nn.Linear(features, 4 * features)
        self.down = nn.Linear(4 * features, features)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


model = Block().eval()
inputs = (torch.randn(4, 128, 256),)
