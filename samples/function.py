"""A plain function instead of a module: RMS normalization followed by the gate of SwiGLU.

Look at: a function compiles as a module does. The guards are on its arguments; there is no module to check.
Edit: make `x` a bfloat16 tensor: `x.bfloat16()` in the last line. The kernel converts it to float32 when it loads it
and does not round to bfloat16 in between, as eager does after each op.
"""

import torch
import torch.nn.functional as F


def gated_norm(x, gate, weight, eps: float = 1e-6):
    scale = torch.rsqrt(x.pow(2).mean(dim=-1, keepdim=True) + eps)
    return x * scale * weight * F.silu(gate)


x, gate, weight = torch.randn(128, 1024), torch.randn(128, 1024), torch.ones(1024)

model = gated_norm
inputs = (x, gate, weight)
