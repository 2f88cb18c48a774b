"""A training loop as a script: the model is compiled, and so is the optimizer's step.

Look at: the timeline in the timing pane (6, then v). The model and `Adam.step` are two compiled regions. The model's
backward is compiled when it first runs. The learning rate is a Python float, built into the code of the step, so a
new value recompiles it.
Edit: give the optimizer a tensor, `lr = torch.tensor(0.1)`, and change it with `group["lr"].fill_(rate)`: one compile
serves all values. Or set `use_autocast = True`: the second half of the steps then runs under autocast, and autocast
is part of the guards.
"""

import torch
from torch import nn

torch.manual_seed(0)
steps = 12
use_autocast = False
lr = 0.1

model = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.LayerNorm(64), nn.Linear(64, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=lr, capturable=False)
compiled = torch.compile(model)
update = torch.compile(optimizer.step)

for step in range(steps):
    rate = 0.1 if step < 4 else 0.05 if step < 8 else 0.01
    for group in optimizer.param_groups:
        if isinstance(group["lr"], torch.Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate
    for _ in range(2):  # two batches to a step: their gradients add up
        x = torch.randn(64, 32)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=use_autocast and step >= steps // 2):
            output = compiled(x)
        loss = (output.float().squeeze(-1) - x.sum(-1)).pow(2).mean() / 2
        loss.backward()
    update()
    optimizer.zero_grad()
    print(f"step {step}: lr {rate}, loss {2 * loss.item():.3f}")
