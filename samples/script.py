"""A script that calls torch.compile itself: `tcexplore samples/script.py -- --steps 5`.

Look at: there is no `model` and no `inputs` here. tcexplore observes what the script compiles, with the
inputs that it uses. The last step has a smaller batch and recompiles with a dynamic batch size.
Edit: make every batch 64 (`batch = 64`) and save: nothing recompiles. With `-- --steps 2000`, pane 6 times the steps.
"""

import argparse

import torch
from torch import nn


class Regression(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(32, 64), nn.Tanh(), nn.Linear(64, 1))

    def forward(self, x):
        return self.layers(x).squeeze(-1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=3)
    steps = parser.parse_args().steps

    model = Regression()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    compiled = torch.compile(model)
    for step in range(steps):
        batch = 24 if step == steps - 1 else 64
        x = torch.randn(batch, 32)
        loss = (compiled(x) - x.sum(-1)).pow(2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(f"step {step}: loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
