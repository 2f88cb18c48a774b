"""A model with a unique constant on each line, which identifies the line of a kernel's statement."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812


class Constants(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Embedding(16, 48)
        self.linear = torch.nn.Linear(48, 48)

    def forward(self, x: torch.Tensor, index: torch.Tensor) -> tuple[torch.Tensor, ...]:
        a = self.linear(x) * 1.0103
        b = a + 2.0107
        c = torch.relu(b) * 3.0109
        d = c.sum(-1, keepdim=True) * 0.0113
        e = torch.softmax(b * 0.5117, -1)
        f = F.layer_norm(e, (48,), eps=1.0127e-05)
        g = torch.where(f > 0.0131, f, c)
        h = g.clamp(min=-0.7139, max=0.9149)
        i = torch.full_like(h, 5.0151)
        j = h - i
        k = F.leaky_relu(j, 0.2157) + d
        m = F.pad(k, (1, 1), value=0.3163)
        n = torch.cat([m * 1.4167, m.sin()], -1)
        o = n.var(-1) + 0.4177
        p = F.elu(o, alpha=1.3179)
        q = k.to(torch.bfloat16) * 2.515625
        r = n.cumsum(-1) * 0.6191
        s = n.amax(-1) * 0.7193
        t = self.table(index) * 1.6197
        u = k.t().contiguous() + 1.7199
        v = n.sum() * 0.0201
        w = torch.arange(48) * 0.9203
        y = torch.sigmoid(a * 1.1209) + w
        z = k.flatten().argmax() * 1.2211
        return p, q, r, s, t, u, v, y, z, F.gelu(y * 0.8213)


def make() -> tuple[Constants, tuple[torch.Tensor, ...]]:
    """Return the model and its inputs.

    48 and 98 columns leave a tail after vectors of 16; few rows are not parallelized.
    """
    torch.manual_seed(0)
    return Constants(), (torch.randn(24, 48), torch.randint(0, 16, (24,)))
