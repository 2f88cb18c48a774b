"""A small language model in training. Run it with `--train`.

Look at: the kernels of the forward and of the backward pass, and the forward kernels that also write what the
backward pass needs. The backward pass starts at `loss`, which is not compiled itself.
Edit: set `tied = True`. Embedding and head then share one weight, and the backward pass adds their two gradients.
"""

import torch
import torch.nn.functional as F
from torch import nn

VOCABULARY, FEATURES, LAYERS, TOKENS = 512, 128, 2, 64

tied = False


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1 = nn.LayerNorm(FEATURES)
        self.qkv = nn.Linear(FEATURES, 3 * FEATURES)
        self.out = nn.Linear(FEATURES, FEATURES)
        self.norm2 = nn.LayerNorm(FEATURES)
        self.up = nn.Linear(FEATURES, 4 * FEATURES)
        self.down = nn.Linear(4 * FEATURES, FEATURES)

    def forward(self, x):
        batch, tokens, _ = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, tokens, 3, 4, FEATURES // 4).permute(2, 0, 3, 1, 4)
        h = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(h.transpose(1, 2).reshape(batch, tokens, FEATURES))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class LanguageModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, FEATURES)
        self.position = nn.Parameter(torch.zeros(TOKENS, FEATURES))
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(FEATURES)
        self.head = nn.Linear(FEATURES, VOCABULARY, bias=False)
        if tied:
            self.head.weight = self.embedding.weight

    def forward(self, tokens):
        x = self.embedding(tokens) + self.position
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


tokens = torch.randint(VOCABULARY, (4, TOKENS + 1))


def loss(logits):
    return F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten().to(logits.device))


model = LanguageModel()
inputs = (tokens[:, :-1],)
