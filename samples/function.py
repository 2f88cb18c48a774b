"""A plain function rather than a module: RMS normalization followed by SwiGLU's gate.

Look at: a function compiles as a module does. Its arguments are the guards, and there is no module to look through.
Edit: make `x` a bfloat16 tensor, `x.bfloat16()` in the last line. The kernel converts it to float32 as it loads it, and
never rounds to bfloat16 in between, as eager does after each op.
"""

import torch
import torch.nn.functional as F


def gated_norm(x, gate, weight, eps: float = 1e-6):
    scale = torch.rsqrt(x.pow(2).mean(dim=-1, keepdim=True) + eps)
    return x * scale * weight * F.silu(gate)


x, gate, weight = torch.randn(128, 1024), torch.randn(128, 1024), torch.ones(1024)

model = gated_norm
inputs = (x, gate, weight)
